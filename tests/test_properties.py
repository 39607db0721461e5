"""What must hold for every contraction, shape and structure; hypothesis looks for exceptions."""

from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import mdeq
from tests.problems import SOLVERS, Affine, join_scales, on_scales, split_scales

Shape = tuple[int, ...]
shapes = st.lists(
    st.lists(st.integers(1, 4), min_size=0, max_size=3).map(tuple), min_size=1, max_size=4
)
solvers = st.sampled_from(SOLVERS)
radii = st.lists(st.floats(0.0, 0.9), min_size=1, max_size=4)
seeds = st.integers(0, 2**31)
thorough = settings(max_examples=40, deadline=None)


def features(shapes: list[Shape]) -> int:
    return sum(torch.Size(shape).numel() for shape in shapes)


def contraction(
    batch: int, size: int, lipschitz: float, seed: int
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """A nonlinear map of Lipschitz constant at most `lipschitz`, other in every sample."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(batch, size, size, generator=generator, dtype=torch.float64)
    weight *= lipschitz / torch.linalg.matrix_norm(weight, ord=2)[:, None, None]
    bias = torch.randn(batch, size, generator=generator, dtype=torch.float64)
    return lambda z: torch.sin((weight @ z[:, :, None])[:, :, 0] + bias), torch.zeros_like(bias)


@given(shapes=shapes, solver=solvers, radii=radii, seed=seeds)
@thorough
def test_every_affine_contraction_is_solved(
    shapes: list[Shape], solver: str, radii: list[float], seed: int
) -> None:
    problem = Affine.random(radii, features(shapes), seed=seed)
    z0 = split_scales(problem.zeros(), shapes)
    solution = mdeq.solve(on_scales(problem, shapes), z0, solver, tol=1e-12, max_steps=600)
    assert solution.converged.all()
    torch.testing.assert_close(join_scales(solution.z), problem.solution, rtol=1e-8, atol=1e-8)


@given(
    batch=st.integers(1, 4), size=st.integers(1, 12), solver=solvers, seed=seeds,
    lipschitz=st.floats(0.0, 0.8), memory=st.none() | st.integers(2, 8),
)  # fmt: skip
@thorough
def test_every_contraction_has_one_answer_wherever_the_solve_starts(
    batch: int, size: int, solver: str, seed: int, lipschitz: float, memory: int | None
) -> None:
    f, z0 = contraction(batch, size, lipschitz, seed)
    how = {"solver": solver, "tol": 1e-10, "max_steps": 300}
    if solver != "picard":
        how["memory"] = memory
    first = mdeq.solve(f, z0, **how)
    second = mdeq.solve(f, z0 + 3, **how)
    assert first.converged.all()
    assert second.converged.all()
    torch.testing.assert_close(first.z, second.z, rtol=1e-7, atol=1e-7)


@given(
    batch=st.integers(1, 5), size=st.integers(1, 10), solver=solvers, seed=seeds,
    lipschitz=st.floats(0.0, 3.0), budget=st.integers(1, 25), tol=st.floats(1e-12, 1.0),
    stop=st.sampled_from(["relative", "absolute"]), every=st.integers(1, 30),
)  # fmt: skip
@thorough
def test_a_solution_is_consistent_with_itself(
    batch: int, size: int, solver: str, seed: int, lipschitz: float, budget: int, tol: float,
    stop: str, every: int,
) -> None:  # fmt: skip
    f, z0 = contraction(batch, size, lipschitz, seed)
    s = mdeq.solve(
        f,
        z0,
        solver,
        tol=tol,
        max_steps=budget,
        stop=stop,
        check_every=every,
    )
    evaluations = len(s.trace)
    assert 1 <= evaluations <= budget
    assert torch.equal(s.converged, s.residual <= tol)
    assert torch.equal(s.residual, s.trace.amin(dim=0))
    for i, steps in enumerate(s.steps.tolist()):
        assert 1 <= steps <= evaluations
        assert (s.trace[steps - 1 :, i] == s.trace[steps - 1, i]).all()
        assert (s.trace[: steps - 1, i] > tol).all()
        if not s.converged[i]:
            assert steps == evaluations == budget
    fz = f(s.z)
    expected = (fz - s.z).norm(dim=1)
    if stop == "relative":
        expected = expected / fz.norm(dim=1)
    torch.testing.assert_close(s.residual, expected, rtol=1e-6, atol=1e-13)


@given(shapes=shapes, seed=seeds, solver=solvers)
@thorough
def test_gradients_of_every_structure_equal_the_closed_form(
    shapes: list[Shape], seed: int, solver: str
) -> None:
    problem = Affine.random([0.8, 0.3], features(shapes), seed=seed)
    bias = problem.bias.clone().requires_grad_()
    open_problem = Affine(problem.weight, bias)
    exact = {"solver": solver, "tol": 1e-13, "max_steps": 600}
    z, _ = mdeq.fixed_point(
        on_scales(open_problem, shapes),
        split_scales(problem.zeros(), shapes),
        forward=exact,
        backward=exact,
        on_failure="ignore",
    )
    join_scales(z).sum().backward()
    ones = torch.ones_like(problem.bias)
    adjoint = Affine(problem.weight.mT, ones).solution
    torch.testing.assert_close(bias.grad, adjoint, rtol=1e-7, atol=1e-7)
