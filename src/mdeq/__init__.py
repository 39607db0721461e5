"""Equilibrium models: solve z* = f(z*; x), and differentiate through the answer."""

from mdeq.implicit import (
    ConvergenceError,
    ConvergenceWarning,
    Implicit,
    OneStep,
    Phantom,
    Unrolled,
    fixed_point,
    jacobian_norm,
    spectral_radius,
)
from mdeq.solvers import SOLVERS, Solution, SolverConfig, register_solver, solve

__all__ = [
    "SOLVERS",
    "ConvergenceError",
    "ConvergenceWarning",
    "Implicit",
    "OneStep",
    "Phantom",
    "Solution",
    "SolverConfig",
    "Unrolled",
    "fixed_point",
    "jacobian_norm",
    "register_solver",
    "solve",
    "spectral_radius",
]
