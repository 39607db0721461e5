"""What the configurations of all kinds of models have in common."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, Self

from mdeq.solvers import check_choice, check_count

TASKS = ("classification", "segmentation")


class MissingLibraryError(ValueError):
    """A network needs a library that is not installed."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that defines a model, as one value.

    Attributes:
        in_channels: Of the image.
        tasks: Classes of every task.
    """

    in_channels: int = 3
    tasks: Mapping[str, int] = field(default_factory=lambda: {"classification": 10}, hash=False)

    def __post_init__(self) -> None:
        check_count("in_channels", self.in_channels)
        if not isinstance(self.tasks, Mapping) or not self.tasks:
            raise ValueError(
                f"tasks is {self.tasks!r}; expected the classes of every task, such as "
                '{"classification": 10}'
            )
        for task, classes in self.tasks.items():
            check_choice("task", task, TASKS)
            check_count(f"the number of classes for {task}", classes)
        object.__setattr__(self, "tasks", dict(self.tasks))  # presets share theirs; this is its own

    def only(self, task: str) -> None:
        """Refuse other tasks than this one."""
        if list(self.tasks) != [task]:
            raise ValueError(
                f'tasks is {self.tasks}; this network has one task: expected {{"{task}": classes}}'
            )

    def override(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown ones are errors.

        `num_classes` sets the classes of the only task.
        """
        if "num_classes" in changes:
            classes = changes.pop("num_classes")
            if "tasks" in changes or len(self.tasks) != 1:
                raise ValueError(
                    f"num_classes={classes!r} is for the one task of a model by name; "
                    'to choose tasks, say tasks={"classification": classes} alone'
                )
            changes["tasks"] = dict.fromkeys(self.tasks, classes)
        for name in changes:
            check_choice("field of the model", name, [*_names(type(self)), "num_classes"])
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in config.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; unknown fields are errors."""
        for name in values:
            check_choice("field of the model", name, _names(cls))
        for needed in fields(cls):
            optional = needed.default is not MISSING or needed.default_factory is not MISSING
            if not optional and needed.name not in values:
                raise ValueError(f"the configuration has no {needed.name}; save the model again")
        return cls(**values)


def _names(config: type[ModelConfig]) -> list[str]:
    return [f.name for f in fields(config)]
