"""Anderson acceleration, regularised."""

import torch
from torch import Tensor

from mdeq.solvers.checks import check_number
from mdeq.solvers.registry import register_solver


@register_solver("anderson")
class Anderson:
    """z <- f(z) - dF c, where c minimises |r - dR c|^2 over the last `memory` differences.

    dF and dR hold the differences of consecutive f(z) and r = f(z) - z. The normal
    equations are scaled to a unit diagonal, to which `ridge` is added: it bounds the
    coefficients relative to the differences themselves, whatever their size. A
    sample whose system is singular all the same takes the plain step f(z).
    """

    def __init__(
        self, z0: Tensor, max_steps: int, *, memory: int | None = None, ridge: float = 1e-6
    ) -> None:
        check_number("ridge", ridge, least=0)
        batch, features = z0.shape
        capacity = min(memory or max_steps, max(1, max_steps - 1))
        self.ridge = ridge
        self.evaluations = 0
        self.f_differences = z0.new_empty(batch, capacity, features)  # rings
        self.r_differences = torch.empty_like(self.f_differences)
        self.gram = z0.new_zeros(batch, capacity, capacity)

    def __call__(self, z: Tensor, fz: Tensor, r: Tensor) -> Tensor:
        """Propose f(z) - dF c."""
        z_next = fz if self.evaluations == 0 else self._mix(fz, r)
        # The slot of the next difference holds its first half until the second is known.
        slot = self.evaluations % self.f_differences.shape[1]
        self.f_differences[:, slot] = fz
        self.r_differences[:, slot] = r
        self.evaluations += 1
        return z_next

    def _mix(self, fz: Tensor, r: Tensor) -> Tensor:
        capacity = self.f_differences.shape[1]
        slot = (self.evaluations - 1) % capacity
        stored = min(self.evaluations, capacity)
        for difference, value in ((self.f_differences, fz), (self.r_differences, r)):
            torch.sub(value, difference[:, slot], out=difference[:, slot])
        r_differences = self.r_differences[:, :stored]

        rows = torch.stack([r_differences[:, slot], r], dim=1)
        new_row, target = torch.bmm(rows, r_differences.mT).unbind(dim=1)
        self.gram[:, slot, :stored] = new_row
        self.gram[:, :stored, slot] = new_row

        gram = self.gram[:, :stored, :stored]
        square = gram.diagonal(dim1=1, dim2=2)
        scale = torch.where(square > 0, square.rsqrt(), 0)
        system = gram * scale[:, :, None] * scale[:, None, :]
        system.diagonal(dim1=1, dim2=2).add_(self.ridge)
        factor, failed = torch.linalg.cholesky_ex(system)
        solved = torch.cholesky_solve((target * scale)[:, :, None], factor)[:, :, 0]
        c = torch.where((failed == 0)[:, None] & solved.isfinite(), solved * scale, 0)
        return torch.baddbmm(fz[:, None], c[:, None], self.f_differences[:, :stored], alpha=-1)[
            :, 0
        ]
