"""Differentiation through z* = f(z*), by a rule of the caller's choice."""

from mdeq.implicit.convergence import ConvergenceError, ConvergenceWarning, OnFailure
from mdeq.implicit.fixed_point import fixed_point
from mdeq.implicit.jacobian import jacobian_norm, spectral_radius
from mdeq.implicit.modes import (
    MODES,
    Backward,
    Implicit,
    OneStep,
    Phantom,
    Unrolled,
    backward_mode,
    evaluations_after,
    merge_backward,
    resolve_backward,
)

__all__ = [
    "MODES",
    "Backward",
    "ConvergenceError",
    "ConvergenceWarning",
    "Implicit",
    "OnFailure",
    "OneStep",
    "Phantom",
    "Unrolled",
    "backward_mode",
    "evaluations_after",
    "fixed_point",
    "jacobian_norm",
    "merge_backward",
    "resolve_backward",
    "spectral_radius",
]
