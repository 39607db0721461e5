"""The multiscale deep equilibrium model."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mdeq.implicit import (
    Backward,
    OnFailure,
    fixed_point,
    merge_backward,
    resolve_backward,
)
from mdeq.models.config import MDEQConfig
from mdeq.models.heads import ClassificationHead, SegmentationHead
from mdeq.models.saving import Saved
from mdeq.models.stem import Stem
from mdeq.nn import Transformation
from mdeq.solvers import Solution, SolverConfig, check_choice, check_number


@dataclass(frozen=True, kw_only=True, eq=False)
class Equilibrium:
    """The point that f leaves alone, for a batch of images.

    Attributes:
        scales: z*, finest scale first, differentiable, cropped to the size of the images.
        z: The same before it is cropped.
        solution: How the forward solve went; its `z` is not cropped either.
        f: f(.; x) of this pass, with its weights and dropout masks: what `solution.z` solves.
    """

    scales: list[Tensor]
    z: list[Tensor]
    solution: Solution[list[Tensor]]
    f: Callable[[list[Tensor]], list[Tensor]]


class MDEQ(Saved, tags=["deep-equilibrium"]):
    """Stem, equilibrium of f, heads: logits, or a mapping of them where there are several tasks.

    `solver` and `backward` can be set at any time, in part or whole, for example by a training
    loop that begins with a shallow stack of f: `model.backward = Unrolled(steps=5)`. What is
    saved is `config`, not what was set since.
    """

    def __init__(self, config: MDEQConfig) -> None:
        super().__init__()
        if not isinstance(config, MDEQConfig):
            raise ValueError(
                f"config is {config!r}; expected an MDEQConfig: for a model by name, "
                "use mdeq.create_model(name)"
            )
        self.config = config
        self._solver = config.solver
        self._backward: Any = config.backward
        self.stem = Stem(
            config.in_channels,
            config.channels[0],
            downsamplings=config.downsamplings,
            projection=config.stem_projection,
            momentum=config.norm_momentum,
        )
        self.f = Transformation(
            config.channels,
            expansion=config.expansion,
            groups=config.groups,
            dropout=config.dropout,
            upsampling=config.upsampling,
            weight_norm=config.weight_norm,
            path_weight_norm=config.path_weight_norm,
            post_groups=config.post_groups,
            post_affine=config.post_affine,
            initialisation=config.initialisation,
        )
        self.heads = nn.ModuleDict({task: self._head(task) for task in config.tasks})

    @property
    def solver(self) -> SolverConfig:
        """How to find the equilibrium."""
        return self._solver

    @solver.setter
    def solver(self, change: SolverConfig | str | Mapping[str, Any]) -> None:
        self._solver = self._solver.override(change)

    @property
    def backward(self) -> Backward:
        """How to differentiate through it."""
        return resolve_backward(self._backward)

    @backward.setter
    def backward(self, change: Backward | str | Mapping[str, Any]) -> None:
        changed = merge_backward(self._backward, change)
        resolve_backward(changed)
        self._backward = changed

    def forward(
        self,
        images: Tensor,
        *,
        tasks: Collection[str] | None = None,
        on_equilibrium: Callable[[Equilibrium], None] | None = None,
        **how: Any,
    ) -> Any:
        """Logits (B, K), segmentation (B, K, H, W) at the size of the image.

        Several tasks: a mapping from task to logits.

        Args:
            images: (B, C, H, W), of any size.
            tasks: Whose heads answer; all if not given.
            on_equilibrium: Called with the equilibrium before the heads see it: for logging its
                `solution`, or for a penalty on the Jacobian of its `f`.
            how: As for `equilibrium`.
        """
        if on_equilibrium is not None and not callable(on_equilibrium):
            raise ValueError(f"on_equilibrium is {on_equilibrium!r}; expected a function")
        for task in tasks or ():
            check_choice("task of this model", task, self.heads)
        equilibrium = self.equilibrium(images, **how)
        if on_equilibrium is not None:
            on_equilibrium(equilibrium)
        size = (images.shape[2], images.shape[3])
        logits = {
            # Pixels of several scales align only as long as nothing is cropped.
            task: head(equilibrium.z, size) if task == "segmentation" else head(equilibrium.scales)
            for task, head in self.heads.items()
            if tasks is None or task in tasks
        }
        return logits if len(logits) > 1 else next(iter(logits.values()))

    def features(self, images: Tensor, **how: Any) -> list[Tensor]:
        """The equilibrium maps z*, finest scale first: the model as a backbone."""
        return self.equilibrium(images, **how).scales

    def equilibrium(
        self,
        images: Tensor,
        *,
        z0: list[Tensor] | None = None,
        solver: SolverConfig | str | Mapping[str, Any] | None = None,
        backward: Backward | str | Mapping[str, Any] | None = None,
        on_failure: OnFailure | None = None,
        on_backward: Callable[[Solution[list[Tensor]]], None] | None = None,
        track_scales: bool = False,
    ) -> Equilibrium:
        """Solve z* = f(z*; x).

        Args:
            images: (B, C, H, W), of any size: padded at the bottom and on the right to a
                multiple of `config.size_divisor`, and the result is cropped.
            z0: Where to start; zero if not given. `solution.z` of a similar image of the same
                size is a good start.
            solver: How to solve, for this call; in part or whole, as in `create_model`.
            backward: How to differentiate, for this call; in part or whole.
            on_failure: What to do if a solve misses its tolerance, for this call.
            on_backward: Called with the solution of the backward solve.
            track_scales: Also record how much every scale changes at every step.
        """
        x = self.injection(images)
        height, width = images.shape[2:]
        f = self.f.at(x)
        start = self.f.start(x)
        z, solution = fixed_point(
            f,
            start if z0 is None else _checked_start(z0, start),
            forward=self.solver if solver is None else self.solver.override(solver),
            backward=self._backward
            if backward is None
            else merge_backward(self._backward, backward),
            on_failure=on_failure or self.config.on_failure,
            on_backward=on_backward,
            track_scales=track_scales,
        )
        stride = 2**self.config.downsamplings
        scales = [
            scale[:, :, : -(-height // (stride << k)), : -(-width // (stride << k))]
            for k, scale in enumerate(z)
        ]
        return Equilibrium(scales=scales, z=z, solution=solution, f=f)

    def injection(self, images: Tensor) -> Tensor:
        """x, what f sees of the images: padded to multiples of `config.size_divisor`."""
        self._check(images)
        height, width = images.shape[2:]
        divisor = self.config.size_divisor
        x: Tensor = self.stem(pad(images, (0, -width % divisor, 0, -height % divisor)))
        return x

    def set_softplus(self, beta: float | None) -> None:
        """Put softplus in place of the last ReLU of blocks and fusion; None puts ReLU back."""
        if beta is not None:
            check_number("beta", beta, above=0)
        self.f.set_softplus(beta)

    def _head(self, task: str) -> nn.Module:
        config = self.config
        if task == "classification":
            return ClassificationHead(
                config.channels,
                config.tasks[task],
                widths=config.head_channels,
                final_width=config.head_width,
                momentum=config.norm_momentum,
            )
        return SegmentationHead(
            config.channels,
            config.tasks[task],
            scales=config.segmentation_scales,
            stride=2**config.downsamplings,
            momentum=config.norm_momentum,
        )

    def _check(self, images: object) -> None:
        expected = f"expected a tensor (batch, {self.config.in_channels}, height, width)"
        if not isinstance(images, Tensor):
            raise ValueError(f"images are a {type(images).__name__}; {expected}")
        shape = tuple(images.shape)
        if images.ndim != 4:
            raise ValueError(f"images have shape {shape}; {expected}, one image is images[None]")
        if shape[1] != self.config.in_channels or 0 in shape:
            raise ValueError(f"images have shape {shape}; {expected}")
        if not images.is_floating_point():
            raise ValueError(f"images are {images.dtype}; expected floats, normalised")
        own = self.stem.conv1.weight.dtype
        if images.dtype != own and not torch.is_autocast_enabled(images.device.type):
            raise ValueError(
                f"images are {images.dtype}, the model is {own}; convert one to the other"
            )


def _checked_start(z0: list[Tensor], start: list[Tensor]) -> list[Tensor]:
    if not isinstance(z0, (list, tuple)):
        raise ValueError(f"z0 is a {type(z0).__name__}; expected a list of {len(start)} scales")
    shapes = [tuple(getattr(scale, "shape", ())) for scale in z0]
    expected = [tuple(scale.shape) for scale in start]
    if shapes != expected:
        raise ValueError(
            f"z0 has shapes {shapes}; expected {expected}: the `solution.z` of an equilibrium "
            "for images of this size, not its cropped `scales`"
        )
    return [scale.to(like.dtype) for scale, like in zip(z0, start, strict=True)]
