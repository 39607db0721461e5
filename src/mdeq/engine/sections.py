"""The sections of a recipe, each checked by itself."""

from dataclasses import dataclass, field
from typing import Any, Literal

from mdeq.data import Source, create_source
from mdeq.engine.duration import check_duration
from mdeq.solvers import check_count, check_number


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """How the weights follow the gradients.

    Attributes:
        name: "adam", "adamw", or with Nesterov momentum "sgd" or "muon": orthogonalised steps for
            weights, NAdamW's for the rest.
        lr: Learning rate at its highest.
        warmup: The rate rises to `lr` over this time, then falls to zero along a cosine.
        weight_decay: Of weights; norms, gains and biases have none.
        momentum: Of SGD and Muon.
        rest: Learning rate of what Muon leaves to NAdamW, in multiples of `lr`.
        clip: Largest norm of a gradient; null does not limit it.
    """

    name: Literal["adam", "adamw", "sgd", "muon"] = "adam"
    lr: float = 1e-3
    warmup: str = "0 steps"
    weight_decay: float = 0.0
    momentum: float = 0.9
    rest: float = 1.0
    clip: float | None = None

    def __post_init__(self) -> None:
        check_number("optimiser.lr", self.lr, above=0)
        check_number("optimiser.weight_decay", self.weight_decay, least=0)
        check_number("optimiser.momentum", self.momentum, least=0, most=1)
        check_number("optimiser.rest", self.rest, above=0)
        check_duration("optimiser.warmup", self.warmup)
        if self.clip is not None:
            check_number("optimiser.clip", self.clip, above=0)


@dataclass(frozen=True, kw_only=True)
class ShallowConfig:
    """The first phase of the paper: a shallow stack of f in place of its equilibrium.

    Attributes:
        length: How long.
        steps: Evaluations of f in the stack.
    """

    length: str = "0 steps"
    steps: int = 5

    def __post_init__(self) -> None:
        check_duration("shallow.length", self.length)
        check_count("shallow.steps", self.steps)


@dataclass(frozen=True, kw_only=True)
class SoftplusConfig:
    """The smooth phase of the paper: softplus in place of the last ReLUs of f.

    Attributes:
        length: How long, from the beginning.
        beta: Its sharpness; ReLU is the limit.
    """

    length: str = "0 steps"
    beta: float = 5.0

    def __post_init__(self) -> None:
        check_duration("softplus.length", self.length)
        check_number("softplus.beta", self.beta, above=0)


@dataclass(frozen=True, kw_only=True)
class CoarseConfig:
    """A cheap phase: smaller images first, of which many more fit into the same time.

    Attributes:
        share: Of the steps of the run, the first.
        factor: How many times smaller height and width are.
    """

    share: float = 0.0
    factor: int = 2

    def __post_init__(self) -> None:
        check_number("coarse.share", self.share, least=0, most=1)
        check_count("coarse.factor", self.factor)


@dataclass(frozen=True, kw_only=True)
class PixelsConfig:
    """Which pixels the segmentation loss counts, and how much.

    Attributes:
        class_weights: Of classes by name: `--pixels.class_weights "{pole: 4}"`; others have 1.
        hard_below: Only pixels count whose class was given a lower probability than this; null
            counts all.
        hard_share: But at least this share of all pixels counts.
    """

    class_weights: dict[str, float] = field(default_factory=dict)
    hard_below: float | None = None
    hard_share: float = 0.1

    def __post_init__(self) -> None:
        for name, weight in self.class_weights.items():
            check_number(f"pixels.class_weights.{name}", weight, least=0)
        if self.hard_below is not None:
            check_number("pixels.hard_below", self.hard_below, above=0, most=1)
        check_number("pixels.hard_share", self.hard_share, least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class SecondConfig:
    """A second dataset, which every other step is on.

    Attributes:
        dataset: As in a recipe.
        data: The folder that it is read from.
        batch_size: Images in one step on it, over all processes; and at once in evaluation.
    """

    dataset: dict[str, Any]
    data: str | None = None
    batch_size: int = 8

    def __post_init__(self) -> None:
        check_count("second.batch_size", self.batch_size)
        if self.data is not None:
            object.__setattr__(self, "data", str(self.data))  # a folder named 2024 comes as number
        self.source  # noqa: B018  -- checks the section

    @property
    def source(self) -> Source:
        """The dataset."""
        return create_source(**self.dataset)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """When and how the model is evaluated during training.

    Attributes:
        every: How often.
        batch_size: Images at once, in every process.
        window: Height and width of the parts that large images are segmented in, to save memory;
            null takes them whole.
    """

    every: str = "1 epochs"
    batch_size: int = 100
    window: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_duration("evaluation.every", self.every)
        check_count("evaluation.batch_size", self.batch_size)
        if self.window is not None:
            object.__setattr__(self, "window", tuple(self.window))  # a list in a file
            for side in self.window:
                check_count("a side of evaluation.window", side)
