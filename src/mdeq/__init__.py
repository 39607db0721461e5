"""Equilibrium models: solve z* = f(z*; x), and differentiate through the answer."""

from importlib.metadata import version

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
from mdeq.models import (
    MDEQ,
    Equilibrium,
    MDEQConfig,
    create_model,
    import_official,
    list_models,
    load,
)
from mdeq.solvers import SOLVERS, Solution, SolverConfig, register_solver, solve

__version__ = version("mdeq")

__all__ = [
    "MDEQ",
    "SOLVERS",
    "ConvergenceError",
    "ConvergenceWarning",
    "Equilibrium",
    "Implicit",
    "MDEQConfig",
    "OneStep",
    "Phantom",
    "Solution",
    "SolverConfig",
    "Unrolled",
    "__version__",
    "create_model",
    "fixed_point",
    "import_official",
    "jacobian_norm",
    "list_models",
    "load",
    "register_solver",
    "solve",
    "spectral_radius",
]
