"""`mdeq evaluate`: measure a trained model."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeGuard

from jsonargparse import Namespace

from mdeq.cli.options import (
    MODEL_HELP,
    check_json,
    create_folder,
    create_parser,
    overridden,
    parse,
    split_overrides,
    write_json,
)
from mdeq.data import SPLITS, Examples
from mdeq.engine import (
    Bundle,
    budgets_table,
    create_accelerator,
    evaluate,
    figures_table,
    open_bundle,
    together,
)
from mdeq.engine.windows import Window
from mdeq.implicit import Unrolled, evaluations_after
from mdeq.models import MDEQ, Model

BUDGETS = (1, 2, 4, 8, 15, 30)
DESCRIPTION = """Measure a trained model on a split of its data. Options such as
--solver.max_steps 8 change how the equilibrium is found: solver, tol, max_steps, memory and more
(docs/solvers.md)."""


def main(arguments: list[str]) -> int:
    """Run the command."""
    arguments, overrides = split_overrides(arguments, ("solver",))
    options = _read(arguments)
    bundle = open_bundle(options.model)
    _check(options, bundle)
    found = [
        part.examples(options.split, data)
        for part, data in zip(bundle.parts, (options.data, options.second_data), strict=False)
    ]
    windows = [
        options.window or part.window if list(part.classes) == ["segmentation"] else None
        for part in bundle.parts
    ]
    if options.window is not None and not any(windows):
        raise ValueError("--window is for data that have masks and nothing else; leave it out")
    accelerator = create_accelerator()
    model = bundle.model.to(accelerator.device)
    if isinstance(model, MDEQ):
        model.solver = overridden({}, overrides).get("solver", {})
    elif overrides:
        raise ValueError("this model has no solver; leave the options for it out")

    def measure() -> dict[str, Any]:
        parts = [
            evaluate(
                model,
                examples,
                part.classes,
                accelerator=accelerator,
                batch_size=options.batch_size or part.batch_size,
                weights=bundle.tasks,
                workers=options.workers,
                window=window,
            )
            for part, examples, window in zip(bundle.parts, found, windows, strict=True)
        ]
        return together([part for part in parts if part is not None])

    say = print if accelerator.is_main_process else _keep_silent
    figures = measure()
    figures["parameters"] = sum(p.numel() for p in model.parameters())
    if _is_solved(model):
        figures["solver"] = asdict(model.solver)
    say(figures_table(figures, bundle.classes), flush=True)
    if options.budgets and _is_solved(model):
        figures["budgets"] = []
        for budget in BUDGETS:
            model.solver = {"max_steps": budget}
            figures["budgets"].append({"max_steps": budget, **measure()})
        say(f"\n{budgets_table(figures['budgets'], evaluations_after(model.backward))}")
    if accelerator.is_main_process:
        write_json(options.json, figures)
    if options.pictures is not None and accelerator.is_main_process:
        index = list(bundle.parts).index(bundle.part("segmentation"))
        _draw(options.pictures, bundle, found[index], figures, windows[index])
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return 0


def _read(arguments: list[str]) -> Namespace:
    parser = create_parser("evaluate", DESCRIPTION)
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument(
        "--data",
        type=str,
        metavar="DIR",
        help="Where the data are; default: where training found them",
    )
    parser.add_argument(
        "--second-data", type=str, metavar="DIR", help="Where the data of a second dataset are"
    )
    parser.add_argument(
        "--split", choices=SPLITS, help="What to measure on; default: test, or else val"
    )
    parser.add_argument("--batch-size", type=int, help="Images at once; default: as in training")
    parser.add_argument(
        "--budgets",
        type=bool,
        default=False,
        help=f"Also measure with at most {', '.join(map(str, BUDGETS))} evaluations of f, in turn",
    )
    parser.add_argument("--workers", type=int, default=0, help="Processes that load data")
    parser.add_argument(
        "--window",
        type=list[int],
        metavar="[H, W]",
        help="Segment in parts of this height and width, to save memory; default: as in training",
    )
    parser.add_argument(
        "--pictures",
        type=str,
        metavar="DIR",
        help="Also draw eight images beside the truth, a confusion matrix and the IoU of classes",
    )
    parser.add_argument("--json", type=str, metavar="FILE", help="Also write the figures there")
    options = parse(parser, arguments)
    check_json(options.json)
    if options.batch_size is not None and options.batch_size < 1:
        raise ValueError(f"--batch-size is {options.batch_size}; expected at least 1")
    if options.window is not None and (len(options.window) != 2 or min(options.window) < 1):
        raise ValueError(f"--window is {options.window}; expected height and width: [512, 1024]")
    return options


def _check(options: Namespace, bundle: Bundle) -> None:
    """What was asked for is something that the model has."""
    if options.pictures is not None and "segmentation" not in bundle.classes:
        raise ValueError("--pictures is for models that segment; leave it out")
    if options.second_data is not None and len(bundle.parts) < 2:
        raise ValueError("--second-data is for models of two datasets; leave it out")
    if options.budgets and not _is_solved(bundle.model):
        raise ValueError("--budgets is for models with a solver; leave it out")


def _is_solved(model: Model) -> TypeGuard[MDEQ]:
    return isinstance(model, MDEQ) and not isinstance(model.backward, Unrolled)


def _keep_silent(*_: object, **__: object) -> None:
    """What other processes than the first say."""


def _draw(
    folder: str,
    bundle: Bundle,
    examples: Examples,
    figures: dict[str, Any],
    window: Window | None,
) -> None:
    from mdeq.engine.pictures import save_pictures  # matplotlib is slow to import

    names = bundle.classes["segmentation"]
    create_folder(Path(folder))
    save_pictures(
        Path(folder), bundle.model, examples, figures, names, bundle.colours, window=window
    )
    print(f"pictures are in {folder}")
