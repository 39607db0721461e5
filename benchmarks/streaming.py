"""Frames of a video, each solved from zero and from the frame before, at several budgets.

Made for the 101 frames of CamVid's val split. Prints a table, writes the figures
beside it if asked, and draws docs/images/streaming.png. Evaluations and residual are the solver's:
the damped steps that end a solve in the recommended mode come on top, alike in every row.

    .venv/bin/python benchmarks/streaming.py MODEL FRAMES MASKS [FIGURES.json]
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from mdeq.cli.stream import Judge
from mdeq.engine import Bundle, open_bundle, stream

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "streaming.png"
BUDGETS = (1, 2, 4, 8)
TOLERANCES = (0.1, 0.03)
LIMIT = 60  # evaluations of f, where a tolerance ends the solve
COLOURS = {"from zero": "#0072B2", "from the frame before": "#D55E00"}


def measure(bundle: Bundle, frames: list[Path], masks: Path, *, warm: bool) -> dict[str, float]:
    """Steps, residual and mIoU; the first frame, which has none before it, counts for mIoU only."""
    judge = Judge(bundle)
    steps, residuals = [], []
    for frame, prediction in zip(frames, stream(bundle, frames, warm=warm), strict=True):
        judge.count(prediction, masks / f"{frame.stem}.png")
        assert prediction.steps is not None
        assert prediction.residual is not None
        steps.append(prediction.steps)
        residuals.append(prediction.residual)
    return {
        "steps": statistics.mean(steps[1:]),
        "residual": statistics.mean(residuals[1:]),
        "miou": judge.figures()["miou"],
    }


def draw(rows: list[dict[str, Any]]) -> None:
    """mIoU and residual against the budget."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for start, colour in COLOURS.items():
        points = [row for row in rows if row["start"] == start and row["budget"] is not None]
        budgets = [row["budget"] for row in points]
        axes[0].plot(budgets, [100 * row["miou"] for row in points], "o-", color=colour)
        axes[1].semilogy(
            budgets, [row["residual"] for row in points], "o-", color=colour, label=start
        )
    axes[0].set(ylabel="mIoU, percent")
    axes[1].set(ylabel="residual of f")
    axes[1].legend(frameon=False)
    for each in axes:
        each.set(xlabel="evaluations of f by the solver, a frame", xticks=BUDGETS)
        each.grid(alpha=0.3)
    figure.suptitle("A video, frame by frame: CamVid's val drive, 101 frames")
    figure.savefig(PICTURE, dpi=110)


def main(model: str, frames_folder: str, masks: str, file: str | None = None) -> None:
    """Measure, print, draw."""
    frames = sorted(Path(frames_folder).iterdir())
    rows: list[dict[str, Any]] = []
    print("| the solver stops | start | evaluations of f | residual | mIoU |")
    print("| --- | --- | --- | --- | --- |")
    for budget, tol in [(b, 1e-9) for b in BUDGETS] + [(None, t) for t in TOLERANCES]:
        for start in COLOURS:
            bundle = open_bundle(model)
            bundle.model.solver = {"max_steps": budget or LIMIT, "tol": tol}
            warm = start != "from zero"
            found = measure(bundle, frames, Path(masks), warm=warm)
            rows.append({"budget": budget, "tol": tol, "start": start, **found})
            end = f"after {budget}" if budget else f"at a residual of {tol}"
            print(
                f"| {end} | {start} | {found['steps']:.2f} | {found['residual']:.2g} | "
                f"{100 * found['miou']:.2f} % |",
                flush=True,
            )
    if file is not None:
        Path(file).write_text(json.dumps(rows, indent=2))
    draw(rows)
    print(PICTURE)


if __name__ == "__main__":
    main(*sys.argv[1:])
