"""The implicit function theorem as an autograd node (the paper's section 3.1)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.profiler import record_function

LinearSolve = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]
"""Solves g = A(g) for a linear A, starting from the given g."""


class Adjoint(torch.autograd.Function):
    """z* forward; backward solves g = J^T g + v (equation 4) and hands g to f's graph.

    `fz` is f evaluated with its graph at the leaf `z`, which has the value of z*.
    The node holds that one graph: it serves every product J^T g of the solve and,
    when the engine goes on from here, the gradients of all that f closes over. It
    holds neither f nor its own output, so there is no cycle, and autograd frees it
    like any other node.
    """

    @staticmethod
    def forward(ctx: Any, fz: Tensor, z: Tensor, solve: LinearSolve) -> Tensor:
        """Return z*, as a tensor whose gradient goes to `fz`."""
        ctx.save_for_backward(fz, z)
        ctx.solve = solve
        return z.detach().clone()

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor, None, None]:
        """Solve the adjoint equation for the incoming gradient v."""
        fz, z = ctx.saved_tensors

        at_zero = True  # where every solve begins: J^T 0 + v costs nothing

        def adjoint(g: Tensor) -> Tensor:
            nonlocal at_zero
            if at_zero:
                at_zero = False
                return v
            with record_function("mdeq.product"):
                (jg,) = torch.autograd.grad(fz, z, g, retain_graph=True, allow_unused=True)
            return v if jg is None else jg + v

        with torch.no_grad():
            g = ctx.solve(adjoint, torch.zeros_like(v))
        if torch.is_grad_enabled():  # create_graph=True
            g = _OnceDifferentiable.apply(g, fz, v)
        return g, None, None


class _OnceDifferentiable(torch.autograd.Function):
    """Identity on g whose own differentiation is an error that says what to do.

    g depends on v and on all that f depends on, so it hangs on both: no second derivative
    can pass it by and come out incomplete.
    """

    @staticmethod
    def forward(ctx: Any, g: Tensor, fz: Tensor, v: Tensor) -> Tensor:
        return g.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(
            "backward='implicit' can be differentiated once: the solution of its adjoint "
            "equation has no graph. For second derivatives use backward='unrolled', which is "
            "exact, or 'phantom' or 'one_step', which differentiate their own steps."
        )
