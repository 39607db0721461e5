"""Which devices a run has, and in what precision they work."""

import ctypes
import sys

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs


def create_accelerator(*, parts_at_rest: bool = False) -> Accelerator:
    """One process on what device there is, or one of several that torchrun started.

    Precision is not its affair: it could not be changed within a process.

    Args:
        parts_at_rest: Whether some steps leave parts of the model without a gradient.
    """
    keep_freed_memory()
    return Accelerator(
        cpu=not torch.accelerator.is_available(),
        mixed_precision="no",
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=parts_at_rest)],
    )


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context in which a model runs in the precision of a recipe."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def keep_freed_memory() -> None:
    """Have the C library keep what is freed, for what is allocated next; glibc only.

    Left alone, it returns large blocks to the system at once and gets them back page by page,
    cleared. Networks free and allocate the same blocks all the time: small ones spend up to a
    third of their time on a CPU on that. The process stays as large as its largest moment.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4  # as in malloc.h
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_max, 0)
