"""What a solve returns."""

from dataclasses import dataclass, replace
from typing import Any, Generic

from torch import Tensor

from mdeq.solvers.state import Layout, S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution(Generic[S]):
    """Outcome of a batched solve of z = f(z); index i along B is sample i.

    Every figure is one sample's own: no sample's entry depends on another's.

    Attributes:
        z: The iterate with the smallest residual, in the structure of `z0`.
        residual: (B,) ||f(z) - z|| / ||f(z)|| at `z`, or ||f(z) - z|| with `stop="absolute"`;
            infinite where f was not finite.
        converged: (B,) bool, whether `residual` met the tolerance.
        steps: (B,) evaluations of f that the sample used, the one at `z0` included.
        trace: (S, B) residual at each evaluation; a finished sample repeats its last.
        scale_changes: (S - 1, B, scales) ||z_k' - z_k|| / ||z_k'|| of every step z -> z', if asked
            for. The paper divides by ||z_k||, which is zero at the paper's own start; at
            equilibrium the two agree.
    """

    z: S
    residual: Tensor
    converged: Tensor
    steps: Tensor
    trace: Tensor
    scale_changes: Tensor | None = None

    def unpacked(self, layout: Layout) -> "Solution[Any]":
        """The solution of a flat state in the structure that it was packed from."""
        return replace(self, z=layout.release(self.z))

    def __str__(self) -> str:
        """Say in one line how the solve went; reads the tensors, so it synchronises."""
        least, most = int(self.steps.min()), int(self.steps.max())
        steps = f"{least} to {most}" if least < most else f"{most}"
        return (
            f"{int(self.converged.sum())} of {len(self.converged)} samples converged, "
            f"largest residual {float(self.residual.max()):.2g}, {steps} evaluations of f"
        )
