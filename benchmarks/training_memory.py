"""Peak memory of a training step against the budget: equilibrium beside unrolling.

.venv/bin/python benchmarks/training_memory.py
"""

import torch

import mdeq
from mdeq.measure import peak_memory
from problems import Block

BATCH, CHANNELS, SIZE, MEMORY = 32, 16, 32, 12


def main() -> None:
    """Print the table, for the README of this folder."""
    torch.manual_seed(0)
    layer = Block(CHANNELS)
    x = torch.randn(BATCH, CHANNELS, SIZE, SIZE)

    def step(budget: int, backward: mdeq.Implicit | mdeq.Unrolled) -> None:
        z, _ = mdeq.fixed_point(
            lambda z: layer(z, x),
            torch.zeros_like(x),
            forward={"tol": 1e-30, "max_steps": budget, "memory": MEMORY},
            backward=backward,
            on_failure="ignore",
        )
        z.mean().backward()
        layer.zero_grad()

    print(f"batch {BATCH}, D = {CHANNELS * SIZE * SIZE:,}, memory {MEMORY}, float32\n")
    print("| evaluations of f | implicit | unrolled |")
    print("| --- | --- | --- |")
    for budget in (10, 30, 100):
        implicit = mdeq.Implicit(tol=1e-30, max_steps=budget, memory=MEMORY)
        peaks = [
            peak_memory(lambda mode=mode, budget=budget: step(budget, mode)) / 1e6  # type: ignore[misc]
            for mode in (implicit, mdeq.Unrolled(steps=budget))
        ]
        print(f"| {budget} | {peaks[0]:.0f} MB | {peaks[1]:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
