"""The camvid backbone, pretrained as a classifier of CIFAR-10, beside training from scratch.

Pretrains for a few epochs, then trains on CamVid three times through `mdeq train`, judged by the
drive 0001TP, which is held out: from the pretrained backbone, from random weights for as many
steps, and from random weights for as many steps more as the pretraining took time.
Finished runs are reused, unfinished ones go on.

    .venv/bin/python benchmarks/transfer.py CIFAR_FOLDER CAMVID_FOLDER RUNS_FOLDER
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from mdeq.engine.checkpoint import read_checkpoint

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "transfer.png"
PRETRAINING = ["--length", "6 epochs", "--softplus.length", "0 steps"]
STEPS = 600  # on CamVid
COLOURS = {"pretrained": "#D55E00", "scratch": "#0072B2", "longer": "#56B4E9"}


def train(run: Path, *arguments: str) -> Path:
    """Run `mdeq train` to its end, or go on with it."""
    if not (run / "summary.png").exists():
        command = [sys.executable, "-m", "mdeq", "train"]
        if (run / "recipe.yaml").exists():
            command += ["--resume", str(run)]
        else:
            command += [*arguments, "--output", str(run)]
        subprocess.run(command, check=True)
    return run


def on_camvid(run: Path, data: str, steps: int, *more: str) -> Path:
    """Train on CamVid but for one drive."""
    return train(
        run, "camvid", "--data", data, "--dataset.holdout", "0001TP",
        "--length", f"{steps} steps",
        "--optimiser.warmup", "30 steps", "--evaluation.every", f"{steps // 6} steps",
        "--ema", "0.98", *more,
    )  # fmt: skip


def records(run: Path) -> list[dict[str, Any]]:
    """Of the metrics of a run."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def seconds(run: Path) -> float:
    """Time of the training steps of a run."""
    return float(read_checkpoint(run / "last.ckpt")["progress"]["seconds"])


def draw(runs: dict[str, Path], names: dict[str, str]) -> None:
    """mIoU and training loss against steps."""
    figure, (loss, score) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for key, run in runs.items():
        points = [r for r in records(run) if "val" in r]
        steps = [r["step"] for r in points]
        means = [r["mean"]["loss"] for r in points]
        miou = [100 * r["val"]["segmentation"]["miou"] for r in points]
        loss.plot(steps, means, "o-", color=COLOURS[key], label=names[key])
        score.plot(steps, miou, "o-", color=COLOURS[key], label=names[key])
    loss.set(xlabel="steps on CamVid", ylabel="training loss since the point before")
    score.set(xlabel="steps on CamVid", ylabel="mIoU on the held-out drive, percent")
    loss.legend(frameon=False, loc="upper right")
    for axes in (loss, score):
        axes.grid(alpha=0.3)
    figure.suptitle("mdeq_camvid on CamVid without the drive 0001TP, one seed")
    figure.savefig(PICTURE, dpi=110)


def main(cifar: str, camvid: str, folder: str) -> None:
    """Train what is not trained yet, print the table, draw the picture."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    classifier = train(
        root / "pretrained-classifier", "cifar10-small", "--data", cifar,
        "--model.name", "fast:mdeq_camvid", *PRETRAINING,
    )  # fmt: skip
    runs = {
        "pretrained": on_camvid(root / "pretrained", camvid, STEPS, "--init", str(classifier)),
        "scratch": on_camvid(root / "scratch", camvid, STEPS),
    }
    longer = round(STEPS * (1 + seconds(classifier) / seconds(runs["scratch"])))
    runs["longer"] = on_camvid(root / "longer", camvid, longer)
    names = {
        "pretrained": "pretrained on CIFAR-10",
        "scratch": "from scratch, as many steps",
        "longer": "from scratch, as much time in all",
    }
    accuracy = [r["test"]["classification"]["top1"] for r in records(classifier) if "test" in r]
    print(f"the classifier: {100 * accuracy[-1]:.1f} % on CIFAR-10, {seconds(classifier):.0f} s\n")
    print("| | steps | training | mIoU on 0001TP |")
    print("| --- | --- | --- | --- |")
    for key, run in runs.items():
        last = [r for r in records(run) if "val" in r][-1]
        print(
            f"| {names[key]} | {last['step']} | {seconds(run):.0f} s | "
            f"{100 * last['val']['segmentation']['miou']:.1f} % |"
        )
    draw(runs, names)
    print(PICTURE)


if __name__ == "__main__":
    main(*sys.argv[1:])
