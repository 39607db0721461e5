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
        self.capacity = capacity
        # Rings of differences, and behind those that are stored a place for f(z) and r
        # themselves: the passes over the differences take them along.
        self.f_slots = z0.new_empty(batch, capacity + 1, features)
        self.r_slots = torch.empty_like(self.f_slots)
        self.gram = z0.new_zeros(batch, capacity, capacity)

    def __call__(self, z: Tensor, fz: Tensor, r: Tensor) -> Tensor:
        """Propose f(z) - dF c."""
        stored = min(self.evaluations, self.capacity)
        newest = (self.evaluations - 1) % self.capacity
        before = min(self.evaluations - 1, self.capacity)
        for slots, value in ((self.f_slots, fz), (self.r_slots, r)):
            if stored:
                torch.sub(value, slots[:, before], out=slots[:, newest])
            slots[:, stored] = value
        self.evaluations += 1
        return self._mix(stored, newest) if stored else fz

    def select(self, rows: Tensor) -> None:
        """Go on with some samples."""
        self.f_slots, self.r_slots = self.f_slots[rows], self.r_slots[rows]
        self.gram = self.gram[rows]

    def _mix(self, stored: int, newest: int) -> Tensor:
        newest_and_r = self.r_slots[:, newest : stored + 1 : stored - newest]
        products = torch.bmm(newest_and_r, self.r_slots[:, :stored].mT)
        new_row, target = products.unbind(dim=1)
        self.gram[:, newest, :stored] = new_row
        self.gram[:, :stored, newest] = new_row

        gram = self.gram[:, :stored, :stored]
        square = gram.diagonal(dim1=1, dim2=2)
        scale = torch.where(square > 0, square.rsqrt(), 0)
        system = gram * scale[:, :, None] * scale[:, None, :]
        system.diagonal(dim1=1, dim2=2).add_(self.ridge)
        factor, failed = torch.linalg.cholesky_ex(system)
        solved = torch.cholesky_solve((target * scale)[:, :, None], factor)[:, :, 0]
        c = torch.where((failed == 0)[:, None] & solved.isfinite(), solved * scale, 0)
        coefficients = torch.nn.functional.pad(-c, (0, 1), value=1)
        return torch.bmm(coefficients[:, None], self.f_slots[:, : stored + 1])[:, 0]
