"""Autocast is for f; the solvers' own arithmetic stays in full precision."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

Context = AbstractContextManager[Any]


def without_autocast(device: torch.device) -> Context:
    """Switch autocast off for the device, where it has any."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def ambient_autocast(device: torch.device) -> Callable[[], Context] | None:
    """The autocast in force for the device now, to be entered again later; None if it is off."""
    kind = device.type
    if not (torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)):
        return None
    dtype = torch.get_autocast_dtype(kind)
    return lambda: torch.autocast(kind, dtype=dtype)
