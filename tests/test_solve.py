"""What `solve` promises, whatever the solver: exact answers, honest counts."""

import pytest
import torch
from torch import Tensor

import mdeq
from tests.problems import SOLVERS, Affine, join_scales, on_scales, split_scales


def exact(solver: str) -> dict[str, float | int]:
    return {"tol": 1e-13, "max_steps": 1000} | ({} if solver == "picard" else {"memory": 60})


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("radius", [0.1, 0.5, 0.8, 0.95])
def test_affine_maps_are_solved_exactly(solver: str, radius: float, device: torch.device) -> None:
    problem = Affine.random([radius] * 3, 40, device=device)
    solution = mdeq.solve(problem, problem.zeros(), solver, **exact(solver))
    assert solution.converged.all()
    torch.testing.assert_close(solution.z, problem.solution, rtol=0, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scalars_are_solved_exactly(solver: str, device: torch.device) -> None:
    slope = torch.tensor([0.95, -0.95, 0.3, 0.0], dtype=torch.float64, device=device)
    solution = mdeq.solve(
        lambda z: slope * z + 2.0, torch.zeros_like(slope), solver, **exact(solver)
    )
    torch.testing.assert_close(solution.z, 2.0 / (1 - slope), rtol=0, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scales_of_different_shapes_are_solved_together(solver: str, device: torch.device) -> None:
    shapes = [(2, 4, 4), (3, 2, 2), (5,)]
    problem = Affine.random([0.95, 0.5], 32 + 12 + 5, device=device)
    z0 = split_scales(problem.zeros(), shapes)
    solution = mdeq.solve(on_scales(problem, shapes), z0, solver, **exact(solver))
    assert [tuple(scale.shape[1:]) for scale in solution.z] == shapes
    torch.testing.assert_close(join_scales(solution.z), problem.solution, rtol=0, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_absolute_tolerance_is_absolute(solver: str) -> None:
    problem = Affine.random([0.7] * 4, 10)
    solution = mdeq.solve(
        problem, problem.zeros(), solver, tol=1e-6, max_steps=200, stop="absolute"
    )
    distance = (problem(solution.z) - solution.z).norm(dim=1)
    assert (distance <= 1e-6).all()
    torch.testing.assert_close(solution.residual, distance)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_residual_is_that_of_the_returned_z(solver: str) -> None:
    problem = Affine.random([0.9] * 4, 30)
    solution = mdeq.solve(problem, problem.zeros(), solver, tol=1e-12, max_steps=9)
    fz = problem(solution.z)
    torch.testing.assert_close(
        solution.residual, (fz - solution.z).norm(dim=1) / fz.norm(dim=1), rtol=1e-9, atol=0
    )
    assert not solution.converged.any()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("budget", [1, 2, 7])
def test_the_budget_counts_evaluations_of_f(solver: str, budget: int) -> None:
    calls = []

    def f(z: Tensor) -> Tensor:
        calls.append(z)
        return 0.9 * z + 1 + 0.01 * z.sin()

    solution = mdeq.solve(f, torch.zeros(2, 3), solver, tol=1e-30, max_steps=budget)
    assert len(calls) == budget
    assert solution.steps.tolist() == [budget, budget]
    assert solution.trace.shape == (budget, 2)


@pytest.mark.parametrize("solver", SOLVERS)
def test_starting_at_the_solution_takes_one_evaluation(solver: str) -> None:
    problem = Affine.random([0.5, 0.9], 6)
    solution = mdeq.solve(problem, problem.solution, solver, tol=1e-10)
    assert solution.steps.tolist() == [1, 1]
    torch.testing.assert_close(solution.z, problem.solution, rtol=0, atol=0)


def test_a_finished_sample_stops_moving_and_repeats_its_last_residual() -> None:
    problem = Affine.random([0.1, 0.9], 20)
    seen: list[Tensor] = []

    def f(z: Tensor) -> Tensor:
        seen.append(z.clone())
        return problem(z)

    solution = mdeq.solve(f, problem.zeros(), "picard", tol=1e-6, max_steps=500)
    quick, slow = solution.steps.tolist()
    assert quick < slow == len(solution.trace) == len(seen)
    for z in seen[quick:]:
        assert torch.equal(z[0], solution.z[0])
    assert (solution.trace[quick - 1 :, 0] == solution.residual[0]).all()
    assert (solution.trace[: quick - 1, 0] > 1e-6).all()


def test_the_best_iterate_is_kept_when_the_residual_rises_again() -> None:
    # A rotation that first shrinks and then grows: the residual falls, then rises.
    residuals = iter([8.0, 4.0, 1.0, 2.0, 16.0])
    visited: list[Tensor] = []

    def f(z: Tensor) -> Tensor:
        visited.append(z)
        return z + next(residuals)

    solution = mdeq.solve(f, torch.zeros(1, 1), "picard", tol=1e-9, max_steps=5, stop="absolute")
    assert solution.residual.item() == 1.0
    assert torch.equal(solution.z, visited[2])
    assert solution.trace[:, 0].tolist() == [8.0, 4.0, 1.0, 2.0, 16.0]


def test_the_zero_map_is_at_rest() -> None:
    solution = mdeq.solve(torch.zeros_like, torch.zeros(2, 3))
    assert solution.converged.all()
    assert solution.residual.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("structure", [list, tuple])
def test_the_structure_of_the_state_comes_back(structure: type) -> None:
    z0 = structure([torch.zeros(2, 3), torch.zeros(2, 1)])
    solution = mdeq.solve(lambda z: [0.5 * scale + 1 for scale in z], z0)
    assert type(solution.z) is structure


def test_the_memory_format_of_the_state_comes_back() -> None:
    z0 = [
        torch.zeros(2, 3, 8, 4).to(memory_format=torch.channels_last),
        torch.zeros(2, 6, 4, 2),
    ]
    target = [torch.randn_like(scale) for scale in z0]

    def f(z: list[Tensor]) -> list[Tensor]:
        assert z[0].stride()[1:] == z0[0].stride()[1:]
        assert z[1].stride()[1:] == z0[1].stride()[1:]
        return [0.5 * scale + goal for scale, goal in zip(z, target, strict=True)]

    solution = mdeq.solve(f, z0, tol=1e-6)
    for scale, start, goal in zip(solution.z, z0, target, strict=True):
        assert scale.stride() == start.stride()
        torch.testing.assert_close(scale, 2 * goal)


def test_the_change_of_every_scale_is_recorded() -> None:
    # Under plain iteration from zero, scale k of z_n is (1 - rate_k^n) / (1 - rate_k).
    rates = (0.25, 0.5)
    solution = mdeq.solve(
        lambda z: [rate * scale + 1 for rate, scale in zip(rates, z, strict=True)],
        [torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64)],
        "picard",
        tol=1e-30,
        max_steps=6,
        track_scales=True,
    )
    assert solution.scale_changes is not None
    assert solution.scale_changes.shape == (5, 3, 2)
    for k, rate in enumerate(rates):
        expected = [rate**n * (1 - rate) / (1 - rate ** (n + 1)) for n in range(5)]
        torch.testing.assert_close(
            solution.scale_changes[:, 0, k], torch.tensor(expected, dtype=torch.float64)
        )


def test_the_change_of_a_finished_sample_is_repeated() -> None:
    solution = mdeq.solve(
        lambda z: [torch.tensor([[0.1], [0.9]]) * z[0] + 1],
        [torch.zeros(2, 1)],
        "picard",
        tol=1e-3,
        track_scales=True,
    )
    quick = int(solution.steps[0])
    assert quick < solution.steps[1]
    changes = solution.scale_changes[:, 0, 0]
    assert (changes > 0).all()
    assert (changes[quick - 2 :] == changes[quick - 2]).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_point_where_f_vanishes_is_no_end(solver: str) -> None:
    """A ReLU that is off everywhere gives f(z) = 0: far from a fixed point, and finite."""
    solution = mdeq.solve(
        lambda z: torch.relu(1 - 0.5 * z), torch.full((1, 4), 10.0), solver, tol=1e-5
    )
    assert solution.converged.all()
    torch.testing.assert_close(solution.z, torch.full((1, 4), 2 / 3))


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_answer_does_not_depend_on_how_often_the_stop_test_runs(solver: str) -> None:
    problem = Affine.random([0.1, 0.6, 0.9], 20)
    often, seldom = (
        mdeq.solve(problem, problem.zeros(), solver, tol=1e-6, max_steps=300, check_every=every)
        for every in (1, 7)
    )
    assert torch.equal(often.z, seldom.z)
    assert torch.equal(often.steps, seldom.steps)
    assert torch.equal(often.residual, seldom.residual)
    assert torch.equal(often.trace, seldom.trace[: len(often.trace)])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e10])
