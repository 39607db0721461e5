"""Samples of a batch know nothing of one another."""

import pytest
import torch
from torch import Tensor

import mdeq
from tests.problems import SOLVERS, Affine, contract

# Easy, hard, harder, divergent, and one whose f turns to NaN when its state leaves a ball.
RADII = (0.1, 0.8, 0.95, 6.0, 6.0)
POISONED = 4


def mixed_batch(device: torch.device) -> tuple[Affine, Tensor]:
    problem = Affine.random(RADII, 24, device=device)
    limits = torch.full((len(RADII),), torch.inf, dtype=torch.float64, device=device)
    limits[POISONED] = 1.5 * problem.bias[POISONED].norm()
    return problem, limits


def poisoned(problem: Affine, limits: Tensor):
    def f(z: Tensor) -> Tensor:
        fz = problem(z)
        return torch.where((fz.norm(dim=1) > limits)[:, None], torch.nan, fz)

    return f


@pytest.mark.parametrize(
    ("solver", "memory"), [(solver, None) for solver in SOLVERS] + [("broyden", 4), ("anderson", 4)]
)
def test_a_batch_gives_each_sample_what_it_gets_alone(
    solver: str, memory: int | None, device: torch.device
) -> None:
    problem, limits = mixed_batch(device)
    settings = {"solver": solver, "tol": 1e-9, "max_steps": 30, "memory": memory}
    together = mdeq.solve(poisoned(problem, limits), problem.zeros(), **settings)
    assert len(set(together.steps.tolist())) > 1  # they do finish at different times
    for i in range(len(RADII)):
        one = problem[slice(i, i + 1)]
        alone = mdeq.solve(poisoned(one, limits[i : i + 1]), one.zeros(), **settings)
        assert alone.steps[0] == together.steps[i]
        assert alone.converged[0] == together.converged[i]
        torch.testing.assert_close(alone.z[0], together.z[i], rtol=1e-7, atol=1e-9)
        own = int(alone.steps[0])
        # A divergent trace multiplies rounding errors from step to step.
        torch.testing.assert_close(
            alone.trace[:own, 0], together.trace[:own, i], rtol=1e-6, atol=1e-12
        )


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_nan_costs_its_own_sample_nothing_but_time(solver: str, device: torch.device) -> None:
    problem, limits = mixed_batch(device)
    solution = mdeq.solve(poisoned(problem, limits), problem.zeros(), solver, max_steps=30)
    assert solution.z.isfinite().all()
    assert solution.converged.tolist()[:2] == [True, True]
    assert not solution.converged[POISONED]
    # It was stopped at the NaN, with the best iterate before it.
    last = int(solution.steps[POISONED])
    assert last < 30
    assert solution.trace[last - 1, POISONED] == torch.inf
    assert solution.residual[POISONED] == solution.trace[: last - 1, POISONED].min()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_sample_that_is_nan_from_the_start_is_reported_as_infinite(solver: str) -> None:
    solution = mdeq.solve(
        lambda z: torch.stack([0.5 * z[0] + 1, z[1] + torch.nan]), torch.zeros(2, 3), solver
    )
    assert solution.converged.tolist() == [True, False]
    assert solution.residual[1] == torch.inf
    assert solution.steps[1] == 1
    assert torch.equal(solution.z[1], torch.zeros(3))


@pytest.mark.parametrize("backward", ["implicit", "phantom", "one_step"])
def test_a_fixed_point_that_never_was_finite_is_nan(backward: str) -> None:
    """z0, mostly zero, would pass for an answer."""
    z, solution = mdeq.fixed_point(
        lambda z: 0.5 * z + torch.tensor([[1.0], [torch.nan]]),
        torch.zeros(2, 3),
        backward=backward,
        on_failure="ignore",
    )
    assert z[0].isfinite().all()
    assert z[1].isnan().all()
    assert solution.converged.tolist() == [True, False]


