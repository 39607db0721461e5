"""What happens when a solve does not converge: the user decides, and is told why."""

import sys
import warnings
from typing import Any, Literal

from mdeq.solvers import Solution, SolverConfig

OnFailure = Literal["warn", "raise", "ignore"]


class ConvergenceWarning(UserWarning):
    """A solve ended with samples that do not meet the tolerance."""


class ConvergenceError(RuntimeError):
    """A solve ended with samples that do not meet the tolerance; `solution` has the details."""

    def __init__(self, message: str, solution: Solution[Any]) -> None:
        super().__init__(message)
        self.solution = solution


def report(
    which: str, solution: Solution[Any], config: SolverConfig, on_failure: OnFailure
) -> None:
    """Warn or raise if the "forward" or "backward" solve failed. Waits for the device."""
    if on_failure == "ignore" or bool(solution.converged.all()):
        return
    failed = int((~solution.converged).sum())
    message = (
        f"the {which} solve did not converge for {failed} of {len(solution.converged)} samples: "
        f"{config.stop} residual up to {float(solution.residual.max()):.2g}, tolerance "
        f"{config.tol:g}, with a budget of {config.max_steps} evaluations of {config.solver!r}. "
    )
    broken = int(solution.trace[-1].isinf().sum())
    if broken:
        message += f"For {broken} of them f was not finite. Look for NaN in its inputs and weights."
    else:
        message += "Raise max_steps or tol, or try another solver."
    message += ' To accept it, say on_failure="ignore".'
    if on_failure == "raise":
        raise ConvergenceError(message, solution)
    warnings.warn(message, ConvergenceWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """How far above `report` the code is that called this package, as warnings count."""
    package = __name__.split(".")[0]
    level = 1
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in (package, "torch"):
        frame = frame.f_back
        level += 1
    return level