def test_small_and_large_states_are_judged_rightly(solver: str, size: float) -> None:
    """In float32 the squares of such numbers vanish."""
    b = torch.tensor([[1.0, -2.0, 3.0]])
    solution = mdeq.solve(
        lambda z: 0.5 * z + size * b, torch.zeros(1, 3), solver, tol=1e-5, max_steps=60
    )
    assert solution.converged.all()
    torch.testing.assert_close(solution.z / size, 2 * b, rtol=1e-4, atol=0)


def test_a_solver_of_the_users_own() -> None:
    @mdeq.register_solver("test-damped")
    def damped(z0: Tensor, max_steps: int, *, tau: float = 0.5) -> object:
        return lambda z, fz, r: z + tau * r

    # z -> 3 - 2z diverges under plain iteration; damped by 1/3 it lands at once.
    solution = mdeq.solve(lambda z: 3 - 2 * z, torch.zeros(1, 1), "test-damped", tau=1 / 3)
    assert solution.steps.item() == 2
    assert "test-damped" in mdeq.SOLVERS
    with pytest.raises(ValueError, match="already"):
        mdeq.register_solver("test-damped")(damped)


def test_a_solution_says_in_one_line_how_it_went() -> None:
    problem = Affine.random([0.1, 0.99], 20)
    solution = mdeq.solve(problem, problem.zeros(), "picard", tol=1e-3, max_steps=20)
    assert str(solution).startswith("1 of 2 samples converged, largest residual 0.")


def test_a_solution_cannot_be_changed() -> None:
    solution = mdeq.solve(torch.zeros_like, torch.zeros(2, 3))
    with pytest.raises(AttributeError):
        solution.z = torch.ones(2, 3)


@pytest.mark.parametrize("kind", ["z", "proposal"])
def test_a_solver_that_overwrites_what_it_gave_away_is_told_so(kind: str) -> None:
    def in_place(z0: Tensor, max_steps: int) -> object:
        own = torch.empty_like(z0)
        return lambda z, fz, r: z.add_(r) if kind == "z" else own.copy_(fz)

    mdeq.register_solver(f"test-in-place-{kind}")(in_place)
    with pytest.raises(ValueError, match="expected a new tensor from every call"):
        mdeq.solve(torch.cos, torch.zeros(2, 3), f"test-in-place-{kind}", tol=1e-9)
