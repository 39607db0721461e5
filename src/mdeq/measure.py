"""Measuring a piece of work by itself, not the process around it."""

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def peak_memory(work: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """Bytes that `work` holds on the device at its peak, above what was held before it."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        work()
    assert run.profiler is not None
    assert run.profiler.kineto_results is not None
    events = [e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
