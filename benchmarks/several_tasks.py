"""Both tasks of shapes in one model, beside two models of the same size with one task each.

Trains each by `mdeq train` for the same steps, with three seeds. Prints the mean
and the spread over the seeds.

    .venv/bin/python benchmarks/several_tasks.py RUNS_FOLDER
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

CONTESTANTS = {
    "both in one": {"classification": 1, "segmentation": 3},
    "classification alone": {"classification": 1},
    "segmentation alone": {"segmentation": 3},
}
SEEDS = (0, 1, 2)


def train(folder: Path, name: str, tasks: dict[str, int], seed: int) -> dict[str, Any]:
    """The figures of one run, which is reused if it is there."""
    run = folder / f"{name.replace(' ', '-')}-{seed}"
    file = run.with_suffix(".json")
    if not file.exists():
        command = [sys.executable, "-m", "mdeq", "train", "--json", str(file)]
        if (run / "recipe.yaml").exists():
            command += ["--resume", str(run)]
        else:
            command += ["shapes", "--output", str(run)]
            command += ["--tasks", json.dumps(tasks), "--seed", str(seed)]
        subprocess.run(command, check=True)
    figures: dict[str, Any] = json.loads(file.read_text())
    return figures


def spoken(values: list[float]) -> str:
    """Mean and range, in percent."""
    low, high = 100 * min(values), 100 * max(values)
    return f"{100 * statistics.mean(values):.1f} % ({low:.1f} to {high:.1f})"


def main(folder: str) -> None:
    """Train what is not trained yet, and print the table."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    print("| tasks | parameters | accuracy | mIoU | training |")
    print("| --- | --- | --- | --- | --- |")
    for name, tasks in CONTESTANTS.items():
        runs = [train(Path(folder), name, tasks, seed) for seed in SEEDS]
        cells = [
            spoken([run[task][figure] for run in runs]) if task in tasks else ""
            for task, figure in (("classification", "top1"), ("segmentation", "miou"))
        ]
        seconds = statistics.mean(run["seconds"] for run in runs)
        parameters = f"{runs[0]['parameters']:,}"
        print(f"| {name} | {parameters} | {' | '.join(cells)} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
