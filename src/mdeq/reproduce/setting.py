"""What a reproduction is given: how much work it may do, with which data, and where it writes."""

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from tqdm import tqdm

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The circumstances of a reproduction.

    Attributes:
        budget: "quick" for what two CPU cores do in minutes, "full" for the paper's scale.
        output: Folder of tables, pictures and training runs.
        runs: Folder of the runs whose figures the tables show.
        cifar10: Folder that holds cifar-10-batches-py; without one, training is on drawings.
        camvid: Folder of CamVid; without one, there is the street that ships.
        minutes: How long each model of a comparison is trained; None: as long as the budget says.
    """

    budget: Literal["quick", "full"] = "quick"
    output: Path = Path("reproduced")
    runs: Path = Path("runs")
    cifar10: str | None = None
    camvid: str | None = None
    minutes: float | None = None

    @property
    def device(self) -> torch.device:
        """What everything is computed on."""
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")

    @property
    def machine(self) -> str:
        """The device, for captions."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"{torch.get_num_threads()} threads of a CPU"

    def pick(self, quick: T, full: T) -> T:
        """What belongs to the budget."""
        return quick if self.budget == "quick" else full

    def each(self, things: Iterable[T], title: str) -> Iterator[T]:
        """The things, with a bar that shows how far the work is, where there is a terminal."""
        yield from tqdm(list(things), title, leave=False, disable=None)

    def made(self, name: str) -> dict[str, Any]:
        """What an outcome depends on; of data, whether they were given, not where they are."""
        given = [f"--{data} DIR" for data in ("cifar10", "camvid") if getattr(self, data)]
        if self.minutes is not None:
            given.append(f"--minutes {self.minutes:g}")
        return {
            "command": " ".join(["mdeq reproduce", name, "--budget", self.budget, *given]),
            "code": self.code,
            "machine": self.machine,
        }

    @cached_property
    def code(self) -> str:
        """The version of this package, and its commit where it runs from a checkout."""
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
        commit = f", commit {found.stdout.strip()}" if found.returncode == 0 else ""
        return f"mdeq {version('mdeq')}{commit}"
