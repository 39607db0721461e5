"""Draw how runs on CIFAR-10 learnt, beside what the paper's table 1 says they should reach.

    .venv/bin/python benchmarks/learning_curves.py RUN [RUN ...]

Writes docs/images/cifar10.png and prints where every run ended.
"""

import json
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "cifar10.png"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
PAPER = {"MDEQ-small": 87.1, "single-stream DEQ": 82.2, "ResNet-18": 81.6, "augmented ODE": 60.6,
         "Neural ODE": 53.7}  # fmt: skip
LOWER = 81.6  # whose label would overlap that of the line above
WINDOW = 50  # records of training, of one batch each, in a point of its curve


def records(run: Path) -> list[dict[str, Any]]:
    """What the run wrote down."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def training_curve(seen: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Epochs, and the accuracy on the batches up to there, in percent."""
    steps = [record for record in seen if "train" in record]
    epochs, accuracies = [], []
    for end in range(WINDOW, len(steps) + 1, WINDOW):
        part = steps[end - WINDOW : end]
        epochs.append(sum(record["epoch"] for record in part) / WINDOW)
        right = sum(record["train"]["classification_accuracy"] for record in part)
        accuracies.append(100 * right / WINDOW)
    return epochs, accuracies


def main(runs: list[Path]) -> None:
    """Draw all runs into one picture."""
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for name, accuracy in PAPER.items():
        axes.axhline(accuracy, color="0.75", linewidth=0.8, zorder=0)
        axes.annotate(
            f"{accuracy} {name}, paper",
            (1.01, accuracy),
            xycoords=("axes fraction", "data"),
            xytext=(0, -8 if accuracy == LOWER else -2),
            textcoords="offset points",
            annotation_clip=False,
            fontsize=8,
            color="0.4",
        )
    for run, colour in zip(runs, cycle(COLOURS), strict=False):
        seen = records(run)
        split = "val" if any("val" in record for record in seen) else "test"
        looks = [record for record in seen if split in record]
        accuracies = [100 * record[split]["classification"]["top1"] for record in looks]
        steps = looks[-1][split].get("equilibrium", {}).get("steps")
        solved = "" if steps is None else f", at {steps:.0f} evaluations of f"
        axes.plot(
            [record["epoch"] for record in looks],
            accuracies,
            "o-",
            markersize=3,
            color=colour,
            label=f"{run.name}, {split}{solved}",
        )
        axes.plot(
            *training_curve(seen), ":", color=colour, label=f"{run.name}, batches of training"
        )
        print(f"{run.name}: {accuracies[-1]:.2f} % on {split}, epoch {looks[-1]['epoch']:.1f}")
    axes.set(xlabel="epochs", ylabel="accuracy, %", ylim=(40, 100))
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main([Path(name) for name in sys.argv[1:]])
