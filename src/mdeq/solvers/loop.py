"""The loop that every solver shares: evaluate, judge each sample by itself, stop."""

from collections.abc import Callable
from dataclasses import dataclass, fields
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


@dataclass
class Samples:
    """What the loop knows of every sample; index i along the first dimension is sample i."""

    z: Tensor
    best: Tensor
    lowest: Tensor
    residual: Tensor
    moving: Tensor
    steps: Tensor
    change: Tensor

    @classmethod
    def at(cls, z0: Tensor, scales: int) -> "Samples":
        """Before the first evaluation."""
        infinite = z0.new_full((len(z0),), torch.inf)
        return cls(
            z=z0,
            best=z0,
            lowest=infinite,
            residual=infinite,
            moving=torch.ones_like(infinite, dtype=torch.bool),
            steps=torch.zeros_like(infinite, dtype=torch.int64),
            change=z0.new_zeros(len(z0), scales),
        )

    def select(self, rows: Tensor) -> "Samples":
        """Some of them."""
        return Samples(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def with_rows(self, rows: Tensor | None, part: "Samples") -> "Samples":
        """All of them, where some are now as in `part`."""
        return Samples(
            **{
                f.name: with_rows(getattr(self, f.name), rows, getattr(part, f.name))
                for f in fields(self)
            }
        )


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
    compact: bool = False,
    scale_sizes: list[int] | None = None,
) -> Solution[Tensor]:
    """Evaluate f where `propose` says until every sample meets `tol` or the budget is spent.

    A sample that meets the tolerance, or at which f is not finite, is finished: it
    rests at its best iterate and its steps are no longer counted. Samples that are
    still moving cannot tell. Nothing here waits for the device but the stop test,
    once every `check_every` evaluations; the answer does not depend on it. With
    `compact`, finished samples leave the batch as soon as they are half of it.
    """
    sizes = scale_sizes or []
    now = everyone = Samples.at(z0, len(sizes))
    rows: Tensor | None = None  # of those in `now`, among everyone; None: all
    trace = []
    changes = [now.change.new_empty(0, *now.change.shape)]
    for step in range(1, max_steps + 1):
        fz = f(now.z)
        r = fz - now.z
        now.residual = torch.where(now.moving, residual_norm(fz, r, stop), now.residual)
        trace.append(with_rows(everyone.residual, rows, now.residual))
        now.steps = now.steps + now.moving
        better = now.moving & (now.residual < now.lowest)
        now.lowest = torch.minimum(now.lowest, now.residual)
        now.moving = now.moving & (now.residual > tol) & now.residual.isfinite()
        batch = len(r)
        improved = remaining = None  # how many samples; not known between stop tests
        if step < max_steps and step % check_every == 0:
            # The stop test waits for the device, so it asks for both at once. Where all samples
            # are alike, nothing has to be chosen sample by sample.
            both = better.sum() * (batch + 1) + now.moving.sum()
            improved, remaining = divmod(int(both), batch + 1)
        now.best = now.z if improved == batch else choose(better, now.z, now.best)
        if step == max_steps or remaining == 0:
            break
        if compact and remaining is not None and 2 * remaining <= batch:
            kept = now.moving.nonzero()[:, 0]
            everyone = everyone.with_rows(rows, now)
            rows = kept if rows is None else rows[kept]
            now, fz, r, remaining = now.select(kept), fz[kept], r[kept], len(kept)
            f, batch = f.select(kept), len(kept)  # type: ignore[attr-defined]
            propose.select(kept)  # type: ignore[attr-defined]
        version = None if now.z.is_inference() else now.z._version
        proposal = propose(now.z, fz, r)
        if version is not None and now.z._version != version:
            raise ValueError(
                "the solver changed z, or a tensor that it had proposed before, in place; expected "
                "a new tensor from every call: clone it, or use the out-of-place operation"
            )
        if not isinstance(proposal, Tensor) or proposal.shape != r.shape:
            found = getattr(proposal, "shape", type(proposal).__name__)
            raise ValueError(
                f"the solver proposed {found}; expected a tensor {tuple(r.shape)}, the next iterate"
            )
        z_next = proposal if remaining == batch else choose(now.moving, proposal, now.best)
        if sizes:
            change = scale_change(now.z, z_next, sizes)
            now.change = torch.where(now.moving[:, None], change, now.change)
            changes.append(with_rows(everyone.change, rows, now.change)[None])
        now.z = z_next
    everyone = everyone.with_rows(rows, now)
    return Solution(
        z=everyone.best,
        residual=everyone.lowest,
        converged=everyone.lowest <= tol,
        steps=everyone.steps,
        trace=torch.stack(trace),
        scale_changes=torch.cat(changes) if sizes else None,
    )


def with_rows(whole: Tensor, rows: Tensor | None, part: Tensor) -> Tensor:
    """`whole` with some rows replaced; None replaces all."""
    return part if rows is None else whole.index_copy(0, rows, part)


def choose(samples: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Of every sample the one state or the other; never a product of masks: 0 * nan is nan."""
    return torch.where(samples[:, None], yes, no)


def scale_change(z: Tensor, z_next: Tensor, sizes: list[int]) -> Tensor:
    """||z_k' - z_k|| / ||z_k'|| of every sample and scale k, (B, scales)."""
    pairs = zip(z.split(sizes, dim=1), z_next.split(sizes, dim=1), strict=True)
    return torch.stack([residual_norm(new, new - old, "relative") for old, new in pairs], dim=1)
