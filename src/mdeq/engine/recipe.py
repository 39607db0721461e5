"""A training run as one value: what to train, on what, how long and how."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

import yaml

from mdeq.data import Source, create_source
from mdeq.engine.duration import check_duration
from mdeq.engine.sections import (
    CoarseConfig,
    EvaluationConfig,
    OptimiserConfig,
    PixelsConfig,
    SecondConfig,
    ShallowConfig,
    SoftplusConfig,
)
from mdeq.models import SHIPPED, Config, MDEQConfig, configure
from mdeq.solvers import check_choice, check_count, check_number, unknown


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that defines a run; a YAML file holds one.

    Attributes:
        description: One line for the list of recipes.
        model: `name` of a model, and any field of it: `--model.dropout 0.1`,
            `--model.solver.max_steps 8`. See docs/models.md.
        dataset: `name` of a dataset, and any field of it: `--dataset.augment true`. See
            docs/training.md.
        data: The folder that the dataset is read from.
        init: The folder of a run or of a model of the same architecture, or the name of shipped
            weights, whose backbone (stem and f, not the heads) the training begins with.
        second: Another dataset, of other tasks, that every other step is on: its `dataset`, `data`
            and `batch_size`, such as `--second.dataset.name camvid --second.data DIR`.
        tasks: Weight of every task's loss: `--tasks.segmentation 2`. By default all tasks that
            the dataset has labels for, with weight 1.
        length: How long to train.
        batch_size: Images in one step of the optimiser, over all processes.
        accumulate: Parts that a process works through its batch in, to save memory.
        optimiser: How the weights follow the gradients.
        auxiliary: Further losses, on single scales of the equilibrium: `--auxiliary.segmentation.2
            0.4` puts one of that weight on scale 2; 0 is the finest.
        label_smoothing: Of the classification loss.
        pixels: Of the segmentation loss.
        jacobian_penalty: Weight of ||df/dz||^2 per feature, which keeps the equilibrium easy to
            find. Costs about three more evaluations of f a step.
        ema: Decay of the running average of the weights, which is then what is evaluated and
            saved as the model; null keeps none.
        shallow: The paper's first phase.
        softplus: The paper's smooth phase.
        coarse: A phase on smaller images.
        evaluation: When and how to evaluate.
        seed: Of initialisation, order, augmentation and dropout.
        precision: "float32", "bf16" (autocast; the solver stays in float32) or "float64".
        channels_last: Whether images and features are stored with channels last.
        compile: Whether f, or all of an explicit network, is compiled by torch.compile.
        workers: Processes that load data, for every training process.
        save_minutes: A checkpoint is written this often, and at every evaluation.
    """

    description: str = ""
    model: dict[str, Any] = field(default_factory=dict)
    dataset: dict[str, Any] = field(default_factory=dict)
    data: str | None = None
    init: str | None = None
    second: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, float] = field(default_factory=dict)
    length: str = "50 epochs"
    batch_size: int = 128
    accumulate: int = 1
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    auxiliary: dict[str, Any] = field(default_factory=dict)
    label_smoothing: float = 0.0
    pixels: PixelsConfig = field(default_factory=PixelsConfig)
    jacobian_penalty: float = 0.0
    ema: float | None = None
    shallow: ShallowConfig = field(default_factory=ShallowConfig)
    softplus: SoftplusConfig = field(default_factory=SoftplusConfig)
    coarse: CoarseConfig = field(default_factory=CoarseConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: int = 0
    precision: Literal["float32", "bf16", "float64"] = "float32"
    channels_last: bool = True
    compile: bool = False
    workers: int = 0
    save_minutes: float = 5.0

    def __post_init__(self) -> None:
        for section in ("model", "dataset"):
            given = getattr(self, section)
            if not isinstance(given, dict) or "name" not in given:
                raise ValueError(f"the recipe names no {section}; say --{section}.name NAME")
            for name in given:
                if not isinstance(name, str):
                    raise ValueError(f"{section} has a field {name!r}; expected a name")
        check_duration("length", self.length)
        if self.length.split()[0] == "0":
            raise ValueError(f"length is {self.length!r}; expected at least one step")
        if self.compile and self.jacobian_penalty:
            raise ValueError(
                "compile and jacobian_penalty exclude each other: torch.compile has no second "
                "derivatives; leave one out"
            )
        for name in ("batch_size", "accumulate"):
            check_count(name, getattr(self, name))
        check_number("workers", self.workers, least=0)
        check_number("seed", self.seed, least=0, most=2**32 - 1)
        check_number("label_smoothing", self.label_smoothing, least=0, most=1)
        check_number("jacobian_penalty", self.jacobian_penalty, least=0)
        check_number("save_minutes", self.save_minutes, least=0)
        if self.ema is not None:
            check_number("ema", self.ema, above=0, most=1)
        for task, weight in self.tasks.items():
            check_number(f"tasks.{task}", weight, above=0)
        self.source  # noqa: B018  -- checks the section
        if self.second:
            SecondConfig(**_known_fields("second", self.second, SecondConfig))
        object.__setattr__(self, "auxiliary", _auxiliary(self.auxiliary))
        if not isinstance(self.model_config({}), MDEQConfig):
            self._check_explicit()

    @property
    def source(self) -> Source:
        """The dataset."""
        return create_source(**self.dataset)

    def _check_explicit(self) -> None:
        """An explicit network has no equilibrium to phase in, or to penalise."""
        for path, value in (
            ("shallow.length", self.shallow.length),
            ("softplus.length", self.softplus.length),
        ):
            if value.split()[0] != "0":
                raise ValueError(
                    f"{path} is {value!r}, but {self.model['name']} has no equilibrium; "
                    f'say --{path} "0 steps"'
                )
        if self.jacobian_penalty:
            raise ValueError(
                f"jacobian_penalty is {self.jacobian_penalty}, but {self.model['name']} has no "
                "equilibrium; leave it out"
            )

    def model_config(self, classes: Mapping[str, list[str]]) -> Config:
        """The model, with a head for every task of the run.

        Args:
            classes: Of every task that the dataset has labels for; empty leaves the model's own.
        """
        settings = dict(self.model)
        if classes:
            for task in self.tasks:
                check_choice("task of this dataset", task, classes)
            counts = {task: len(classes[task]) for task in self.tasks or classes}
            if settings.setdefault("tasks", counts) != counts:
                raise ValueError(
                    f"model.tasks is {settings['tasks']}, but the data have {counts}; leave it out"
                )
        return configure(**settings)

    def resolved(self, config: Config, classes: Mapping[str, list[str]]) -> Self:
        """The recipe with nothing left to defaults that may change: it reproduces the run."""
        return replace(
            self,
            model={"name": self.model["name"], **config.to_dict()},
            dataset={"name": self.dataset["name"], **asdict(self.source)},
            tasks={task: self.tasks.get(task, 1.0) for task in self.tasks or classes},
            data=_resolved_path(self.data),
            init=self.init if self.init in SHIPPED else _resolved_path(self.init),
            second=self._resolved_second(),
        )

    def _resolved_second(self) -> dict[str, Any]:
        if not self.second:
            return {}
        second = SecondConfig(**self.second)
        section = {"name": second.dataset["name"], **asdict(second.source)}
        data = _resolved_path(second.data)
        return {"dataset": section, "data": data, "batch_size": second.batch_size}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The recipe of plain values, as in a file."""
        sections = {
            "optimiser": OptimiserConfig,
            "pixels": PixelsConfig,
            "shallow": ShallowConfig,
            "softplus": SoftplusConfig,
            "coarse": CoarseConfig,
            "evaluation": EvaluationConfig,
        }
        return cls(
            **{
                name: sections[name](**value) if name in sections else value
                for name, value in values.items()
            }
        )

    def to_yaml(self) -> str:
        """The recipe as a file."""
        written = plain(asdict(self))
        return str(yaml.dump(written, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def _resolved_path(path: str | None) -> str | None:
    return None if path is None else str(Path(path).resolve())


def _known_fields(section: str, values: dict[str, Any], kind: type) -> dict[str, Any]:
    for name in values:
        check_choice(f"field of {section}", name, [f.name for f in fields(kind)])
    if "name" not in (values.get("dataset") or {}):
        raise ValueError(f"{section} names no dataset; say --{section}.dataset.name NAME")
    return values


def _auxiliary(written: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Weights by task and scale; on the command line, scales come as text."""
    weights: dict[str, dict[int, float]] = {}
    for task, scales in written.items():
        if not isinstance(scales, Mapping) or not all(str(scale).isdigit() for scale in scales):
            raise ValueError(
                f"auxiliary.{task} is {scales!r}; expected weights of scales, such as "
                f"--auxiliary.{task}.1 0.4"
            )
        weights[task] = {int(scale): weight for scale, weight in scales.items()}
        for scale, weight in weights[task].items():
            check_number(f"auxiliary.{task}.{scale}", weight, above=0)
    return weights


def list_recipes() -> dict[str, str]:
    """Names of the recipes in the package, with what they are."""
    return {
        name: read_yaml(file.read_text())["description"]
        for name, file in sorted(_shipped().items())
    }


def recipe_file(name: str) -> Path:
    """The file of a recipe: one of the package's by name, or a user's own by path."""
    shipped = _shipped()
    if name in shipped:
        return shipped[name]
    file = Path(name)
    if file.is_file():
        return file
    if file.suffix in (".yaml", ".yml"):
        raise ValueError(f"there is no recipe file {name}")
    raise ValueError(f"{unknown('recipe', name, shipped)}; or the path of a YAML file")


def read_yaml(text: str) -> Any:
    """The value of a YAML text, where 1e-3 is a number, as in YAML 1.2 and everywhere else."""
    return yaml.load(text, _Loader)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML 1.1 takes 1e-3 for a text: it wants 1.0e-3."""


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes texts that the loader would take for numbers."""


# 0016E5 stays a text, as it is to whoever writes it: the name of a drive, for example.
_SCIENTIFIC = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d*)?[eE][-+]?\d+$")
for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _SCIENTIFIC, list("-+0123456789"))


def plain(value: Any) -> Any:
    """The value in lists and dicts alone, as YAML and JSON know them."""
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def _shipped() -> dict[str, Path]:
    folder = Path(str(files("mdeq") / "recipes"))
    return {file.stem: file for file in folder.glob("*.yaml")}
