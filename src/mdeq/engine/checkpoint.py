"""The state of a run on disk: written whole or not at all, and checked when it is read.

A checkpoint is a line with the SHA-256 of the rest, and the rest is what torch.save writes.
"""

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LAST = "last.ckpt"
PREVIOUS = "previous.ckpt"


class CheckpointError(ValueError):
    """A checkpoint cannot be read."""


def write_atomically(file: Path, content: bytes) -> None:
    """Put a new file in place at once: readers see the old content or the new."""
    draft = file.with_name(f".{file.name}.draft")
    try:
        with draft.open("wb") as writer:
            writer.write(content)
            writer.flush()
            os.fsync(writer.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    _settle(file.parent)


def write_checkpoint(file: Path, state: dict[str, Any]) -> None:
    """Write a state, with its checksum."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    write_atomically(file, _checksum(content) + content)


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the state as the last checkpoint of a run; the one before it is kept too."""
    new = folder / f"new.{LAST}"
    write_checkpoint(new, state)
    if (folder / LAST).exists():
        (folder / LAST).replace(folder / PREVIOUS)
    new.replace(folder / LAST)


def load_checkpoint(folder: Path, say: Callable[[str], None]) -> dict[str, Any] | None:
    """The newest state that is whole, None if there was none yet.

    Damaged files are named to `say`, and put aside.
    """
    found = [file for file in (folder / LAST, folder / PREVIOUS) if file.exists()]
    for file in found:
        try:
            return read_checkpoint(file)
        except CheckpointError as error:
            say(f"{error}; using the one before it")
            file.replace(file.with_name(f"{file.name}.damaged"))
    if found:
        raise CheckpointError(f"{folder} has only damaged checkpoints; start the run again")
    return None


def read_checkpoint(file: Path) -> dict[str, Any]:
    """One file, if it is what was written."""
    content = file.read_bytes()
    digest, body = content[: len(_checksum(b""))], content[len(_checksum(b"")) :]
    if _checksum(body) != digest:
        raise CheckpointError(f"{file} is cut short or damaged")
    state: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    return state


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


def _settle(folder: Path) -> None:
    """Make renames in a folder outlast a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
