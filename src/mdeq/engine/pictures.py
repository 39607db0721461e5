"""Pictures: overlays of masks, and the summary of a run."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from mdeq.data import IGNORED, Colour, DataError, Examples
from mdeq.engine.tasks import by_task
from mdeq.engine.windows import Window, in_windows
from mdeq.models import MDEQ, Model


def overlay(
    image: Tensor, mask: Tensor, colours: Sequence[Colour | None], *, strength: float = 0.7
) -> np.ndarray[Any, Any]:
    """The classes of a mask (H, W) over an image (3, H, W) in 0..1, (H, W, 3).

    The image is shown in grey, so that the colours are those of the legend; it shows alone where
    a class has no colour. What is ignored is dark.
    """
    table = torch.zeros(256, 3)
    painted = torch.zeros(256, dtype=torch.bool)
    painted[IGNORED] = True
    for k, colour in enumerate(colours):
        if colour is not None:
            table[k], painted[k] = torch.tensor(colour) / 255, True
    classes = mask.cpu().long()
    grey = image.cpu().mean(dim=0)[..., None].expand(-1, -1, 3)
    mixed = grey * (1 - strength) + table[classes] * strength
    shown: np.ndarray[Any, Any] = torch.where(painted[classes][..., None], mixed, grey).numpy()
    return shown


def patches(names: Sequence[str], colours: Sequence[Colour | None], which: Any) -> list[Patch]:
    """The legend of some classes; those without a colour need none."""
    legend = [
        Patch(color=tuple(part / 255 for part in colour), label=names[k])
        for k in which
        if k < len(colours) and (colour := colours[k]) is not None
    ]
    return [*legend, Patch(color="black", label="ignored")] if IGNORED in which else legend


def save_legend(file: Path, names: Sequence[str], colours: Sequence[Colour | None]) -> None:
    """Which colour is which class, as a picture of its own."""
    figure = Figure(figsize=(2.4, 0.5 + 0.26 * len(names)))
    handles = patches(names, colours, range(len(names)))
    figure.legend(handles=handles, loc="center", frameon=False)
    figure.savefig(file, dpi=120)


def save_overlay(
    file: Path,
    image: Tensor,
    mask: Tensor,
    names: Sequence[str],
    colours: Sequence[Colour | None],
    truth: Tensor | None = None,
) -> None:
    """An image beside its overlay, and that of the truth if it is known, with a legend."""
    masks = [("predicted", mask.cpu())]
    if truth is not None:
        masks.append(("truth", truth.cpu()))
    height, width = mask.shape
    panel = 4.2 * width / height
    figure = Figure(figsize=(panel * (1 + len(masks)) + 1.6, 4.2), layout="constrained")
    picture, *others = figure.subplots(1, 1 + len(masks))
    picture.imshow(image.cpu().permute(1, 2, 0).numpy())
    for axes, (title, classes) in zip(others, masks, strict=True):
        axes.imshow(overlay(image, classes, colours))
        if truth is not None:
            axes.set_title(title)
    present = torch.cat([classes.flatten().long() for _, classes in masks]).unique().tolist()
    others[-1].legend(
        handles=patches(names, colours, present),
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        frameon=False,
    )
    for axes in (picture, *others):
        axes.set_axis_off()
    figure.savefig(file, dpi=120)


def save_summary(
    file: Path,
    records: Sequence[dict[str, Any]],
    model: Model,
    examples: Examples,
    classes: dict[str, list[str]],
    colours: Sequence[Colour | None],
    title: str,
    *,
    window: Window | None = None,
) -> None:
    """Learning curves, the convergence of every scale, and predictions, in one picture."""
    figure = Figure(figsize=(13, 8), layout="constrained")
    figure.suptitle(title)
    curves, below = np.asarray(figure.subfigures(2, 1, height_ratios=(1, 1.15)))
    loss, score, *convergence = curves.subplots(1, 3 if isinstance(model, MDEQ) else 2)
    _draw_losses(loss, records)
    _draw_scores(score, records)
    weight = next(model.parameters())
    shown: list[Any] = [examples[0, index] for index in spread(len(examples), 8)]
    images = [
        examples.source.normalise(sample["image"][None].to(weight.device), weight.dtype)
        for sample in shown
    ]
    if isinstance(model, MDEQ):
        alike = len({image.shape for image in images}) == 1 and images[0].numel() < 3 * 256 * 256
        seen = torch.cat(images) if alike else images[0]
        if window is not None:
            seen = seen[:, :, : window[0], : window[1]]
        _draw_convergence(convergence[0], model, seen)
    rows = below.subplots(2 if "segmentation" in classes else 1, len(shown), squeeze=False)
    for column, (sample, image) in enumerate(zip(shown, images, strict=True)):
        with torch.no_grad():  # one by one: they may be large, and of different sizes
            output = model(image) if window is None else in_windows(model, image, window)
            logits = by_task(output, classes)
        _draw_sample(rows[:, column], sample, logits, classes, colours)
    words = {"classification": "class", "segmentation": "mask"}
    below.suptitle(f"Predicted {' and '.join(words[task] for task in classes)}")
    if "segmentation" in classes:
        names = classes["segmentation"]
        handles = patches(names, colours, range(len(names)))
        below.legend(handles=handles, loc="outside lower center", ncols=10, frameon=False)
    figure.savefig(file, dpi=110)


def _draw_losses(axes: Any, records: Sequence[dict[str, Any]]) -> None:
    train = [(r["step"], r["train"]["loss"]) for r in records if "train" in r]
    if train:
        axes.plot(*zip(*train, strict=True), label="train", lw=1)
    for split in ("val", "test"):
        points = [(r["step"], r[split]["loss"]) for r in records if split in r]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", ms=3, label=split)
    axes.set(xlabel="step", ylabel="loss", title="Loss")
    if axes.lines:
        axes.legend(frameon=False)


def _draw_scores(axes: Any, records: Sequence[dict[str, Any]]) -> None:
    for task, figure, name in (
        ("classification", "top1", "accuracy"),
        ("segmentation", "miou", "mIoU"),
    ):
        for split in ("val", "test"):
            points = [
                (r["step"], 100 * r[split][task][figure])
                for r in records
                if split in r and task in r[split]
            ]
            if points:
                axes.plot(*zip(*points, strict=True), "o-", ms=3, label=f"{split} {name}")
    axes.set(
        xlabel="step",
        ylabel="percent",
        title=" and ".join(dict.fromkeys(str(line.get_label()).split()[1] for line in axes.lines)),
        ylim=(0, 100),
    )
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(frameon=False, loc="lower right")


def _draw_convergence(axes: Any, model: MDEQ, images: Tensor) -> None:
    with torch.no_grad():
        solution = model.equilibrium(
            images, solver={"max_steps": 30, "tol": 1e-6}, backward="implicit", track_scales=True
        ).solution
    assert solution.scale_changes is not None
    changes = solution.scale_changes.mean(dim=1).cpu().numpy()
    for k in range(changes.shape[1]):
        size = solution.z[k].shape[2:]
        axes.semilogy(
            range(2, len(changes) + 2), changes[:, k], label=f"scale {k + 1}: {size[0]}x{size[1]}"
        )
    axes.axvline(model.solver.max_steps, color="grey", ls=":", lw=1, label="budget in training")
    axes.set(xlabel="evaluations of f", ylabel="relative change", title="Convergence of z")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")


def _draw_sample(
    column: Any,
    sample: Any,
    logits: dict[str, Tensor],
    classes: dict[str, list[str]],
    colours: Sequence[Colour | None],
) -> None:
    first, picture = column[0], sample["image"] / 255
    first.imshow(picture.permute(1, 2, 0).cpu().numpy())
    if "classification" in classes:
        names = classes["classification"]
        predicted = int(logits["classification"][0].argmax())
        right = predicted == int(sample["classification"])
        truth = "" if right else f"\nis {names[int(sample['classification'])]}"
        first.set_title(
            names[predicted] + truth, fontsize=10, color="black" if right else "tab:red"
        )
    if "segmentation" in classes:
        column[1].imshow(overlay(picture, logits["segmentation"][0].argmax(dim=0), colours))
    for axes in column:
        axes.set_axis_off()


def save_confusion(file: Path, confusion: Sequence[Sequence[int]], names: Sequence[str]) -> None:
    """Which classes are taken for which: the share of every true class, in percent."""
    counts = np.asarray(confusion, dtype=float)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = 2.5 + 0.45 * len(names)
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    shown = axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    axes.set(xlabel="predicted", ylabel="true", title="Where the pixels of a class go")
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    for row, column in zip(*np.nonzero(shares >= 0.5), strict=True):
        axes.text(
            column,
            row,
            f"{shares[row, column]:.0f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if shares[row, column] > 60 else "black",
        )
    figure.colorbar(shown, ax=axes, label="percent of the true class", shrink=0.8)
    figure.savefig(file, dpi=110)


def save_bars(
    file: Path, iou: Mapping[str, float | None], miou: float, colours: Sequence[Colour | None]
) -> None:
    """The IoU of every class, best first."""
    order = sorted(
        (k for k, value in enumerate(iou.values()) if value is not None),
        key=lambda k: list(iou.values())[k] or 0.0,
    )
    names = list(iou)
    figure = Figure(figsize=(8, 1.5 + 0.35 * len(order)), layout="constrained")
    axes = figure.subplots()
    values = [100 * (iou[names[k]] or 0.0) for k in order]
    paints = [tuple(part / 255 for part in colours[k] or (160, 160, 160)) for k in order]
    bars = axes.barh([names[k] for k in order], values, color=paints)
    clear = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    axes.bar_label(bars, fmt="%.1f", padding=3, bbox=clear)
    axes.axvline(100 * miou, color="black", ls=":", lw=1, label=f"mean {100 * miou:.1f}")
    axes.set(
        title="How well every class is found",
        xlabel="intersection over union, percent",
        xlim=(0, 105),
    )
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(file, dpi=110)


def save_pictures(
    folder: Path,
    model: Model,
    examples: Examples,
    figures: Mapping[str, Any],
    names: Sequence[str],
    colours: Sequence[Colour | None],
    *,
    window: Window | None = None,
    count: int = 8,
) -> None:
    """Overlays beside the truth of some images, the confusion of classes, and bars of their IoU."""
    scores = figures["segmentation"]
    save_confusion(folder / "confusion.png", scores["confusion"], names)
    save_bars(folder / "iou.png", scores["iou"], scores["miou"], colours)
    weight = next(model.parameters())
    segment = partial(model, tasks=["segmentation"]) if isinstance(model, MDEQ) else model
    for index in spread(len(examples), count):
        sample = examples[0, index]
        assert not isinstance(sample, DataError)
        image = examples.source.normalise(sample["image"][None].to(weight.device), weight.dtype)
        with torch.no_grad():
            logits = segment(image) if window is None else in_windows(segment, image, window)
        save_overlay(
            folder / f"{index:04}.png",
            sample["image"] / 255,
            logits[0].argmax(dim=0),
            names,
            colours,
            truth=sample["segmentation"],
        )


def spread(total: int, count: int) -> list[int]:
    """At most `count` of the first `total` numbers, evenly spread."""
    count = min(count, total)
    return [k * total // count for k in range(count)]
