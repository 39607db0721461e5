"""What Broyden itself costs an iteration, beside torchdeq's, when f costs nothing.

f hands out prepared tensors, so all time is the solver's. The two run in turns in one
process; a ratio is taken within each turn. Run it on a quiet machine:

    make bench            or            .venv/bin/python benchmarks/broyden_overhead.py
"""

import statistics
import time
from collections.abc import Callable
from itertools import cycle

import torch
from torch import Tensor
from torchdeq.solver.broyden import broyden_solver

import mdeq
from mdeq.measure import peak_memory

BATCH, MEMORY, ITERATIONS, ROUNDS = 32, 15, 15, 15
NEVER = 1e-30


def free_f(features: int) -> Callable[[], Callable[[Tensor], Tensor]]:
    """Make functions that cost nothing and never converge."""
    prepared = [torch.randn(BATCH, features) for _ in range(ITERATIONS + 1)]

    def fresh() -> Callable[[Tensor], Tensor]:
        supply = cycle(prepared)
        return lambda z: next(supply)

    return fresh


def milliseconds(work: Callable[[], object]) -> float:
    """Time of one iteration."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) / ITERATIONS * 1e3


@torch.no_grad()
def measure(features: int) -> str:
    """One row of the table."""
    f = free_f(features)
    z0 = torch.zeros(BATCH, features)

    def ours() -> object:
        return mdeq.solve(f(), z0, tol=NEVER, max_steps=ITERATIONS + 1, memory=MEMORY)

    def theirs() -> object:
        return broyden_solver(
            f(), z0, max_iter=ITERATIONS, tol=NEVER, stop_mode="rel", LBFGS_thres=MEMORY
        )

    turns = [(milliseconds(ours), milliseconds(theirs)) for _ in range(ROUNDS + 1)][1:]
    ratios = sorted(b / a for a, b in turns)
    quarter = len(ratios) // 4
    megabytes = [peak_memory(work) / 1e6 for work in (ours, theirs)]
    return (
        f"| {features:,} | {statistics.median(a for a, _ in turns):.2f} ms "
        f"| {statistics.median(b for _, b in turns):.2f} ms "
        f"| {statistics.median(ratios):.1f} ({ratios[quarter]:.1f} to {ratios[-1 - quarter]:.1f}) "
        f"| {megabytes[0]:.0f} MB | {megabytes[1]:.0f} MB |"
    )


def main() -> None:
    """Print the table, for the README of this folder."""
    print(f"batch {BATCH}, memory {MEMORY}, {ITERATIONS} iterations, float32, ", end="")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {ROUNDS} turns\n")
    print("| D | mdeq | torchdeq 0.1.0 | times less (quartiles) | peak, mdeq | peak, torchdeq |")
    print("| --- | --- | --- | --- | --- | --- |")
    for features in (14_336, 61_440):
        print(measure(features), flush=True)


if __name__ == "__main__":
    main()
