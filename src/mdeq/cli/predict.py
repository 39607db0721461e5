"""`mdeq predict`: use a trained model on image files."""

import re
from pathlib import Path
from typing import Any

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
from mdeq.cli.stream import predict_stream
from mdeq.data import SUFFIXES
from mdeq.engine import create_accelerator, open_bundle, predict
from mdeq.engine.pictures import save_overlay
from mdeq.models import MDEQ

USAGE = """mdeq predict MODEL IMAGE [IMAGE ...]
       mdeq predict MODEL --stream FOLDER [--masks DIR]"""
DESCRIPTION = """Classify and segment image files: prints the most probable classes, and writes
an overlay of the predicted mask for every image. With --stream the images are frames of a video:
each solve starts from the equilibrium of the frame before, which takes fewer evaluations of f.
Options such as --solver.max_steps 8 change how the equilibrium is found: solver, tol, max_steps,
memory and more (docs/solvers.md)."""


def main(arguments: list[str]) -> int:
    """Run the command."""
    arguments, overrides = split_overrides(arguments, ("solver",))
    parser = create_parser("predict", DESCRIPTION, USAGE)
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument("images", nargs="*", default=[], help="Image files, or folders of them")
    parser.add_argument(
        "--stream",
        type=str,
        nargs="+",
        metavar="FRAMES",
        help="The frames of a video in their order, or a folder of them: then by their names",
    )
    parser.add_argument(
        "--masks", type=str, metavar="DIR", help="Masks of frames, of the same names, to judge by"
    )
    parser.add_argument(
        "--data",
        type=str,
        metavar="DIR",
        help="Where the data of the model are, if --masks is in their coding and they have moved",
    )
    parser.add_argument(
        "--cold", type=bool, default=False, help="Start from zero at every frame, to compare"
    )
    parser.add_argument("--top", type=int, default=3, help="How many classes to print")
    parser.add_argument("--output", type=str, default="predictions", help="Folder for the overlays")
    parser.add_argument("--json", type=str, metavar="FILE", help="Also write the figures there")
    options = parse(parser, arguments)
    check_json(options.json)
    if options.top < 1:
        raise ValueError(f"--top is {options.top}; expected at least 1")
    if bool(options.images) == (options.stream is not None):
        raise ValueError("expected images, or --stream FRAMES; see mdeq predict --help")
    if options.stream is None and (options.masks is not None or options.cold):
        raise ValueError("--masks and --cold are for --stream")
    if options.masks is None and options.data is not None:
        raise ValueError("--data is for --masks")
    bundle = open_bundle(options.model)
    bundle.model.to(create_accelerator().device)
    if isinstance(bundle.model, MDEQ):
        bundle.model.solver = overridden({}, overrides).get("solver", {})
    elif overrides:
        raise ValueError("this model has no solver; leave the options for it out")
    folder = Path(options.output)
    files = _files(options.stream or options.images)
    if "segmentation" in bundle.classes:
        _check_apart(files, folder)
    if options.stream is not None:
        figures = predict_stream(
            bundle, files, folder, masks=options.masks, data=options.data, warm=not options.cold
        )
        write_json(options.json, figures)
        return 0
    rows: list[dict[str, Any]] = []
    for file in files:
        prediction = predict(bundle, file)
        row: dict[str, Any] = {"file": file}
        if prediction.probabilities is not None:
            best = prediction.probabilities.topk(min(options.top, len(prediction.probabilities)))
            row["classification"] = [
                {"class": bundle.classes["classification"][k], "probability": probability}
                for k, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
        if prediction.mask is not None:
            names = bundle.classes["segmentation"]
            target = _overlay_file(folder, file, rows)
            save_overlay(target, prediction.image, prediction.mask, names, bundle.colours)
            shares = (
                prediction.mask.flatten().bincount(minlength=len(names)) / prediction.mask.numel()
            )
            row["segmentation"] = {
                "overlay": str(target),
                "share": dict(zip(names, shares.tolist(), strict=True)),
            }
        if prediction.residual is not None:
            row["residual"], row["steps"] = prediction.residual, prediction.steps
        rows.append(row)
        print(_line(row))
    write_json(options.json, {"images": rows})
    return 0


def _check_apart(files: list[str], folder: Path) -> None:
    """No overlay takes the place of an image."""
    for file in files:
        if Path(file).resolve().parent == folder.resolve():
            raise ValueError(
                f"overlays would be written beside {file}, and could replace it; "
                "say --output with another folder"
            )


def _in_order(file: Path) -> list[tuple[int, str]]:
    """frame_2 before frame_10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", file.name)
    ]


def _files(names: list[str]) -> list[str]:
    """The files, and the image files in the folders, in order."""
    files: list[str] = []
    for name in names:
        if Path(name).is_dir():
            found = sorted(Path(name).iterdir(), key=_in_order)
            inside = [str(file) for file in found if file.suffix.lower() in SUFFIXES]
            if not inside:
                raise ValueError(f"the folder {name} has no images: no {', '.join(SUFFIXES)} file")
            files += inside
        else:
            files.append(name)
    return files


def _overlay_file(folder: Path, image: str, rows: list[dict[str, Any]]) -> Path:
    """A name in the folder that no image before has."""
    create_folder(folder)
    taken = {row["segmentation"]["overlay"] for row in rows}
    number, target = 1, folder / f"{Path(image).stem}.png"
    while str(target) in taken:
        number += 1
        target = folder / f"{Path(image).stem}-{number}.png"
    return target


def _line(row: dict[str, Any]) -> str:
    words = [f"{row['file']}:"]
    if "classification" in row:
        words.append(
            ", ".join(f"{e['class']} {100 * e['probability']:.0f} %" for e in row["classification"])
        )
    if "segmentation" in row:
        shares = sorted(row["segmentation"]["share"].items(), key=lambda each: -each[1])
        if "classification" not in row:
            largest = ", ".join(f"{name} {100 * part:.0f} %" for name, part in shares[:3])
            words.append(f"{largest} of the pixels")
        words.append(f"-> {row['segmentation']['overlay']}")
    if "residual" in row:
        words.append(f"(residual {row['residual']:.2g} after {row['steps']} evaluations of f)")
    return " ".join(words)
