"""Plain iteration."""

from torch import Tensor

from mdeq.solvers.registry import register_solver


@register_solver("picard")
class Picard:
    """z <- f(z): the infinitely deep network itself; converges where f contracts."""

    def __init__(self, z0: Tensor, max_steps: int) -> None:
        pass

    def __call__(self, z: Tensor, fz: Tensor, r: Tensor) -> Tensor:
        """Propose f(z)."""
        return fz

    def select(self, rows: Tensor) -> None:
        """Go on with some samples, of which it knows nothing."""
