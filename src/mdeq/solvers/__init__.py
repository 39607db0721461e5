"""Batched solvers of z = f(z). They know tensors, and nothing of modules or gradients."""

from mdeq.solvers.anderson import Anderson
from mdeq.solvers.broyden import Broyden
from mdeq.solvers.checks import check_choice, check_count, check_number, unknown
from mdeq.solvers.loop import Propose, Stop, residual_norm, scale_change
from mdeq.solvers.picard import Picard
from mdeq.solvers.precision import without_autocast
from mdeq.solvers.registry import SOLVERS, Solver, register_solver
from mdeq.solvers.solution import Solution
from mdeq.solvers.solve import SolverConfig, solve
from mdeq.solvers.state import FlatMap, Layout, S

__all__ = [
    "SOLVERS",
    "Anderson",
    "Broyden",
    "FlatMap",
    "Layout",
    "Picard",
    "Propose",
    "S",
    "Solution",
    "Solver",
    "SolverConfig",
    "Stop",
    "check_choice",
    "check_count",
    "check_number",
    "register_solver",
    "residual_norm",
    "scale_change",
    "solve",
    "unknown",
    "without_autocast",
]
