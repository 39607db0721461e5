"""What a reproduction is given: how much work it may do, with which data, and where it writes."""

import subprocess
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
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
        budget: "quick" for what two CPU cores do in minutes, "full" for more than that.
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
        if self.device.type != "cpu":
            return f"one {self.device.type} device"
        return f"{torch.get_num_threads()} threads of a CPU"

    def pick(self, quick: T, full: T) -> T:
        """What belongs to the budget."""
        return quick if self.budget == "quick" else full

    def each(self, things: Iterable[T], title: str) -> Iterator[T]:
        """The things, with a bar that shows how far the work is, where there is a terminal."""
        yield from tqdm(list(things), title, leave=False, disable=None)

    def made(self, name: str, options: Collection[str]) -> dict[str, Any]:
        """What an outcome depends on, which knows these options."""
        given = {option: getattr(self, option) for option in options}
        words = [
            f"--minutes {value:g}" if option == "minutes" else f"--{option} DIR"
            for option, value in given.items()
            if value != getattr(Setting, option)  # its default
        ]
        return {
            "command": " ".join(["mdeq reproduce", name, "--budget", self.budget, *words]),
            **self.origin(*given),
        }

    def origin(self, *data: str) -> dict[str, Any]:
        """What tells figures apart that were made by the same command."""
        folders = {name: getattr(self, name) for name in data if name != "minutes"}
        return {
            "code": self.code,
            "machine": self.machine,
            **{name: folder and str(Path(folder).resolve()) for name, folder in folders.items()},
        }

    @cached_property
    def code(self) -> str:
        """The version of this package, and its commit where it runs from a checkout."""
        release = f"mdeq {version('mdeq')}"
        if not _git("ls-files", "--error-unmatch", __file__):  # at most a repository around a .venv
            return release
        changes = _git("diff", "HEAD", "--", str(Path(__file__).parents[1]))
        changed = f", changed ({sha256(changes.encode()).hexdigest()[:7]})" if changes else ""
        return f"{release}, commit {_git('rev-parse', '--short', 'HEAD')}{changed}"


def _git(*arguments: str) -> str:
    """What git says in the folder of this file; nothing where it fails or is missing."""
    try:
        found = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
