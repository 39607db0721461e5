"""The ways to differentiate z* = f(z*): each is a value of its own, chosen by name or made.

A mode runs the forward solve, and returns z with a graph, beside the solve's
solution. The value of z does not depend on whether gradients are recorded.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from mdeq.implicit.adjoint import Adjoint
from mdeq.implicit.problem import Problem
from mdeq.solvers import (
    Solution,
    SolverConfig,
    check_choice,
    check_count,
    check_number,
    residual_norm,
    scale_change,
)


class Backward(Protocol):
    """A way to differentiate through an equilibrium."""

    def __call__(self, problem: Problem) -> tuple[Tensor, Solution[Tensor]]:
        """Return z with its graph, and the forward solution."""
        ...


@dataclass(frozen=True, kw_only=True)
class Implicit(SolverConfig):
    """The exact gradient at the fixed point: solve g = J^T g + dl/dz (the paper's equation 4).

    Its fields are those of the backward solve. One evaluation of f is recorded,
    whatever the budgets; z is the forward solution itself.
    """

    def __call__(self, problem: Problem) -> tuple[Tensor, Solution[Tensor]]:
        """Solve without a graph, then attach the adjoint of one evaluation."""
        solution = problem.solve_forward()
        if not torch.is_grad_enabled():
            return solution.z, solution
        z = solution.z.detach().requires_grad_()
        fz = problem.f(z)
        if not fz.requires_grad:  # f cut its own graph
            return solution.z, solution
        return Adjoint.apply(fz, z, partial(problem.solve_backward, self)), solution


@dataclass(frozen=True, kw_only=True)
class Phantom:
    """The gradient of `steps` damped steps z <- (1 - tau) z + tau f(z) taken from z*.

    Cheaper than `Implicit` and smoother where z* is not reached exactly (Geng et
    al., On Training Implicit Models, 2021). z is the last of those steps.
    """

    steps: int = 5
    tau: float = 0.5

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_number("tau", self.tau, above=0, most=1)

    def __call__(self, problem: Problem) -> tuple[Tensor, Solution[Tensor]]:
        """Solve without a graph, then take the recorded steps."""
        solution = problem.solve_forward()
        z = solution.z
        for _ in range(self.steps):
            z = torch.lerp(z, problem.f(z), self.tau)
        return z, solution


@dataclass(frozen=True, kw_only=True)
class OneStep:
    """The Jacobian-free gradient: that of one evaluation z = f(z*) (Fung et al., 2022)."""

    def __call__(self, problem: Problem) -> tuple[Tensor, Solution[Tensor]]:
        """Solve without a graph, then evaluate f once with it."""
        solution = problem.solve_forward()
        return problem.f(solution.z), solution


@dataclass(frozen=True, kw_only=True)
class Unrolled:
    """f stacked `steps` times from z0 and back-propagated as an explicit network.

    There is no solve: of the forward settings only `tol` and `stop` are used, to
    judge the outcome. Memory grows with `steps`; gradients reach z0 too. The
    solution describes the input of the last evaluation, z = f(solution.z).
    """

    steps: int = 5

    def __post_init__(self) -> None:
        check_count("steps", self.steps)

    def __call__(self, problem: Problem) -> tuple[Tensor, Solution[Tensor]]:
        """Stack f."""
        z_next = problem.z0
        sizes = problem.scale_sizes or []
        trace = []
        changes = [z_next.new_empty(0, len(z_next), len(sizes))]
        for step in range(1, self.steps + 1):
            z, z_next = z_next, problem.f(z_next)
            with torch.no_grad():
                trace.append(residual_norm(z_next, z_next - z, problem.forward.stop))
                if sizes and step < self.steps:
                    changes.append(scale_change(z, z_next, sizes)[None])
        return z_next, Solution(
            z=z.detach(),
            residual=trace[-1],
            converged=trace[-1] <= problem.forward.tol,
            steps=torch.full_like(trace[-1], self.steps, dtype=torch.int64),
            trace=torch.stack(trace),
            scale_changes=torch.cat(changes) if sizes else None,
        )


MODES: Mapping[str, type[Implicit | Phantom | OneStep | Unrolled]] = {
    "implicit": Implicit,
    "phantom": Phantom,
    "one_step": OneStep,
    "unrolled": Unrolled,
}


def evaluations_after(backward: Backward) -> int:
    """Evaluations of f that follow the forward solve, with and without gradients."""
    if isinstance(backward, Phantom):
        return backward.steps
    return int(isinstance(backward, OneStep))


def resolve_backward(backward: object) -> Backward:
    """A mode from its name, its settings, or itself."""
    if isinstance(backward, str):
        return backward_mode(backward)
    if isinstance(backward, Mapping):
        return backward_mode(**{"mode": "implicit", **backward})
    if callable(backward) and not isinstance(backward, type):
        mode: Backward = backward
        return mode
    raise ValueError(
        f"backward is {backward!r}; expected a mode's name, a mapping such as "
        '{"mode": "phantom", "steps": 3}, or Implicit(...), Phantom(...), OneStep(), Unrolled(...)'
    )


def backward_mode(mode: str, **settings: Any) -> Backward:
    """Make a mode from its name and settings, as they stand in a configuration file."""
    check_choice("backward mode", mode, MODES)
    kind = MODES[mode]
    if issubclass(kind, Implicit):
        return kind.of(**settings)
    names = [f.name for f in fields(kind)]
    for name in settings:
        check_choice(f"option of {mode!r}", name, names)
    return kind(**settings)


def merge_backward(now: Any, change: Any) -> Any:
    """Settings of a mode with some changed; another mode starts from its own defaults."""
    if isinstance(change, str):
        change = {"mode": change}
    for name, kind in MODES.items():
        if isinstance(change, kind):
            return {"mode": name, **asdict(change)}
    if isinstance(change, Mapping) and isinstance(now, Mapping):
        same = change.get("mode", now["mode"]) == now["mode"]
        return {**now, **change} if same else dict(change)
    return change
