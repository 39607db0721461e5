"""When training cannot go on, and what to say then."""

import math

from mdeq.engine.step import Observed

STUCK = 10  # steps in a row
ADVICE = "Try a lower optimiser.lr or optimiser.clip 1."
EQUILIBRIUM_ADVICE = (
    "Try a lower optimiser.lr, optimiser.clip 1, a longer shallow.length or softplus.length, a "
    "jacobian_penalty, or a larger model.solver.max_steps."
)


class DivergedError(RuntimeError):
    """The loss, the gradient or f is not finite, or the solver gets nowhere."""


class Watch:
    """Notices that training diverges."""

    def __init__(self) -> None:
        self.stuck = 0

    def diverged(self, observed: Observed, residual: float, *, broken: bool) -> bool:
        """After a step: f, loss or gradient is broken, or solves end where they began.

        A relative residual of 1 is that of z = 0. Early in training a small budget may not
        better it at once, so it takes several steps in a row; a stack of f is not a solve.
        """
        self.stuck = self.stuck + 1 if observed.solved and residual >= 1 else 0
        return broken or self.stuck == STUCK


def describe_divergence(
    step: int, figures: dict[str, float], ids: list[int], residuals: list[float], *, of: str
) -> str:
    """What is known of a step that diverged; an explicit network has no residuals.

    The ids are those of training samples `of` a dataset.
    """
    known = (
        f"training diverged at step {step}: loss {figures['loss']:.3g}, gradient "
        f"{figures['gradient']:.3g}"
    )
    if not residuals:
        listed = ", ".join(map(str, ids[:8]))
        more = ", ..." if ids[8:] else ""
        return f"{known}. Training samples of {of} in this batch: {listed}{more}."
    worst = sorted(
        zip(residuals, ids, strict=True), key=lambda pair: (not math.isnan(pair[0]), -pair[0])
    )
    listed = ", ".join(f"{number} ({residual:.2g})" for residual, number in worst[:8])
    return (
        f"{known}, residual of f {figures['residual']:.3g}. Training samples of {of} in "
        f"this batch, with the residual of each, worst first: {listed}"
        f"{', ...' if len(worst) > 8 else ''}."
    )
