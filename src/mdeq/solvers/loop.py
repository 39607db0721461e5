"""The loop that every solver shares: evaluate, judge each sample by itself, stop."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from mdeq.solvers.solution import Solution
from mdeq.solvers.state import FlatMap

Stop = Literal["relative", "absolute"]

Propose = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A solver's part: from z, f(z) and f(z) - z, all (B, D), where to evaluate f next: a
tensor that it will not change again."""


def residual_norm(fz: Tensor, r: Tensor, stop: Stop) -> Tensor:
    """||r|| / ||f(z)||, or ||r||, of every sample; infinite where either is not finite."""
    norm = _norm(r)
    finite = norm.isfinite()
    if stop == "relative":
        scale = _norm(fz)
        finite &= scale.isfinite()
        # At f(z) = 0 only z = 0 is a fixed point: 0 / tiny is 0, anything else is large.
        norm = norm / scale.clamp_min(torch.finfo(scale.dtype).tiny)
    norm = norm.clamp_max(torch.finfo(r.dtype).max).to(r.dtype)
    return torch.where(finite, norm, torch.inf)


def _norm(x: Tensor) -> Tensor:
    """Of every row, summed in float64: the squares of small numbers vanish in float32."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=1, dtype=torch.float64)
    return norm


@torch.no_grad()
def iterate(
    f: FlatMap,
    z0: Tensor,
    propose: Propose,
    *,
    tol: float,
    max_steps: int,
    stop: Stop,
    check_every: int = 1,
    scale_sizes: list[int] | None = None,
) -> Solution[Tensor]:
    """Evaluate f where `propose` says until every sample meets `tol` or the budget is spent.

    A sample that meets the tolerance, or at which f is not finite, is finished: it
    rests at its best iterate and its steps are no longer counted. Samples that are
    still moving cannot tell. Nothing here waits for the device but the stop test,
    once every `check_every` evaluations; the answer does not depend on it.
    """
    z = best = z0
    batch = len(z0)
    lowest = residual = z0.new_full((batch,), torch.inf)
    moving = torch.ones_like(lowest, dtype=torch.bool)
    steps = torch.zeros_like(lowest, dtype=torch.int64)
    trace = []
    sizes = scale_sizes or []
    change = z0.new_zeros(batch, len(sizes))
    changes = [change.new_empty(0, *change.shape)]
    for step in range(1, max_steps + 1):
        fz = f(z)
        r = fz - z
        residual = torch.where(moving, residual_norm(fz, r, stop), residual)
        trace.append(residual)
        steps += moving
        better = moving & (residual < lowest)
        lowest = torch.minimum(lowest, residual)
        moving = moving & (residual > tol) & residual.isfinite()
        improved = remaining = None  # how many samples; not known between stop tests
        if step < max_steps and step % check_every == 0:
            # The stop test waits for the device, so it asks for both at once. Where all samples
            # are alike, nothing has to be chosen sample by sample.
            both = better.sum() * (batch + 1) + moving.sum()
            improved, remaining = divmod(int(both), batch + 1)
        best = z if improved == batch else choose(better, z, best)
        if step == max_steps or remaining == 0:
            break
        proposal = propose(z, fz, r)
        if not isinstance(proposal, Tensor) or proposal.shape != z.shape:
            found = getattr(proposal, "shape", type(proposal).__name__)
            raise ValueError(
                f"the solver proposed {found}; expected a tensor {tuple(z.shape)}, the next iterate"
            )
        z_next = proposal if remaining == batch else choose(moving, proposal, best)
        if sizes:
            change = torch.where(moving[:, None], scale_change(z, z_next, sizes), change)
            changes.append(change[None])
        z = z_next
    return Solution(
        z=best,
        residual=lowest,
        converged=lowest <= tol,
        steps=steps,
        trace=torch.stack(trace),
        scale_changes=torch.cat(changes) if sizes else None,
    )


def choose(samples: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Of every sample the one state or the other; never a product of masks: 0 * nan is nan."""
    return torch.where(samples[:, None], yes, no)


def scale_change(z: Tensor, z_next: Tensor, sizes: list[int]) -> Tensor:
    """||z_k' - z_k|| / ||z_k'|| of every sample and scale k, (B, scales)."""
    pairs = zip(z.split(sizes, dim=1), z_next.split(sizes, dim=1), strict=True)
    return torch.stack([residual_norm(new, new - old, "relative") for old, new in pairs], dim=1)
