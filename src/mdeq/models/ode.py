"""Neural ODEs, plain and augmented: the implicit models before equilibrium models."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from mdeq.models.base import MissingLibraryError, ModelConfig
from mdeq.models.saving import Saved
from mdeq.solvers import check_choice, check_count, check_number


class StiffError(ValueError):
    """The solver cannot follow a flow: its steps have become too short, or z is not finite."""


@dataclass(frozen=True, kw_only=True)
class NeuralODEConfig(ModelConfig):
    """A network whose features follow dz/dt = f(z, t) from the image on, for t from 0 to 1.

    Attributes:
        filters: Channels inside f.
        augment: Channels of zeros that z begins with beside the image (Dupont et al., 2019);
            0 is the plain Neural ODE (Chen et al., 2018).
        image_size: Height and width of the images; the classifier sees every pixel of z.
        tol: Relative and absolute tolerance of the adaptive solver (Dormand-Prince 5), both ways.
        network: What config.json tells the kinds of models apart by.
    """

    filters: int
    augment: int = 0
    image_size: int = 32
    tol: float = 1e-3
    network: str = "ode"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("filters", self.filters)
        check_count("image_size", self.image_size)
        check_count("augment", self.augment, least=0)
        check_number("tol", self.tol, above=0)
        check_choice("network", self.network, ("ode",))
        self.only("classification")

    @property
    def channels(self) -> tuple[int, ...]:
        """Of z."""
        return (self.in_channels + self.augment,)


class Derivative(nn.Module):
    """f(z, t): 1x1, 3x3 and 1x1 convolutions; each sees the time as one more channel."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels + 1, filters, 1)
        self.conv2 = nn.Conv2d(filters + 1, filters, 3, padding=1)
        self.conv3 = nn.Conv2d(filters + 1, channels, 1)

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        """dz/dt, in the order of arguments that solvers want."""
        y = relu(self.conv1(_with(t, z)))
        y = relu(self.conv2(_with(t, y)))
        derivative: Tensor = self.conv3(_with(t, y))
        return derivative


def _with(t: Tensor, z: Tensor) -> Tensor:
    return torch.cat([t.to(z.dtype).expand_as(z[:, :1]), z], dim=1)


class NeuralODE(Saved):
    """The flow of an image along f, and a linear classifier; the adjoint method differentiates."""

    def __init__(self, config: NeuralODEConfig) -> None:
        super().__init__()
        if not isinstance(config, NeuralODEConfig):
            raise ValueError(f"config is {config!r}; expected a NeuralODEConfig")
        self.config = config
        (channels,) = config.channels
        self.f = Derivative(channels, config.filters)
        pixels = config.image_size**2
        self.classifier = nn.Linear(channels * pixels, config.tasks["classification"])

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, K)."""
        size = self.config.image_size
        if images.shape[2:] != (size, size):
            raise ValueError(
                f"images have shape {tuple(images.shape)}; expected {size}x{size} pixels: the "
                "classifier of a Neural ODE sees every one"
            )
        z0 = pad(images, (0, 0, 0, 0, 0, self.config.augment))
        z1 = _Flow.apply(z0, self.f, self.config.tol, *self.f.parameters())
        logits: Tensor = self.classifier(z1.flatten(1))
        return logits


class _Flow(torch.autograd.Function):
    """z(1), from z(0), by torchdiffeq's adjoint method.

    It stands around torchdiffeq's own node because that gives up by assertions, in both
    directions, which are no words for a user.
    """

    @staticmethod
    def forward(ctx: Any, z0: Tensor, f: Derivative, tol: float, *weights: Tensor) -> Tensor:
        try:
            from torchdiffeq import odeint_adjoint
        except ImportError:
            raise MissingLibraryError(
                "Neural ODEs need a library: pip install torchdiffeq"
            ) from None
        span = torch.tensor([0.0, 1.0], dtype=z0.dtype, device=z0.device)
        start = z0.detach().requires_grad_()
        with torch.enable_grad(), _failing_in_words():
            z1: Tensor = odeint_adjoint(f, start, span, rtol=tol, atol=tol, method="dopri5")[-1]
        ctx.flow = z1, [start, *weights]
        return z1.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        z1, inputs = ctx.flow
        with _failing_in_words():
            # Kept for as long as this node is, so that the caller may come back.
            of_start, *of_weights = torch.autograd.grad(z1, inputs, gradient, retain_graph=True)
        return of_start, None, None, *of_weights


@contextmanager
def _failing_in_words() -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        raise StiffError(
            f"the solver of a Neural ODE gave up ({str(error).partition(':')[0]}); lower the "
            "learning rate, or raise the model's tol"
        ) from None
