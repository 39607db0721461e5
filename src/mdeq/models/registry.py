"""Models by name: list, create, load."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mdeq.models.config import MDEQConfig
from mdeq.models.mdeq import MDEQ
from mdeq.models.presets import PRESETS
from mdeq.models.weights import WEIGHTS, read_config, read_weights
from mdeq.solvers import check_choice


def list_models(pattern: str = "*") -> list[str]:
    """Names of the models that `create_model` makes, those that match a glob pattern."""
    return sorted(name for name in PRESETS if fnmatchcase(name, pattern))


def configure(name: str, **overrides: Any) -> MDEQConfig:
    """The configuration of a model by name, with some fields overridden."""
    check_choice("model", name, PRESETS)
    return PRESETS[name].override(**overrides)


def create_model(name: str, *, pretrained: bool = False, **overrides: Any) -> MDEQ:
    """Make a model by name, with any field of its `MDEQConfig` overridden.

    Args:
        name: One of `list_models()`.
        pretrained: Load the weights that ship with the package, where there are some.
        overrides: `num_classes`, `in_channels`, `dropout`, `tasks`, ...; `solver` and `backward`
            in part or whole: `solver={"max_steps": 8}`, `backward="phantom"`.
    """
    config = configure(name, **overrides)
    if pretrained:
        raise ValueError(f"no weights ship for {name!r}; train it, or say pretrained=False")
    return MDEQ(config)


def load(folder: str | Path) -> MDEQ:
    """Load a model that `save_pretrained` wrote, in evaluation mode."""
    if not isinstance(folder, (str, Path)):
        raise ValueError(f"folder is {folder!r}; expected the path that save_pretrained was given")
    folder = Path(folder)
    model = MDEQ(MDEQConfig.from_dict(read_config(folder)))
    read_weights(model, folder / WEIGHTS)
    return model.eval()
