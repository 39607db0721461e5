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

a triangular system in the products d_j . r and d_i . d_j. An iteration is two
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
        if self.updates == 0:
            pivot = r.new_ones(len(r), 1)
            direction = self._remember(r, pivot, r.new_empty(len(r), 0))
        else:
            direction = self._remember(*self._unwind(r))
        return torch.add(z, direction, alpha=self.alpha)

    def _unwind(self, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """D times the pivot 1 - t_n, the pivot, and the products of d with the stored d_k."""
        stored = min(self.updates, self.directions.shape[1])
        oldest = self.updates % stored if self.updates > stored else 0
        directions = self.directions[:, :stored]
        gram, weights = self.gram[:, :stored, :stored], self.weights[:, :stored]
        backtrack = 1 - self.alpha

        # A row times a matrix: the column form of the same product is ten times slower on CPU.
        products = torch.bmm(r[:, None], directions.mT)[:, 0].roll(-oldest, dims=1)
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
        combined = torch.baddbmm(
            r[:, None], coefficients.roll(oldest, dims=1)[:, None], directions
        )[:, 0]
        products = products + torch.bmm(coefficients[:, None], gram)[:, 0]
        return combined, pivot, products / pivot

    def _remember(self, combined: Tensor, pivot: Tensor, products: Tensor) -> Tensor:
        """Store and return the new direction, which takes the oldest one's place."""
        capacity = self.directions.shape[1]
        direction = self.directions[:, self.updates % capacity]
        torch.div(combined, pivot, out=direction)
        newest = min(self.updates, capacity - 1)
        if self.updates >= capacity:
            self.gram[:, :-1, :-1] = self.gram[:, 1:, 1:].clone()
            self.weights[:, :-1] = self.weights[:, 1:].clone()
            products = products[:, 1:]
        square = torch.linalg.vector_norm(direction, dim=1).square()
        self.gram[:, newest, :newest] = products
        self.gram[:, :newest, newest] = products
        self.gram[:, newest, newest] = square
        # A square too small to divide by: leave the update out.
        usable = square >= torch.finfo(square.dtype).tiny
        self.weights[:, newest] = torch.where(usable, 1 / square, 0)
        self.updates += 1
        return direction
