"""The real command, in this process where that is enough, in processes of its own elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import mdeq_command
from mdeq.engine.checkpoint import read_checkpoint

TINY = [
    "--model.channels", "[4, 8]", "--model.head_channels", "[2, 2]", "--model.head_width", "8",
    "--model.groups", "2", "--model.dropout", "0.2", "--model.solver.max_steps", "4",
    "--dataset.image_size", "16", "--dataset.train", "64", "--dataset.val", "10",
    "--dataset.test", "10", "--dataset.augment", "true", "--batch_size", "8",
    "--optimiser.warmup", "0 steps", "--evaluation.every", "4 steps", "--length", "12 steps",
]  # fmt: skip


def call(*arguments: object) -> int:
    """Run `mdeq ARGUMENTS` in this process; its exit status."""
    try:
        return mdeq_command.run([str(argument) for argument in arguments])
    except SystemExit as exit:  # argparse, after --help
        return int(exit.code or 0)


def start(
    *arguments: object, cwd: Path, processes: int = 1, **options: Any
) -> subprocess.Popen[str]:
    """Begin `mdeq ARGUMENTS` in a process, or under torchrun in several."""
    launcher = [str(Path(sys.executable).with_name("mdeq"))]
    if processes > 1:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        launcher += ["--nproc_per_node", str(processes), "-m", "mdeq"]
    return subprocess.Popen(
        [*launcher, *map(str, arguments)],
        cwd=cwd,
        # One thread a process, so that tests beside each other leave each other alone.
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def finish(*arguments: object, cwd: Path, processes: int = 1) -> tuple[int, str]:
    """Run `mdeq ARGUMENTS` to its end; the exit status and what it said."""
    with start(*arguments, cwd=cwd, processes=processes) as process:
        said, _ = process.communicate()
    return process.returncode, said


def train(cwd: Path, run: str, *arguments: object, processes: int = 1) -> Path:
    """`mdeq train` to its end, in processes; the folder of the run."""
    status, said = finish("train", "--output", run, *TINY, *arguments, cwd=cwd, processes=processes)
    assert status == 0, said
    return cwd / run


def state(run: Path, file: str = "last.ckpt") -> dict[str, Any]:
    """The last checkpoint of a run, or the one before."""
    return read_checkpoint(run / file)


def records(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def assert_same_weights(a: Path, b: Path) -> None:
    """Two runs ended with the same weights, bit for bit."""
    first, second = state(a), state(b)
    for part in ("model", "ema"):
        assert (first[part] is None) == (second[part] is None)
        for name, value in (first[part] or {}).items():
            assert torch.equal(value, second[part][name]), f"{part} {name}"
