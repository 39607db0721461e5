"""Anderson against plain least squares, and on singular systems."""

import pytest
import torch
from torch import Tensor

import mdeq
from tests.problems import Affine


def least_squares_anderson(problem: Affine, evaluations: int, memory: int) -> list[Tensor]:
    """The definition: mix past f(z) with weights of sum 1 that minimise the mixed residual."""
    zs = [problem.zeros()]
    fs = [problem(zs[0])]
    while len(zs) < evaluations:
        window = slice(max(0, len(zs) - memory - 1), None)
        f_window = torch.cat(fs[window])
        residuals = f_window - torch.cat(zs[window])
        differences = (residuals[:-1] - residuals[-1]).T
        others = torch.linalg.lstsq(differences, -residuals[-1]).solution
        weights = torch.cat([others, 1 - others.sum()[None]])
        zs.append((weights @ f_window)[None])
        fs.append(problem(zs[-1]))
    return zs


@pytest.mark.parametrize("memory", [1, 3, 20])
def test_iterates_minimise_the_mixed_residual(memory: int) -> None:
    problem = Affine.random([0.95], 40)
    visited: list[Tensor] = []

    def spy(z: Tensor) -> Tensor:
        visited.append(z)
        return problem(z)

    mdeq.solve(spy, problem.zeros(), "anderson", tol=1e-300, max_steps=15, memory=memory, ridge=0.0)
    for ours, theirs in zip(visited, least_squares_anderson(problem, 15, memory), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-7)


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_a_singular_system_takes_the_plain_step(ridge: float) -> None:
    """On a shift every residual is the same, so all differences vanish."""
    solution = mdeq.solve(lambda z: z + 1, torch.zeros(2, 3), "anderson", max_steps=8, ridge=ridge)
    assert solution.z.isfinite().all()
    assert solution.trace.isfinite().all()


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_linearly_dependent_differences_do_not_raise(ridge: float) -> None:
    """One feature, three differences: the normal equations have rank one."""
    slope = torch.tensor([[0.5], [-0.5]], dtype=torch.float64)
    solution = mdeq.solve(
        lambda z: slope * z + z.sin() * 0.1 + 1,
        torch.zeros(2, 1, dtype=torch.float64),
        "anderson",
        tol=1e-10,
        max_steps=60,
        memory=4,
        ridge=ridge,
    )
    assert solution.converged.all()


def test_the_ridge_is_relative() -> None:
    """Scaling the problem by a power of two scales the iterates and changes nothing else."""
    problem = Affine.random([0.9], 10)
    small = Affine(problem.weight, problem.bias * 2.0**-40)
    ours, scaled = (mdeq.solve(p, p.zeros(), "anderson", tol=1e-9) for p in (problem, small))
    assert torch.equal(ours.steps, scaled.steps)
    torch.testing.assert_close(ours.z, scaled.z * 2.0**40, rtol=1e-12, atol=0)


def test_a_large_ridge_is_plain_iteration() -> None:
    problem = Affine.random([0.9], 10)
    ridged = mdeq.solve(problem, problem.zeros(), "anderson", ridge=1e12, max_steps=10)
    plain = mdeq.solve(problem, problem.zeros(), "picard", max_steps=10)
    torch.testing.assert_close(ridged.trace, plain.trace, rtol=1e-6, atol=0)


def test_ridge_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="ridge is -1"):
        mdeq.solve(torch.cos, torch.zeros(1, 1), "anderson", ridge=-1)
