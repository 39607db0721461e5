"""Limited-memory good Broyden, in the product form that stores one vector an update.

With g(z) = f(z) - z, B_n the approximate inverse Jacobian of g, and directions
d_n = -B_n g(z_n), the method is z_{n+1} = z_n + alpha d_n, from B_0 = -I (the
paper's appendix B.1). For good Broyden the Sherman-Morrison update of B is

    B_{n+1} = (I + (d_{n+1} - (1 - alpha) d_n) d_n^T / |d_n|^2) B_n,

so the directions are all there is to store (Kelley, Iterative Methods for Linear
and Nonlinear Equations, 1995, chapter 7; there with alpha = 1). Applied to
r = g(z_{n+1}) the factors unwind, oldest first, into

    t_j = d_j . (r + sum_{i<j} t_i (d_{i+1} - (1 - alpha) d_i)) / |d_j|^2,  j = 0 ... n
    d_{n+1} = (r + sum_{k<=n} (t_{k-1} - (1 - alpha) t_k) d_k) / (1 - t_n),

a triangular system in the products d_j . r and d_i . d_j. An iteration is three
passes over the stored directions; everything else is m-by-m.

Full memory: the factors of the newest m directions are kept and the oldest is
forgotten, as L-BFGS does. Forgetting the oldest rank-one term u v^T of B, as the
paper describes, stalls once the memory has been full for a while; docs/solvers.md
has the figures.
"""

import torch
from torch import Tensor

from mdeq.solvers.checks import check_number
from mdeq.solvers.registry import register_solver


@register_solver("broyden")
class Broyden:
    """Good Broyden from B_0 = -I, with at most `memory` stored updates and step size `alpha`."""

    def __init__(
        self, z0: Tensor, max_steps: int, *, memory: int | None = None, alpha: float = 1.0
    ) -> None:
        check_number("alpha", alpha, above=0)
        batch, features = z0.shape
        capacity = min(memory or max_steps, max(1, max_steps - 1))
        self.alpha = alpha
        self.updates = 0  # directions ever found; the newest `capacity` of them are stored
        self.directions = z0.new_empty(batch, capacity, features)  # a ring
        # Of the stored directions, oldest first: d_i . d_j, and 1 / |d_j|^2 (zero for an
        # update that is left out).
        self.gram = z0.new_zeros(batch, capacity, capacity)
        self.weights = z0.new_zeros(batch, capacity)

    def __call__(self, z: Tensor, fz: Tensor, r: Tensor) -> Tensor:
        """Propose z + alpha d, and remember d."""
        direction = self.directions[:, self.updates % self.directions.shape[1]]
        if self.updates == 0:
            direction.copy_(r)
        else:
            combined, pivot = self._unwind(r)
            torch.div(combined, pivot, out=direction)  # takes the oldest one's place
        self.updates += 1
        return torch.add(z, direction, alpha=self.alpha)

    def select(self, rows: Tensor) -> None:
        """Go on with some samples."""
        self.directions, self.gram = self.directions[rows], self.gram[rows]
        self.weights = self.weights[rows]

    def _unwind(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """d times the pivot 1 - t_n, and the pivot."""
        capacity = self.directions.shape[1]
        stored = min(self.updates, capacity)
        newest = (self.updates - 1) % capacity
        directions = self.directions[:, :stored]
        backtrack = 1 - self.alpha

        # d_j . d_n of the direction that came last, and d_j . r. (A recurrence would give the
        # former for nothing, but its errors grow from step to step. And rows times a matrix: the
        # column form of the same product is ten times slower on CPU.)
        of_newest, products = (
            torch.bmm(row[:, None], directions.mT)[:, 0].roll(-(newest + 1), dims=1)
            for row in (directions[:, newest], r)
        )
        self._record(of_newest)
        gram, weights = self.gram[:, :stored, :stored], self.weights[:, :stored]

        coupling = torch.zeros_like(gram)
        coupling[:, :, :-1] = backtrack * gram[:, :, :-1] - gram[:, :, 1:]
        t = torch.linalg.solve_triangular(
            (coupling * weights[:, :, None]).tril(-1),
            (products * weights)[:, :, None],
            upper=False,
            unitriangular=True,
        )[:, :, 0]

        # 1 - t_n = 0: the secant condition asks for an infinite step. Leave this update out.
        pivot = 1 - t[:, -1:]
        usable = pivot.abs() > 10 * torch.finfo(r.dtype).eps
        pivot = torch.where(usable, pivot, 1)
        t = torch.cat([t[:, :-1], torch.where(usable, t[:, -1:], 0)], dim=1)
        weights[:, -1:] = torch.where(usable, weights[:, -1:], 0)

        coefficients = torch.nn.functional.pad(t[:, :-1], (1, 0)) - backtrack * t
        in_the_ring = coefficients.roll(newest + 1, dims=1)
        return torch.baddbmm(r[:, None], in_the_ring[:, None], directions)[:, 0], pivot

    def _record(self, products: Tensor) -> None:
        """Enter the products of the newest direction with all stored ones, oldest first."""
        stored = products.shape[1]
        if self.updates > stored:  # the oldest has left
            self.gram[:, :-1, :-1] = self.gram[:, 1:, 1:].clone()
            self.weights[:, :-1] = self.weights[:, 1:].clone()
        self.gram[:, stored - 1, :stored] = products
        self.gram[:, :stored, stored - 1] = products
        # A square too small to divide by: leave the update out.
        square = products[:, -1]
        usable = square >= torch.finfo(square.dtype).tiny
        self.weights[:, stored - 1] = torch.where(usable, 1 / square, 0)
