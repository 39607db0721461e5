"""How z moves during a solve, which is how the paper measures convergence."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mdeq.models import MDEQ
from mdeq.solvers import Layout, SolverConfig

NEVER = 1e-30  # a residual that float32 does not come down to: all evaluations are wanted
SETTLED = 0.01
"""The relative change at which the curves are compared."""


@torch.no_grad()
def relative_changes(
    model: MDEQ, images: Tensor, solver: SolverConfig, *, by_scale: bool = False
) -> Tensor:
    """||z[i+1] - z[i]|| / ||z[i+1]|| at every evaluation but the first, (evaluations - 1, B, 1).

    The paper divides by ||z[i]||, but its first z is 0, and so is ours.
    `by_scale`: the same of every scale by itself, (evaluations - 1, B, scales).
    """
    x = model.injection(images)
    start = model.f.start(x)
    layout = Layout.of(start)
    sizes = layout.sizes if by_scale else [sum(layout.sizes)]
    solution = solver.solve_flat(
        layout.flatten(model.f.at(x)), layout.pack(start), scale_sizes=sizes
    )
    assert solution.scale_changes is not None
    changes = solution.scale_changes.new_zeros(solver.max_steps - 1, len(images), len(sizes))
    for k in range(len(changes)):  # a solve ends early where nothing moves any more: it stays
        if k < len(solution.scale_changes):
            changes[k] = solution.scale_changes[k]
        elif k > 0:
            changes[k] = changes[k - 1]
        lost = ~solution.trace[min(k, len(solution.trace) - 1)].isfinite()
        changes[k, lost] = torch.inf
    return changes


def evaluations_until(curve: Sequence[float | None], level: float = SETTLED) -> int | None:
    """The evaluation from which on z changes by less than the level; None if there is none.

    A curve begins with the second evaluation, and is None where f was not finite.
    """
    above = [index for index, change in enumerate(curve) if change is None or change >= level]
    settled = above[-1] + 1 if above else 0
    return settled + 2 if settled < len(curve) else None


def bounded(evaluations: int | None, budget: int) -> int:
    """A number to compare by: more than the budget, where z has not settled."""
    return budget + 1 if evaluations is None else evaluations


def rising(needed: Sequence[tuple[int | None, int]]) -> bool | None:
    """Whether evaluations never fall, and are more at the end; each with its budget.

    None where budgets ended before that was decided.
    """
    most = [math.inf if n is None else n for n, _ in needed]
    least = [bounded(n, budget) for n, budget in needed]
    if most[-1] <= least[0] or any(max(least[:k]) > most[k] for k in range(1, len(most))):
        return False
    certain = all(a <= b for a, b in zip(most, least[1:], strict=False)) and most[0] < least[-1]
    return True if certain else None


def in_words(evaluations: int | None, budget: int) -> str:
    """How long it took."""
    return f"more than {budget}" if evaluations is None else str(evaluations)


def as_curve(changes: Tensor) -> list[float | None]:
    """Numbers for a file: None where they are not finite."""
    return [change if math.isfinite(change) else None for change in changes.tolist()]
