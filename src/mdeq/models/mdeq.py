"""The multiscale deep equilibrium model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn
from torch.nn.functional import pad

from mdeq.implicit import Backward, backward_mode, fixed_point
from mdeq.models.config import MDEQConfig
from mdeq.models.heads import ClassificationHead, SegmentationHead
from mdeq.models.stem import Stem
from mdeq.models.weights import read_weights
from mdeq.nn import Transformation
from mdeq.solvers import Solution, SolverConfig


@dataclass(frozen=True, kw_only=True, eq=False)
class Equilibrium:
    """The point that f leaves alone, for a batch of images."""

    scales: list[Tensor]
    """z*, finest scale first, differentiable."""
    solution: Solution[list[Tensor]]
    """How the forward solve went. Where images were padded, its `z` is of the padded size."""
    f: Callable[[list[Tensor]], list[Tensor]]
    """f(.; x) of this pass, with its weights and dropout masks: what `solution.z` solves."""


class MDEQ(nn.Module, PyTorchModelHubMixin, library_name="mdeq", tags=["deep-equilibrium"]):
    """Stem, equilibrium of f, heads: logits, or a mapping of them where there are several tasks.

    `solver` and `backward` can be set at any time, for example by a training loop that begins
    with a shallow stack of f: `model.backward = Unrolled(steps=5)`.
    """

    def __init__(self, config: MDEQConfig) -> None:
        super().__init__()
        self.config = config
        self.solver: SolverConfig = config.solver
        self.backward: Backward = backward_mode(**config.backward)
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

    def forward(self, images: Tensor, **how: Any) -> Any:
        """Logits (B, K), segmentation (B, K, H, W) at the size of the image.

        Several tasks: a mapping from task to logits. Keywords are those of `equilibrium`.
        """
        scales = self.equilibrium(images, **how).scales
        size = (images.shape[2], images.shape[3])
        logits = {task: head(scales, size) for task, head in self.heads.items()}
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
        on_backward: Callable[[Solution[list[Tensor]]], None] | None = None,
        track_scales: bool = False,
    ) -> Equilibrium:
        """Solve z* = f(z*; x).

        Args:
            images: (B, C, H, W), of any size: padded at the bottom and on the right to a
                multiple of `config.size_divisor`, and the result is cropped.
            z0: Where to start; zero if not given. `solution.z` of a similar image is a good
                start.
            solver: How to solve, for this call; in part or whole, as in `create_model`.
            backward: How to differentiate, for this call.
            on_backward: Called with the solution of the backward solve.
            track_scales: Also record how much every scale changes at every step.
        """
        self._check(images)
        height, width = images.shape[2:]
        divisor = self.config.size_divisor
        x = self.stem(pad(images, (0, -width % divisor, 0, -height % divisor)))
        f = self.f.at(x)
        z, solution = fixed_point(
            f,
            self.f.start(x) if z0 is None else z0,
            forward=self.solver if solver is None else self.solver.override(solver),
            backward=self.backward if backward is None else backward,
            on_failure=self.config.on_failure,
            on_backward=on_backward,
            track_scales=track_scales,
        )
        stride = 2**self.config.downsamplings
        scales = [
            scale[:, :, : -(-height // (stride << k)), : -(-width // (stride << k))]
            for k, scale in enumerate(z)
        ]
        return Equilibrium(scales=scales, solution=solution, f=f)

    def set_softplus(self, beta: float | None) -> None:
        """Put softplus in place of the last ReLU of blocks and fusion; None puts ReLU back."""
        self.f.set_softplus(beta)

    @classmethod
    def _load_as_safetensor(  # type: ignore[override]
        cls, model: Self, model_file: str, map_location: str, strict: bool
    ) -> Self:
        """Load for `from_pretrained`, which by itself would let missing weights pass."""
        read_weights(model, Path(model_file))
        return model.to(map_location).eval()

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

    def _check(self, images: Tensor) -> None:
        expected = f"expected (batch, {self.config.in_channels}, height, width)"
        if images.ndim != 4:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; {expected}, one image is images[None]"
            )
        if images.shape[1] != self.config.in_channels:
            raise ValueError(
                f"images have {images.shape[1]} channels, shape {tuple(images.shape)}; {expected}"
            )
        if not images.is_floating_point():
            raise ValueError(f"images are {images.dtype}; expected floats, normalised")
