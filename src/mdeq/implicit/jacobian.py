"""How strongly f reacts to its state: the size and the spectrum of J = df/dz."""

from collections.abc import Callable

import torch
from torch import Tensor

from mdeq.solvers import Layout, S, check_count, without_autocast


def jacobian_norm(
    f: Callable[[S], S], z: S, *, probes: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """Hutchinson's estimate of ||J||_F^2 of every sample at z, (B,), as a penalty.

    ||J||_F^2 = E ||J^T e||^2 for random signs e; `probes` of them are averaged. The
    estimate is differentiable in whatever f closes over, and in z if z has a graph.
    Divide by the features of a sample for a figure that compares across models (Bai
    et al., Stabilizing Equilibrium Models by Jacobian Regularization, 2021).
    """
    check_count("probes", probes)
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

    Plain iteration of f converges near z where this is below 1. It is read off as the
    growth a step of |(J^T)^k v| over the second half of the `steps`, so complex pairs and
    eigenvalues of equal size do no harm; expect it to be good to a few percent.
    """
    check_count("steps", steps)
    z_flat, product = _transposed_product(f, z, create_graph=False)
    v = torch.randn(z_flat.shape, dtype=z_flat.dtype, device=z_flat.device, generator=generator)
    growth = []
    with torch.no_grad(), without_autocast(z_flat.device):
        v = v / torch.linalg.vector_norm(v, dim=1, keepdim=True)
        for _ in range(steps):
            v = product(v)
            norm = torch.linalg.vector_norm(v, dim=1, keepdim=True)
            growth.append(norm[:, 0])
            v = torch.where(norm > 0, v / norm, 0)
    return torch.stack(growth[steps // 2 :]).log().mean(dim=0).exp()


def _transposed_product(
    f: Callable[[S], S], z: S, *, create_graph: bool
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The flat z, and v -> J^T v there."""
    layout = Layout.of(z, "z")
    with torch.inference_mode(False), torch.enable_grad():
        z_flat = layout.pack(z)
        if not z_flat.requires_grad:
            z_flat = z_flat.detach().clone().requires_grad_()
        fz = layout.flatten(f)(z_flat)

    def product(v: Tensor) -> Tensor:
        if not fz.requires_grad:
            return torch.zeros_like(v)
        with torch.inference_mode(False):
            (jv,) = torch.autograd.grad(
                fz, z_flat, v, retain_graph=True, create_graph=create_graph, allow_unused=True
            )
        return torch.zeros_like(v) if jv is None else jv

    return z_flat, product
