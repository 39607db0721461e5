"""Everything that defines a multiscale equilibrium model, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from mdeq.implicit import OnFailure, backward_mode, merge_backward
from mdeq.models.base import ModelConfig
from mdeq.nn import Initialisation, Upsampling
from mdeq.solvers import SolverConfig, check_choice, check_count, check_number


@dataclass(frozen=True, kw_only=True)
class MDEQConfig(ModelConfig):
    """A multiscale equilibrium model; every field is a keyword of `create_model`.

    Attributes:
        channels: Of every scale, finest first.
        expansion: Width inside the residual block, in multiples of its channels.
        groups: Of every GroupNorm in f.
        dropout: Rate of variational dropout.
        weight_norm: Whether the weights of f are normalised.
        path_weight_norm: Whether that includes the paths between scales; the released code
            leaves them out.
        upsampling: From a coarser scale to a finer one, "bilinear" or "nearest".
        post_groups: Groups of the GroupNorm that ends the fusion; None: as all others.
        post_affine: Whether that GroupNorm has learnable scale and shift.
        initialisation: Of the weights of f: "paper", N(0, 0.01), or "fan_in", PyTorch's own.
        downsamplings: Halvings of the image before the equilibrium: 0, 1 or 2.
        stem_projection: Whether the stem ends with a 1x1 convolution.
        head_channels: Of the classification head's bottleneck at every scale; its output is
            four times wider.
        head_width: Features that the classifier sees.
        segmentation_scales: What the segmentation head sees, "finest" or "all".
        norm_momentum: Of the BatchNorms in stem and heads; there are none in f.
        solver: Of the forward pass; T_f is its `max_steps`, m its `memory`.
        backward: How to differentiate; with mode "implicit" T_b is `max_steps`.
        on_failure: If a solve misses its tolerance, as fixed budgets often do: "warn", "raise"
            or "ignore".
    """

    channels: tuple[int, ...]
    expansion: int = 5
    groups: int = 4
    dropout: float = 0.0
    weight_norm: bool = True
    path_weight_norm: bool = True
    upsampling: Upsampling = "bilinear"
    post_groups: int | None = None
    post_affine: bool = True
    initialisation: Initialisation = "paper"
    downsamplings: int = 0
    stem_projection: bool = True
    head_channels: tuple[int, ...] = ()
    head_width: int = 128
    segmentation_scales: Literal["finest", "all"] = "finest"
    norm_momentum: float = 0.1
    solver: SolverConfig = field(default_factory=SolverConfig)
    backward: Mapping[str, Any] = field(default_factory=lambda: {"mode": "implicit"}, hash=False)
    on_failure: OnFailure = "ignore"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.solver, Mapping):  # as it comes from config.json
            object.__setattr__(self, "solver", SolverConfig.of(**self.solver))
        for name in ("expansion", "groups", "head_width"):
            check_count(name, getattr(self, name))
        if self.post_groups is not None:
            check_count("post_groups", self.post_groups)
        for name in ("channels", "head_channels"):
            if not isinstance(getattr(self, name), (list, tuple)):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; expected a width for every scale"
                )
            object.__setattr__(self, name, tuple(getattr(self, name)))
            for width in getattr(self, name):
                check_count(f"a width in {name}", width)
        _check(len(self.channels) > 0, "channels", self.channels, "at least one scale")
        for groups in (self.groups, self.post_groups or self.groups):
            _check(
                all(width % groups == 0 for width in self.channels),
                "channels",
                self.channels,
                f"multiples of the {groups} groups of GroupNorm",
            )
        halvings = self.downsamplings
        _check(
            type(halvings) is int and halvings in (0, 1, 2), "downsamplings", halvings, "0, 1 or 2"
        )
        for name in ("weight_norm", "path_weight_norm", "post_affine", "stem_projection"):
            value = getattr(self, name)
            _check(isinstance(value, bool), name, value, "True or False")
        check_number("norm_momentum", self.norm_momentum, above=0, most=1)
        check_number("dropout", self.dropout, least=0)
        _check(self.dropout < 1, "dropout", self.dropout, "a rate below 1")
        if "classification" in self.tasks:
            _check(
                len(self.head_channels) == len(self.channels),
                "head_channels",
                self.head_channels,
                f"one width for each of the {len(self.channels)} scales",
            )
        check_choice("upsampling", self.upsampling, get_args(Upsampling))
        check_choice("initialisation", self.initialisation, get_args(Initialisation))
        check_choice("segmentation_scales", self.segmentation_scales, ("finest", "all"))
        check_choice("on_failure", self.on_failure, get_args(OnFailure))
        _check(
            isinstance(self.backward, Mapping) and "mode" in self.backward,
            "backward",
            self.backward,
            'a mapping such as {"mode": "phantom", "steps": 3}',
        )
        backward_mode(**self.backward)
        object.__setattr__(self, "backward", dict(self.backward))

    @property
    def size_divisor(self) -> int:
        """Height and width of an image are padded to multiples of this."""
        return 1 << (self.downsamplings + len(self.channels) - 1)

    def override(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown ones are errors.

        `num_classes` sets the classes of the only task. `solver` and `backward` may be given
        in part: a name, or a mapping of what differs from the present settings.
        """
        if "solver" in changes:
            changes["solver"] = self.solver.override(changes["solver"])
        if "backward" in changes:
            changes["backward"] = merge_backward(self.backward, changes["backward"])
        return super().override(**changes)


def _check(condition: bool, name: str, value: object, expected: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {value!r}; expected {expected}")
