"""`mdeq models`: list the models."""

from typing import Any

from mdeq.cli.options import check_json, create_parser, parse, write_json
from mdeq.models import SHIPPED, configure, count_parameters, list_models
from mdeq.solvers import unknown


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = create_parser("models", "List the models that recipes and mdeq.create_model know.")
    parser.add_argument("pattern", nargs="?", default="*", help='Such as "mdeq_*"')
    parser.add_argument("--json", type=str, metavar="FILE", help="Also write the list there")
    options = parse(parser, arguments)
    check_json(options.json)
    names = list_models(options.pattern)
    if not names:
        raise ValueError(unknown("model", options.pattern, list_models()))
    rows: list[dict[str, Any]] = []
    for name in names:
        config = configure(name)
        rows.append(
            {
                "name": name,
                "parameters": count_parameters(config),
                "channels": list(config.channels),
                "tasks": dict(config.tasks),
            }
        )
    print(f"{'name':30} {'parameters':>11}  {'channels':22} tasks")
    for row in rows:
        channels = ", ".join(map(str, row["channels"]))
        tasks = ", ".join(f"{task} ({count})" for task, count in row["tasks"].items())
        size = "?" if row["parameters"] is None else f"{row['parameters']:,}"
        print(f"{row['name']:30} {size:>11}  {channels:22} {tasks}")
    if any(row["parameters"] is None for row in rows):
        print("\n?: not installed; pip install segmentation-models-pytorch")
    shipped = {name: preset for name, preset in SHIPPED.items() if preset in names}
    for name, preset in shipped.items():
        print(f"\ntrained, in the package: {name} ({preset}), for mdeq predict {name} PICTURE")
    write_json(options.json, {"models": rows, "shipped": shipped})
    return 0
