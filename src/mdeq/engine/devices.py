"""Which devices a run has, and in what precision they work."""

import torch
from accelerate import Accelerator


def create_accelerator() -> Accelerator:
    """One process on what device there is, or one of several that torchrun started.

    Precision is not its affair: it could not be changed within a process.
    """
    return Accelerator(cpu=not torch.accelerator.is_available(), mixed_precision="no")


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context in which a model runs in the precision of a recipe."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
