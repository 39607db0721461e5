"""Memory: flat in the budget for the equilibrium, linear for unrolling, no growth in training."""

import gc
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import mdeq
from mdeq.measure import peak_memory

MEMORY = 6
BATCH, CHANNELS, SIZE = 4, 8, 16
VECTOR = BATCH * CHANNELS * SIZE * SIZE * 4  # bytes of one state


class Trainer:
    """A training step on a convolutional equilibrium, with a budget that is always spent."""

    def __init__(self) -> None:
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        with torch.no_grad():
            self.conv.weight.mul_(0.5)
        self.x = torch.randn(BATCH, CHANNELS, SIZE, SIZE)
        self.optimizer = torch.optim.SGD(self.conv.parameters(), lr=1e-4)

    def step(self, budget: int, backward: str) -> None:
        settings = {"tol": 1e-30, "max_steps": budget, "memory": MEMORY}
        mode = settings if backward == "implicit" else {"mode": "unrolled", "steps": budget}
        z, _ = mdeq.fixed_point(
            lambda z: torch.tanh(self.conv(z) + self.x),
            torch.zeros_like(self.x),
            forward=settings,
            backward=mode,
            on_failure="ignore",
        )
        z.square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def peak(self, budget: int, backward: str) -> float:
        """Peak of one step, in states."""
        return peak_memory(lambda: self.step(budget, backward)) / VECTOR


def test_the_measure_sees_what_is_held_and_nothing_else() -> None:
    held_before = torch.zeros(100_000)

    def work() -> Tensor:
        first = held_before + 1
        del first
        second = held_before * 2
        return second + 1

    assert peak_memory(work) == pytest.approx(2 * 400_000, abs=100)  # scalars count too


def test_memory_is_flat_in_the_budget_and_linear_when_unrolled() -> None:
    trainer = Trainer()
    implicit = {budget: trainer.peak(budget, "implicit") for budget in (10, 30, 100)}
    unrolled = {budget: trainer.peak(budget, "unrolled") for budget in (10, 30, 100)}
    # The solver's m vectors, plus a fixed handful of states: z, f(z), best, r, gradients.
    assert max(implicit.values()) < MEMORY + 16
    assert max(implicit.values()) - min(implicit.values()) < 0.5
    assert 18 < unrolled[30] - unrolled[10] < 45
    assert unrolled[100] - unrolled[30] == pytest.approx(
        3.5 * (unrolled[30] - unrolled[10]), rel=0.05
    )


def test_memory_grows_with_m_by_the_vectors_stored_and_no_more() -> None:
    x = torch.randn(2, 100_000)

    def peak(memory: int, solver: str) -> float:
        work = partial(mdeq.solve, lambda z: torch.sin(5 * z + x), torch.zeros_like(x), solver)
        return peak_memory(partial(work, tol=1e-30, max_steps=40, memory=memory)) / (2 * 400_000)

    assert peak(20, "broyden") - peak(5, "broyden") == pytest.approx(15, abs=0.1)
    assert peak(20, "anderson") - peak(5, "anderson") == pytest.approx(30, abs=0.1)


def live_tensor_bytes() -> int:
    return sum(
        obj.untyped_storage().nbytes() for obj in gc.get_objects() if issubclass(type(obj), Tensor)
    )


@pytest.mark.parametrize("backward", ["implicit", "unrolled"])
def test_two_hundred_training_steps_leave_nothing_behind(backward: str) -> None:
    trainer = Trainer()
    trainer.step(5, backward)
    gc.collect()
    before = live_tensor_bytes()
    gc.disable()
    try:
        for _ in range(200):
            trainer.step(5, backward)
        assert live_tensor_bytes() == before
    finally:
        gc.enable()
