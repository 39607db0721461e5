"""`mdeq bench`: measure models side by side."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from mdeq.bench import (
    PEER,
    Apart,
    Contestant,
    SolveResult,
    StepResult,
    apart,
    compare_solvers,
    compare_steps,
    configuration,
    convolution_ratio,
    parts_of_step,
)
from mdeq.cli.options import check_json, create_parser, parse, write_json
from mdeq.data import SPLITS, DataError
from mdeq.engine import create_accelerator, open_bundle
from mdeq.models import MDEQ, MDEQConfig

USAGE = """mdeq bench NAME [NAME ...] [--parts true] [--batch-size N] ...
       mdeq bench --solvers RUN [--data DIR] ..."""
DESCRIPTION = """Measure models side by side, in turns, each in a process of its own: a step of
training and an answer, their time and their peak memory, as ratios with their quartiles. A NAME
is one of `mdeq models`, fast:NAME for the recommended training mode, or torchdeq:NAME for the
same model on torchdeq, which is measured beside NAME. Ratios are to the last one named. With
--solvers, to our Anderson. Run it on a quiet machine: a job on another core slows a CPU several
times over."""


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = create_parser("bench", DESCRIPTION, USAGE)
    parser.add_argument("names", nargs="*", default=[], help="What to measure")
    parser.add_argument("--batch-size", type=int, default=32, help="Images at once")
    parser.add_argument("--image-size", type=int, default=32, help="Height and width of an image")
    parser.add_argument("--turns", type=int, default=7, help="Measurements of each")
    parser.add_argument(
        "--channels-last", type=bool, default=True, help="Store images and features that way"
    )
    parser.add_argument(
        "--parts",
        type=bool,
        default=False,
        help="Also say where the time of a training step goes",
    )
    parser.add_argument(
        "--solvers",
        type=str,
        metavar="RUN",
        help="Measure solvers on the model of a run: time until every image meets a residual",
    )
    parser.add_argument("--data", type=str, metavar="DIR", help="Where the data of the run are")
    parser.add_argument(
        "--split", choices=SPLITS, default="test", help="Whose first images are solved for"
    )
    parser.add_argument("--json", type=str, metavar="FILE", help="Also write the figures there")
    options = parse(parser, arguments)
    check_json(options.json)
    for name in ("batch_size", "image_size", "turns"):
        if getattr(options, name) < 1:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is {getattr(options, name)}; expected at least 1")
    if bool(options.names) == (options.solvers is not None):
        raise ValueError("expected names of models, or --solvers RUN; see mdeq bench --help")
    device = create_accelerator().device
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"mdeq bench measures CPUs and CUDA devices; here is a {device.type}")
    if options.parts and device.type != "cpu":
        raise ValueError("--parts is for CPUs; on a GPU, profile a step with torch.profiler")
    print(_setting(options, device))
    measure = _steps if options.solvers is None else _solvers
    figures = measure(options, device)
    write_json(options.json, {**figures, "setting": _setting(options, device)})
    return 0


def _steps(options: Any, device: torch.device) -> dict[str, Any]:
    names = with_counterparts(options.names)
    configurations = {name: configuration(name) for name in names}  # mistakes, before the work
    sizes = {"batch_size": options.batch_size, "image_size": options.image_size}
    makers = {
        name: partial(Contestant, name, **sizes, device=device, channels_last=options.channels_last)
        for name in names
    }
    figures: dict[str, Any] = {}
    with apart(makers) as contestants:
        results = compare_steps(contestants, reference=options.names[-1], turns=options.turns)
        print(steps_table(results))
        figures["rows"] = [
            {
                "seconds": result.train.seconds.median,
                "peak_mb": result.train.bytes / 1e6,
                **asdict(result),
            }
            for result in results
        ]
        if options.parts:
            figures["parts"] = {
                name: _parts(name, contestants[name], options.turns)
                for name, config in configurations.items()
                if isinstance(config, MDEQConfig) and not name.startswith(PEER)
            }
    return figures


def _parts(name: str, contestant: Apart[Contestant], turns: int) -> dict[str, Any]:
    parts = contestant.do(parts_of_step, turns=turns)
    ratio = contestant.do(convolution_ratio, turns=turns)
    print(f"\na training step of {name}, profiled")
    for part in parts:
        print(f"  {part.name:28} {1e3 * part.seconds:9.1f} ms {part.share:7.1%}")
    print(f"  f in multiples of its convolutions alone: {ratio:.2f}")
    return {
        "parts": [asdict(part) for part in parts],
        "f_against_its_convolutions": asdict(ratio),
    }


def with_counterparts(names: Sequence[str]) -> list[str]:
    """The names, each once, and then NAME for every torchdeq:NAME."""
    own = [name.removeprefix(PEER) for name in names if name.startswith(PEER)]
    return list(dict.fromkeys([*names, *own]))


def steps_table(results: Sequence[StepResult]) -> str:
    """One line for each contestant."""
    width = max(len(result.name) for result in results)
    lines = [
        f"\n{'':{width}}  {'parameters':>11}  {'training step':>13}  {'ratio':>19}  "
        f"{'peak':>8}  {'ratio':>5}  {'inference':>9}  {'ratio':>19}  {'peak':>8}  {'ratio':>5}"
    ]
    for result in results:
        train, infer = result.train, result.infer
        lines.append(
            f"{result.name:{width}}  {result.parameters:>11,}  "
            f"{1e3 * train.seconds.median:10.0f} ms  {train.seconds_ratio:.2f}  "
            f"{train.bytes / 1e6:5.0f} MB  {train.bytes_ratio:5.2f}  "
            f"{1e3 * infer.seconds.median:6.0f} ms  {infer.seconds_ratio:.2f}  "
            f"{infer.bytes / 1e6:5.0f} MB  {infer.bytes_ratio:5.2f}"
        )
    return "\n".join(lines)


def _solvers(options: Any, device: torch.device) -> dict[str, Any]:
    bundle = open_bundle(options.solvers)
    if not isinstance(bundle.model, MDEQ):
        raise ValueError(
            f"the model of {options.solvers} has no equilibrium to solve for; choose another run"
        )
    examples = bundle.parts[0].examples(options.split, options.data)
    shown = [examples[0, index] for index in range(min(options.batch_size, len(examples)))]
    for example in shown:
        if isinstance(example, DataError):
            raise example
    pixels = torch.stack([example["image"] for example in shown])  # type: ignore[index]
    images = examples.source.normalise(pixels, next(bundle.model.parameters()).dtype)
    results = compare_solvers(
        bundle.model,
        images,
        tols=(1e-2, 1e-3),
        turns=options.turns,
        reference="anderson",
        device=device,
    )
    print(solvers_table(results))
    return {"solvers": [asdict(result) for result in results]}


def solvers_table(results: Sequence[SolveResult]) -> str:
    """One line for each solver and tolerance."""
    lines = [
        f"\n{'residual':>8}  {'solver':18}  {'evaluations':>11}  {'worst sample':>12}  "
        f"{'time':>8}  {'ratio':>20}"
    ]
    for result in results:
        missed = "  missed" if result.residual > 1.01 * result.tol else ""
        lines.append(
            f"{result.tol:8g}  {result.solver:18}  {result.evaluations:11}  "
            f"{result.residual:12.2g}  {result.seconds.median:6.2f} s  {result.ratio:.2f}{missed}"
        )
    return "\n".join(lines)


def _setting(options: Any, device: torch.device) -> str:
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    size = ""
    if options.solvers is None:
        order = "channels last" if options.channels_last else "channels first"
        size = f" of {options.image_size}x{options.image_size}, {order} (torchdeq: first)"
    return (
        f"{options.turns} turns, {options.batch_size} images{size}, {where}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    )
