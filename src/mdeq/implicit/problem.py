"""One equilibrium to be found and differentiated, as the modes of differentiation see it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mdeq.implicit.convergence import OnFailure, report
from mdeq.solvers import FlatMap, Layout, Solution, SolverConfig


@dataclass(frozen=True, kw_only=True)
class BackwardSolve:
    """Solves the adjoint equation during backward, and tells the caller how it went.

    It outlives the forward pass inside the graph, so it knows nothing of f.
    """

    layout: Layout
    on_failure: OnFailure
    on_backward: Callable[[Solution[Any]], None] | None

    def __call__(self, config: SolverConfig, adjoint: FlatMap, g0: Tensor) -> Tensor:
        """Solve g = adjoint(g) from g0."""
        solution = config.solve_flat(adjoint, g0)
        if self.on_backward is not None:
            self.on_backward(solution.unpacked(self.layout))
        report("backward", solution, config, self.on_failure)
        # The first evaluation, at zero, says nothing of J: see `Adjoint`.
        never = solution.trace[-1].isinf() & (solution.steps <= 2)
        return _without_false_zeros(solution, never).z


@dataclass(frozen=True, kw_only=True)
class Problem:
    """z = f(z) on a flat state, with the settings of its solves."""

    f: FlatMap
    z0: Tensor
    forward: SolverConfig
    on_failure: OnFailure
    solve_backward: BackwardSolve
    scale_sizes: list[int] | None
    """Features of every scale, if their changes are to be recorded."""

    def solve_forward(self) -> Solution[Tensor]:
        """Solve from z0, without a graph."""
        solution = self.forward.solve_flat(self.f, self.z0.detach(), scale_sizes=self.scale_sizes)
        report("forward", solution, self.forward, self.on_failure)
        return _without_false_zeros(solution, solution.residual.isinf())


def _without_false_zeros(solution: Solution[Tensor], never: Tensor) -> Solution[Tensor]:
    """NaN for samples at which f never was finite: their start, mostly zero, would hide it."""
    return replace(solution, z=torch.where(never[:, None], torch.nan, solution.z))
