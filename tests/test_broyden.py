"""Broyden against the textbook, and its limits."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import mdeq
from mdeq.solvers import Broyden
from tests.problems import Affine


def textbook_good_broyden(f, z0: Tensor, evaluations: int, alpha: float) -> list[Tensor]:
    """Dense inverse Jacobian of g = f - z for one sample, updated by Sherman-Morrison."""
    inverse = -torch.eye(len(z0), dtype=z0.dtype)
    z, g = z0, f(z0[None])[0] - z0
    iterates = [z]
    for _ in range(evaluations - 1):
        z_next = z - alpha * inverse @ g
        g_next = f(z_next[None])[0] - z_next
        s, y = z_next - z, g_next - g
        inverse = inverse + torch.outer(s - inverse @ y, s @ inverse) / (s @ inverse @ y)
        z, g = z_next, g_next
        iterates.append(z)
    return iterates


@pytest.mark.parametrize("alpha", [1.0, 0.7, 1.3])
def test_iterates_are_those_of_the_textbook(alpha: float, device: torch.device) -> None:
    weight = 1.2 * torch.randn(12, 12, dtype=torch.float64) / 12**0.5
    bias = torch.randn(12, dtype=torch.float64)

    def f(z: Tensor) -> Tensor:
        return torch.tanh(z @ weight.to(z.device).T + bias.to(z.device))

    expected = textbook_good_broyden(f, torch.zeros(12, dtype=torch.float64), 18, alpha)
    visited: list[Tensor] = []

    def spy(z: Tensor) -> Tensor:
        visited.append(z[0].cpu())
        return f(z)

    z0 = torch.zeros(1, 12, dtype=torch.float64, device=device)
    solution = mdeq.solve(spy, z0, "broyden", tol=1e-300, max_steps=18, alpha=alpha)
    assert solution.residual.item() < 1e-3  # the comparison covers real convergence
    for ours, theirs in zip(visited, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("memory", [1, 2, 5])
def test_no_more_than_memory_updates_are_stored(memory: int) -> None:
    solver = Broyden(torch.zeros(3, 7), 50, memory=memory)
    for _ in range(2 * memory + 1):
        z, fz = torch.randn(3, 7), torch.randn(3, 7)
        solver(z, fz, fz - z)
    state = [value for value in vars(solver).values() if isinstance(value, Tensor)]
    vectors = [value for value in state if value.shape[-1] == 7 and value.numel() >= 3 * 7]
    assert [tuple(value.shape) for value in vectors if value is not solver.gram] == [(3, memory, 7)]


def vectorwise_broyden(
    f: Callable[[Tensor], Tensor], z: Tensor, evaluations: int, *, memory: int, alpha: float
) -> list[Tensor]:
    """The product form applied factor by factor to whole vectors: slow, and plainly right."""
    directions: list[Tensor] = []
    iterates = []

    def share(d: Tensor, w: Tensor) -> Tensor:
        return (d * w).sum(dim=1, keepdim=True) / d.square().sum(dim=1, keepdim=True)

    for _ in range(evaluations):
        iterates.append(z)
        w = f(z) - z
        for old, new in pairwise(directions):
            w = w + (new - (1 - alpha) * old) * share(old, w)
        if directions:
            t = share(directions[-1], w)
            w = (w - (1 - alpha) * t * directions[-1]) / (1 - t)
        directions = [*directions, w][-memory:]
        z = z + alpha * w
    return iterates


@pytest.mark.parametrize("alpha", [1.0, 0.6])
@pytest.mark.parametrize("memory", [1, 3, 6])
def test_a_full_memory_is_the_product_of_the_newest_updates(memory: int, alpha: float) -> None:
    problem = Affine.random([0.9], 15)
    expected = vectorwise_broyden(problem, problem.zeros(), 14, memory=memory, alpha=alpha)
    visited: list[Tensor] = []

    def spy(z: Tensor) -> Tensor:
        visited.append(z)
        return problem(z)

    mdeq.solve(spy, problem.zeros(), tol=1e-300, max_steps=14, memory=memory, alpha=alpha)
    for ours, theirs in zip(visited, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_does_not_build_up_over_a_hundred_steps(dtype: torch.dtype) -> None:
    """A hard linear problem on which inexact inner products keep the solve from converging."""
    problem = Affine.random([1.02] * 8, 300, seed=3, dtype=dtype)
    solution = mdeq.solve(problem, problem.zeros(), tol=1e-5, max_steps=250)
    assert solution.converged.all()
    assert (solution.steps > 80).all()


def test_a_slope_close_to_one_is_no_breakdown() -> None:
    """One secant step solves a scalar affine equation, however close its slope is to one."""
    solution = mdeq.solve(
        lambda z: (1 - 1e-6) * z + 1, torch.zeros(1, 1, dtype=torch.float64), tol=1e-12
    )
    assert solution.steps.item() == 3
    assert solution.z.item() == pytest.approx(1e6, rel=1e-9)


def test_an_update_that_breaks_down_is_left_out_and_the_rest_is_kept() -> None:
    """f shifts by one while z < 1.5, then contracts: the update in between means nothing."""

    def f(z: Tensor) -> Tensor:
        return torch.where(z < 1.5, z + 1, 0.5 * z + 2)

    visited: list[float] = []

    def spy(z: Tensor) -> Tensor:
        visited.append(z.item())
        return f(z)

    solution = mdeq.solve(spy, torch.zeros(1, 1, dtype=torch.float64), tol=1e-12)
    # Two plain steps; then a plain step of the contraction, d = 1; then its secant step to 4.
    assert visited[:4] == [0.0, 1.0, 2.0, 3.0]
    assert solution.z.item() == pytest.approx(4.0)


def test_an_affine_map_of_d_features_is_solved_in_2d_steps() -> None:
    """Gay's theorem (1979): good Broyden ends on linear systems after 2D steps at most."""
    problem = Affine.random([3.0], 5)  # plain iteration diverges
    solution = mdeq.solve(problem, problem.zeros(), tol=1e-9, max_steps=11)
    assert solution.converged.all()


def test_a_shift_has_no_fixed_point_and_breaks_nothing() -> None:
    """f(z) = z + 1 makes the secant condition unsolvable at the very first update."""
    solution = mdeq.solve(lambda z: z + 1, torch.zeros(2, 3), tol=1e-6, max_steps=12)
    assert not solution.converged.any()
    assert solution.z.isfinite().all()
    assert solution.trace.isfinite().all()
    assert solution.steps.tolist() == [12, 12]


def test_alpha_must_be_positive() -> None:
    with pytest.raises(ValueError, match="alpha is 0; expected a number above 0"):
        mdeq.solve(torch.cos, torch.zeros(1, 1), alpha=0)
