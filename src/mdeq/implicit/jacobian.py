"""How strongly f reacts to its state: the size and the spectrum of J = df/dz."""

from collections.abc import Callable

import torch
from torch import Tensor

from mdeq.solvers import Layout, S


def jacobian_norm(
    f: Callable[[S], S], z: S, *, probes: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """Hutchinson's estimate of ||J||_F^2 of every sample at z, (B,), as a penalty.

    ||J||_F^2 = E ||J^T e||^2 for random signs e; `probes` of them are averaged. The
    estimate is differentiable in whatever f closes over, and in z if z has a graph.
    Divide by the features of a sample for a figure that compares across models (Bai
    et al., Stabilizing Equilibrium Models by Jacobian Regularization, 2021).
    """
    if probes < 1:
        raise ValueError(f"probes is {probes!r}; expected at least 1")
    z_flat, product = _transposed_product(f, z, create_graph=torch.is_grad_enabled())
    total = z_flat.new_zeros(len(z_flat))
    for _ in range(probes):
        bits = torch.randint(
            2, z_flat.shape, dtype=z_flat.dtype, device=z_flat.device, generator=generator
        )
        total = total + product(2 * bits - 1).square().sum(dim=1)
    return total / probes


def spectral_radius(
    f: Callable[[S], S], z: S, *, steps: int = 50, generator: torch.Generator | None = None
) -> Tensor:
    """The largest |eigenvalue| of J of every sample at z, (B,), by power iteration.

    Plain iteration of f converges near z exactly where this is below 1. Two vectors
    are iterated side by side, because the dominant eigenvalues of a real matrix may be
    a complex pair, on which one vector never settles. Costs 2 `steps` products with J^T.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps!r}; expected at least 1")
    z_flat, product = _transposed_product(f, z, create_graph=False)
    width = min(2, z_flat.shape[1])
    start = torch.randn(
        *z_flat.shape, width, dtype=z_flat.dtype, device=z_flat.device, generator=generator
    )
    with torch.no_grad():
        basis = torch.linalg.qr(start).Q
        for _ in range(steps):
            image = torch.stack([product(v) for v in basis.unbind(dim=2)], dim=2)
            projected = basis.mT @ image  # J^T seen from the plane of the basis
            basis = torch.linalg.qr(image).Q
    return _largest_eigenvalue(projected)


def _largest_eigenvalue(matrix: Tensor) -> Tensor:
    """The largest |eigenvalue| of matrices of size 1 or 2, without leaving the device."""
    if matrix.shape[-1] == 1:
        return matrix[:, 0, 0].abs()
    half_trace = (matrix[:, 0, 0] + matrix[:, 1, 1]) / 2
    determinant = torch.linalg.det(matrix)
    discriminant = half_trace.square() - determinant
    real = half_trace.abs() + discriminant.clamp_min(0).sqrt()
    return torch.where(discriminant >= 0, real, determinant.clamp_min(0).sqrt())


def _transposed_product(
    f: Callable[[S], S], z: S, *, create_graph: bool
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The flat z, and v -> J^T v there."""
    layout = Layout.of(z)
    z_flat = layout.pack(z)
    with torch.enable_grad():
        if not z_flat.requires_grad:
            z_flat = z_flat.detach().requires_grad_()
        fz = layout.flatten(f)(z_flat)

    def product(v: Tensor) -> Tensor:
        if not fz.requires_grad:
            return torch.zeros_like(v)
        (jv,) = torch.autograd.grad(
            fz, z_flat, v, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
        return torch.zeros_like(v) if jv is None else jv

    return z_flat, product