@pytest.mark.parametrize("solver", SOLVERS)
def test_overflow_ends_a_sample_and_keeps_its_best(solver: str) -> None:
    """f(z) = 1e30 (1 + z^2) overflows float32 within a few steps."""
    easy = torch.tensor([[True], [False]])
    solution = mdeq.solve(
        lambda z: torch.where(easy, 0.5 * z + 1, 1e30 * (1 + z * z)), torch.zeros(2, 4), solver
    )
    assert solution.converged[0]
    assert not solution.converged[1]
    assert solution.z.isfinite().all()


class Selectable:
    """The mixed batch as an f that can be had for some of its samples."""

    def __init__(self, problem: Affine, limits: Tensor, seen: list[int]) -> None:
        self.problem, self.limits, self.seen = problem, limits, seen

    def __call__(self, z: Tensor) -> Tensor:
        self.seen.append(len(z))
        return poisoned(self.problem, self.limits)(z)

    def select(self, rows: Tensor) -> "Selectable":
        some = Affine(self.problem.weight[rows], self.problem.bias[rows])
        return Selectable(some, self.limits[rows], self.seen)


@pytest.mark.parametrize("check_every", [1, 3])
@pytest.mark.parametrize(
    ("solver", "memory"), [(solver, None) for solver in SOLVERS] + [("broyden", 4), ("anderson", 4)]
)
def test_finished_samples_can_leave_the_batch(
    solver: str, memory: int | None, check_every: int, device: torch.device
) -> None:
    problem = Affine.random((0.1, 0.9, 0.1, 6.0, 0.2, 0.8, 0.1), 24, device=device)
    limits = torch.full((7,), torch.inf, dtype=torch.float64, device=device)
    limits[3] = 1.5 * problem.bias[3].norm()  # divergent, and soon NaN
    settings = {"tol": 1e-9, "max_steps": 60, "memory": memory, "track_scales": True}
    seen: list[int] = []
    f = Selectable(problem, limits, seen)
    whole = mdeq.solve(f, problem.zeros(), solver, check_every=check_every, **settings)
    assert set(seen) == {7}
    seen.clear()
    some = mdeq.solve(f, problem.zeros(), solver, compact=True, check_every=check_every, **settings)
    assert min(seen) <= 3
    assert some.steps.tolist() == whole.steps.tolist()
    for name in ("z", "residual", "trace", "scale_changes"):
        torch.testing.assert_close(getattr(some, name), getattr(whole, name), rtol=1e-6, atol=1e-8)


def test_a_model_answers_the_same_when_finished_samples_leave(device: torch.device) -> None:
    torch.manual_seed(0)
    model = contract(mdeq.create_model("mdeq_cifar10_small", dropout=0.2)).to(device)
    images = torch.randn(6, 3, 16, 16, device=device)
    images[:4] *= 0.1
    solver = {"tol": 1e-5, "max_steps": 60}
    answers = []
    for compact in (False, True):
        torch.manual_seed(1)  # for the dropout masks, which have rows too
        with torch.no_grad():
            found = model.equilibrium(images, solver={**solver, "compact": compact})
        answers.append(found)
    assert len(set(answers[0].solution.steps.tolist())) > 1
    assert answers[0].solution.steps.tolist() == answers[1].solution.steps.tolist()
    for a, b in zip(answers[0].scales, answers[1].scales, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_what_cannot_leave_the_batch_says_so() -> None:
    problem, limits = mixed_batch(torch.device("cpu"))
    with pytest.raises(ValueError, match=r"needs an f with a method select\(rows\)"):
        mdeq.solve(problem, problem.zeros(), compact=True)
    mdeq.register_solver("test-plain")(lambda z0, max_steps: lambda z, fz, r: fz)
    with pytest.raises(ValueError, match="'test-plain' has none; leave compact out"):
        mdeq.solve(Selectable(problem, limits, []), problem.zeros(), "test-plain", compact=True)
    with pytest.raises(ValueError, match="compact is 1; expected True or False"):
        mdeq.solve(problem, problem.zeros(), compact=1)
