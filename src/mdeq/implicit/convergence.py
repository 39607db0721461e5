"""What happens when a solve does not converge: the user decides, and is told why."""

import warnings
from typing import Any, Literal

from mdeq.solvers import Solution, SolverConfig, unknown

OnFailure = Literal["warn", "raise", "ignore"]


class ConvergenceWarning(UserWarning):
    """A solve ended with samples that do not meet the tolerance."""


class ConvergenceError(RuntimeError):
    """A solve ended with samples that do not meet the tolerance; `solution` has the details."""

    def __init__(self, message: str, solution: Solution[Any]) -> None:
        super().__init__(message)
        self.solution = solution


def check_on_failure(on_failure: str) -> None:
    """Raise for anything that is not a way to handle failure."""
    if on_failure not in ("warn", "raise", "ignore"):
        raise ValueError(unknown("on_failure", on_failure, ("warn", "raise", "ignore")))


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
        f"{config.tol:g}, after a budget of {config.max_steps} evaluations with "
        f"{config.solver!r}. Raise max_steps or tol, try another solver, or accept it with "
        'on_failure="ignore".'
    )
    if on_failure == "raise":
        raise ConvergenceError(message, solution)
    warnings.warn(message, ConvergenceWarning, stacklevel=2)
