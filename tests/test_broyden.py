"""Broyden against the textbook, and its limits."""

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


@pytest.mark.parametrize("memory", [1, 3, 6])
def test_a_full_memory_is_the_product_of_the_newest_updates(memory: int) -> None:
    """Against the same formula applied factor by factor to whole vectors."""
    problem = Affine.random([0.9], 15)
    z = problem.zeros()
    directions: list[Tensor] = []
    expected = []
    for _ in range(14):
        expected.append(z)
        w = problem(z) - z
        for old, new in pairwise(directions):
            w = w + new * (old * w).sum() / old.square().sum()
        if directions:
            newest = directions[-1]
            w = w / (1 - (newest * w).sum() / newest.square().sum())
        directions = [*directions, w][-memory:]
        z = z + w
    visited: list[Tensor] = []

    def spy(z: Tensor) -> Tensor:
        visited.append(z)
        return problem(z)

    mdeq.solve(spy, problem.zeros(), tol=1e-300, max_steps=14, memory=memory)
    for ours, theirs in zip(visited, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


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
