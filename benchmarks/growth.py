"""Evaluations of f and seconds against image size, batch and number of scales; five minutes.

A trained model answers for real images, enlarged where they are too small, until every image has a
relative residual of 0.01. For the number of scales, models of random weights take 15 evaluations.
Run it on a quiet machine, with a run of a CIFAR-10 recipe that has three scales:

    .venv/bin/python benchmarks/growth.py RUN CIFAR_FOLDER
"""

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import interpolate

import mdeq
from mdeq.engine import create_accelerator, open_bundle

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
SIZES = [(32, 32), (64, 64), (128, 128), (256, 256), (512, 512), (1024, 2048)]
BATCHES = [1, 4, 16, 64, 256]
SCALES = [1, 2, 3, 4, 5]
WIDTHS = (8, 16, 32, 64, 128)
SOLVED = {"solver": "anderson", "tol": 0.01, "max_steps": 60, "memory": 10}
BUDGET = {"solver": "anderson", "tol": 1e-9, "max_steps": 15, "memory": 10}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement."""

    label: str
    work: float  # in images of 32x32, or in scales
    pixels: int
    steps: float
    seconds: float

    @property
    def rate(self) -> float:
        """Nanoseconds a pixel and evaluation."""
        return self.seconds / self.pixels / self.steps * 1e9


@torch.no_grad()
def measure(label: str, work: float, model: mdeq.MDEQ, images: Tensor) -> Point:
    """The median of three answers; one for the largest."""
    model = model.eval().to(memory_format=torch.channels_last)
    images = images.contiguous(memory_format=torch.channels_last)
    pixels = images[:, 0].numel()
    model.equilibrium(images[:1, :, :32, :32])
    seconds = []
    for _ in range(1 if pixels > 10**6 else 3):
        start = time.perf_counter()
        solution = model.equilibrium(images).solution
        seconds.append(time.perf_counter() - start)
    point = Point(
        label=label,
        work=work,
        pixels=pixels,
        # The batch is evaluated as a whole until its last sample is there.
        steps=float(solution.steps.max()),
        seconds=statistics.median(seconds),
    )
    print(
        f"| {label} | {point.steps:.0f} | {float(solution.residual.max()):.2g} | "
        f"{point.seconds:.3f} s | {point.rate:.0f} ns |",
        flush=True,
    )
    return point


def random_model(scales: int) -> mdeq.MDEQ:
    """A model of so many scales."""
    torch.manual_seed(0)
    model: mdeq.MDEQ = mdeq.create_model(
        "mdeq_cifar10_small",
        channels=WIDTHS[:scales],
        head_channels=(4, 8, 16, 32, 64)[:scales],
        solver=BUDGET,
    )
    return model


def draw(axes: Any, points: list[Point], title: str, xlabel: str, *, log: bool) -> None:
    """Seconds and evaluations of f, with the line of proportional growth."""
    work = [point.work for point in points]
    axes.plot(work, [p.seconds for p in points], "o-", color="#0072B2", label="seconds (left)")
    if log:
        first = points[-1]
        axes.plot(
            work,
            [first.seconds * p.pixels * p.steps / first.pixels / first.steps for p in points],
            ":",
            color="grey",
            label="in proportion to pixels x evaluations",
        )
        axes.set(xscale="log", yscale="log")
        axes.set_xticks(work, [p.label for p in points], rotation=30)
        axes.minorticks_off()
    else:
        axes.set_xticks(work)
        axes.set_ylim(bottom=0)
    axes.set(title=title, xlabel=xlabel, ylabel="seconds")
    axes.grid(alpha=0.3)
    steps = axes.twinx()
    steps.plot(
        work, [p.steps for p in points], "s--", color="#D55E00", label="evaluations of f (right)"
    )
    steps.set(ylim=(0, 90), ylabel="evaluations of f")
    lines = axes.lines + steps.lines
    axes.legend(lines, [line.get_label() for line in lines], frameon=False, fontsize="small")


def main(run: str, data: str) -> None:
    """Print the tables, draw the picture."""
    create_accelerator()  # as the commands do: keeps freed memory
    bundle = open_bundle(run)
    model = bundle.model
    assert isinstance(model, mdeq.MDEQ)
    model.solver = SOLVED
    examples = bundle.parts[0].examples("test", data)
    pixels = torch.stack([examples[0, index]["image"] for index in range(max(BATCHES))])  # type: ignore[index]
    images = bundle.parts[0].source.normalise(pixels, torch.float32)
    print("| what | evaluations of f | residual | time | per pixel and evaluation |")
    print("| --- | --- | --- | --- | --- |")
    sizes = [
        measure(
            f"{width}x{height}",
            height * width / 1024,
            model,
            interpolate(images[:1], (height, width), mode="bilinear"),
        )
        for height, width in SIZES
    ]
    batches = [measure(f"batch {n}", n, model, images[:n]) for n in BATCHES]
    scales = [measure(f"{n} scale{'s' * (n > 1)}", n, random_model(n), images[:32]) for n in SCALES]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    draw(left, sizes, "One image, to a residual of 0.01", "size of the image", log=True)
    draw(middle, batches, "Images of 32x32, to a residual of 0.01", "batch", log=True)
    draw(right, scales, "32 images of 32x32, 15 evaluations", "scales", log=False)
    figure.suptitle("Cost as work grows: Anderson, CIFAR-10 images, two cores")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    print(PICTURE)


if __name__ == "__main__":
    main(*sys.argv[1:])
