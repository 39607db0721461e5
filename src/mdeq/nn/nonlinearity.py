"""The nonlinearity that can start out smooth."""

import torch
from torch import Tensor, nn
from torch.nn.functional import relu, relu_, softplus


def rectified(x: Tensor) -> Tensor:
    """ReLU of what nobody else needs: in place, except where autograd or a hook may look at it."""
    return relu(x) if torch.is_grad_enabled() else relu_(x)


class Rectifier(nn.Module):
    """ReLU, or softplus in its place in the initial phase of training (section 3.3).

    The slope of ReLU jumps at zero, which is where the solver starts. Softplus has slope
    1/2 there; the larger `beta`, the closer it is to ReLU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.beta: float | None = None  # None: ReLU

    def forward(self, x: Tensor) -> Tensor:
        """Rectify; without gradients x is overwritten."""
        return rectified(x) if self.beta is None else softplus(x, beta=self.beta)

    def extra_repr(self) -> str:
        """Say which of the two it is."""
        return "relu" if self.beta is None else f"softplus, beta={self.beta}"
