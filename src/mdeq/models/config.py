"""Everything that defines a model, as one value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

from mdeq.implicit import OnFailure, backward_mode
from mdeq.models.heads import TASKS
from mdeq.nn import Initialisation, Upsampling
from mdeq.solvers import SolverConfig, unknown


@dataclass(frozen=True, kw_only=True)
class MDEQConfig:
    """A multiscale equilibrium model; every field can be overridden in `create_model`."""

    channels: tuple[int, ...]
    """Of every scale, finest first."""
    expansion: int = 5
    """Width of the residual block inside, in multiples of its channels."""
    groups: int = 4
    """Of every GroupNorm in f."""
    dropout: float = 0.0
    """Rate of variational dropout."""
    weight_norm: bool = True
    """Whether the weights of f are normalised."""
    path_weight_norm: bool = True
    """Whether that includes the paths between scales; the released code leaves them out."""
    upsampling: Upsampling = "bilinear"
    """From a coarser scale to a finer one."""
    post_groups: int | None = None
    """Groups of the GroupNorm that ends the fusion; None: as all others."""
    post_affine: bool = True
    """Whether that GroupNorm has learnable scale and shift."""
    initialisation: Initialisation = "fan_in"
    """Of the weights of f: "paper" is N(0, 0.01); see docs/models.md."""

    in_channels: int = 3
    """Of the image."""
    downsamplings: int = 0
    """Halvings of the image before the equilibrium: 0, 1 or 2."""
    stem_projection: bool = True
    """Whether the stem ends with a 1x1 convolution."""

    tasks: Mapping[str, int] = field(default_factory=lambda: {"classification": 10})
    """Classes of every task: "classification", "segmentation" or both."""
    head_channels: tuple[int, ...] = ()
    """Of the classification head's bottleneck at every scale; its output is four times wider."""
    head_width: int = 128
    """Features that the classifier sees."""
    segmentation_scales: Literal["finest", "all"] = "finest"
    """What the segmentation head sees."""
    norm_momentum: float = 0.1
    """Of the BatchNorms in stem and heads; there are none in f."""

    solver: SolverConfig = field(default_factory=SolverConfig)
    """Of the forward pass: T_f is `max_steps`, m is `memory`."""
    backward: Mapping[str, Any] = field(default_factory=lambda: {"mode": "implicit"})
    """How to differentiate; with "implicit", T_b is `max_steps`."""
    on_failure: OnFailure = "ignore"
    """If a solve misses its tolerance, as fixed budgets often do: "warn", "raise" or "ignore"."""

    def __post_init__(self) -> None:
        for name in ("channels", "head_channels"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if isinstance(self.solver, Mapping):  # as it comes from config.json
            object.__setattr__(self, "solver", SolverConfig.of(**self.solver))
        _check(len(self.channels) > 0, "channels", self.channels, "at least one scale")
        for width in self.channels:
            _check(
                width > 0 and width % self.groups == 0,
                "channels",
                self.channels,
                f"multiples of groups={self.groups}",
            )
        _check(0 <= self.dropout < 1, "dropout", self.dropout, "a rate in [0, 1)")
        _check(self.downsamplings in (0, 1, 2), "downsamplings", self.downsamplings, "0, 1 or 2")
        _check(bool(self.tasks), "tasks", self.tasks, f"some of {', '.join(TASKS)}")
        for task, classes in self.tasks.items():
            if task not in TASKS:
                raise ValueError(unknown("task", task, TASKS))
            _check(classes > 0, "tasks", dict(self.tasks), "a positive number of classes each")
        if "classification" in self.tasks:
            _check(
                len(self.head_channels) == len(self.channels),
                "head_channels",
                self.head_channels,
                f"one width for each of the {len(self.channels)} scales",
            )
        for name, choices in (
            ("upsampling", ("bilinear", "nearest")),
            ("initialisation", ("fan_in", "paper")),
            ("segmentation_scales", ("finest", "all")),
            ("on_failure", ("warn", "raise", "ignore")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(unknown(name, getattr(self, name), choices))
        backward_mode(**self.backward)

    @property
    def size_divisor(self) -> int:
        """Height and width of an image are padded to multiples of this."""
        return 1 << (self.downsamplings + len(self.channels) - 1)

    def override(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown ones are errors.

        `num_classes` sets the classes of the only task. `solver` and `backward` may be given
        in part: a name, or a mapping of what differs from the present settings.
        """
        if "num_classes" in changes:
            classes = changes.pop("num_classes")
            tasks = changes.get("tasks", self.tasks)
            if len(tasks) != 1:
                raise ValueError(
                    f"num_classes={classes} is for a model of one task, this one has "
                    f"{', '.join(tasks)}; say tasks={{...: classes}} instead"
                )
            changes["tasks"] = dict.fromkeys(tasks, classes)
        names = [f.name for f in fields(self)]
        for name in changes:
            if name not in names:
                raise ValueError(unknown("field of the model", name, [*names, "num_classes"]))
        if "solver" in changes:
            changes["solver"] = self.solver.override(changes["solver"])
        if "backward" in changes:
            changes["backward"] = _merge_backward(self.backward, changes["backward"])
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in config.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; unknown fields are errors."""
        names = [f.name for f in fields(cls)]
        for name in values:
            if name not in names:
                raise ValueError(unknown("field of the model", name, names))
        return cls(**values)


def _merge_backward(now: Mapping[str, Any], change: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(change, str):
        change = {"mode": change}
    if change.get("mode", now["mode"]) != now["mode"]:
        return dict(change)
    return {**now, **change}


def _check(condition: bool, name: str, value: object, expected: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {value!r}; expected {expected}")
