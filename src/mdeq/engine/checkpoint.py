"""The state of a run on disk: written whole or not at all, and checked when it is read."""

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LAST = "last.pt"
PREVIOUS = "previous.pt"


class CheckpointError(ValueError):
    """A checkpoint cannot be written or read."""


def write_atomically(file: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make a file, then put it in place: readers see the old one or the new one."""
    draft = file.with_name(f".{file.name}.draft")
    try:
        write(draft)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(file)
    except (OSError, RuntimeError) as error:  # torch.save raises the latter for a full disk
        raise CheckpointError(
            f"cannot save {file} ({error}); what was there before stays"
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    _settle(file.parent)


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the state as the last checkpoint; the one before it is kept too."""
    last = folder / LAST

    def write(draft: Path) -> None:
        torch.save(state, draft)
        if last.exists():
            last.replace(folder / PREVIOUS)

    write_atomically(last, write)


def load_checkpoint(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The newest state that is whole; damaged files are named to `say` and passed over."""
    found = [file for file in (folder / LAST, folder / PREVIOUS) if file.exists()]
    for file in found:
        try:
            return read_checkpoint(file)
        except CheckpointError as error:
            say(f"{error}; using the one before it")
    seen = "only damaged checkpoints" if found else "no checkpoint"
    raise CheckpointError(f"{folder} has {seen}; start the run again")


def read_checkpoint(file: Path) -> dict[str, Any]:
    """One file, whose every part must have its checksum."""
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged:
            raise CheckpointError(f"{file} is damaged in {damaged}")
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, EOFError, RuntimeError, pickle.UnpicklingError, OSError) as error:
        raise CheckpointError(f"{file} is cut short or damaged ({error})") from None
    return state


def _settle(folder: Path) -> None:
    """Make renames in a folder outlast a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
