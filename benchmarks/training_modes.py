"""The paper's training mode beside the recommended one, on CIFAR-10: equal time, equal epochs.

Trains `mdeq_cifar10_small` in both modes through `mdeq train`, with the last 5,000 training images
held out to be judged by: first for as many steps as fit into 20 minutes, then for three epochs.
About two hours on two quiet cores. Finished runs are reused, unfinished ones go on where they
stopped; the 20 minutes are counted at the pace of a few steps in turns, so a disturbance in between
changes nothing.

    .venv/bin/python benchmarks/training_modes.py CIFAR_FOLDER RUNS_FOLDER
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from mdeq.engine import Recipe, Trainer, create_accelerator, read_yaml, recipe_file
from mdeq.engine.interruption import Interruption

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "training_modes.png"
MODES = {"paper": "mdeq_cifar10_small", "recommended": "fast:mdeq_cifar10_small"}
COLOURS = {"paper": "#0072B2", "recommended": "#D55E00"}
MINUTES, EPOCHS = 20, 3
EPOCH = 45_000 // 128  # steps


def pace(data: str) -> dict[str, float]:
    """Seconds a step of every mode, with softplus and after it, in turns."""
    contestants: dict[tuple[str, str], tuple[Trainer, Any]] = {}
    for mode, model in MODES.items():
        for softplus in ("1 epochs", "0 steps"):
            values = read_yaml(recipe_file("cifar10-small").read_text())
            values |= {
                "model": {"name": model},
                "dataset": {"name": "cifar10", "holdout": 5000},
                "data": data,
                "softplus": {"length": softplus},
            }
            trainer = Trainer(Recipe.of(values), create_accelerator())
            contestants[mode, softplus] = (trainer, trainer._batches())
    times: dict[tuple[str, str], list[float]] = {key: [] for key in contestants}
    for turn in range(6):
        for key, (trainer, stream) in contestants.items():
            began = time.perf_counter()
            trainer._step(stream, Interruption())
            if turn:
                times[key].append(time.perf_counter() - began)
    return {f"{mode}, {softplus}": statistics.median(t) for (mode, softplus), t in times.items()}


def steps_in(minutes: float, smooth: float, rectified: float) -> int:
    """Steps that fit, the first epoch of them with softplus."""
    seconds = 60 * minutes
    first = min(EPOCH, int(seconds / smooth))
    return first + max(0, int((seconds - first * smooth) / rectified))


def train(name: str, model: str, steps: int, data: str, folder: Path) -> Path:
    """Run `mdeq train` to its end, or go on with it."""
    run = folder / name
    if not (run / "summary.png").exists():
        command = [sys.executable, "-m", "mdeq", "train"]
        if (run / "recipe.yaml").exists():
            command += ["--resume", str(run)]
        else:
            command += ["cifar10-small", "--data", data, "--output", str(run)]
            command += ["--model.name", model, "--dataset.holdout", "5000"]
            command += ["--length", f"{steps} steps", "--evaluation.batch_size", "250"]
            command += ["--evaluation.every", f"{min(EPOCH, -(-steps // 3))} steps"]
        subprocess.run(command, check=True)
    return run


def curve(run: Path, split: str = "val") -> list[tuple[int, dict[str, Any]]]:
    """The evaluations of a run."""
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(record["step"], record[split]) for record in records if split in record]


def draw(runs: dict[tuple[str, str], Path], seconds: dict[str, float]) -> None:
    """Accuracy against minutes, and against epochs."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    for (mode, budget), run in runs.items():
        points = curve(run)
        accuracy = [100 * figures["classification"]["top1"] for _, figures in points]
        if budget == "time":
            smooth, rectified = seconds[f"{mode}, 1 epochs"], seconds[f"{mode}, 0 steps"]
            x = [
                (min(step, EPOCH) * smooth + max(0, step - EPOCH) * rectified) / 60
                for step, _ in points
            ]
        else:
            x = [step / EPOCH for step, _ in points]
        axes[int(budget == "epochs")].plot(
            [0, *x], [10, *accuracy], "o-", color=COLOURS[mode], label=f"{mode} mode"
        )
    axes[0].set(
        xlabel="minutes of training on two cores",
        ylabel="accuracy on 5,000 held-out images, percent",
        title=f"Trained for {MINUTES} minutes each",
        ylim=(0, 70),
    )
    axes[1].set(xlabel="epochs", title=f"Trained for {EPOCHS} epochs each")
    for each in axes:
        each.grid(alpha=0.3)
        each.legend(frameon=False, loc="lower right")
    figure.suptitle("mdeq_cifar10_small on CIFAR-10, one seed")
    figure.savefig(PICTURE, dpi=110)


def main(data: str, folder: str) -> None:
    """Train what is not trained yet, print the table, draw the picture."""
    runs_folder = Path(folder)
    runs_folder.mkdir(parents=True, exist_ok=True)
    paced = runs_folder / "pace.json"
    if not paced.exists():
        paced.write_text(json.dumps(pace(data)))
    seconds: dict[str, float] = json.loads(paced.read_text())
    print({name: f"{value:.2f} s a step" for name, value in seconds.items()}, flush=True)
    runs = {}
    for budget in ("time", "epochs"):
        for mode, model in MODES.items():
            smooth, rectified = seconds[f"{mode}, 1 epochs"], seconds[f"{mode}, 0 steps"]
            steps = EPOCHS * EPOCH if budget == "epochs" else steps_in(MINUTES, smooth, rectified)
            runs[mode, budget] = train(f"{mode}-{budget}", model, steps, data, runs_folder)
    print("| budget | mode | steps | held-out accuracy | residual | evaluations of f |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (mode, budget), run in runs.items():
        step, figures = curve(run)[-1]
        solver = figures["equilibrium"]
        print(
            f"| {MINUTES} minutes | " if budget == "time" else f"| {EPOCHS} epochs | ",
            f"{mode} | {step} | {100 * figures['classification']['top1']:.1f} % | "
            f"{solver['residual']:.2g} | {solver['steps']:.0f} |",
            sep="",
        )
    draw(runs, seconds)
    print(PICTURE)


if __name__ == "__main__":
    main(*sys.argv[1:])
