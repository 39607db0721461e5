"""Models by name: list, create, load."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from mdeq.models.base import MissingLibraryError
from mdeq.models.config import MDEQConfig
from mdeq.models.mdeq import MDEQ
from mdeq.models.ode import NeuralODE, NeuralODEConfig
from mdeq.models.presets import FAST, NETWORKS, PRESETS
from mdeq.models.published import Published, PublishedConfig
from mdeq.models.resnet import ResNet, ResNetConfig
from mdeq.models.shipped import SHIPPED, model_folder, trained_preset
from mdeq.models.weights import WEIGHTS, read_config, read_weights
from mdeq.solvers import check_choice

Config = MDEQConfig | ResNetConfig | NeuralODEConfig | PublishedConfig
Model = MDEQ | ResNet | NeuralODE | Published

KINDS: Mapping[str, type[Config]] = {
    "mdeq": MDEQConfig,
    "resnet": ResNetConfig,
    "ode": NeuralODEConfig,
    "published": PublishedConfig,
}
"""Of configurations, by the `network` in config.json, which that of an equilibrium model lacks."""
FAST_PREFIX = "fast:"
NAMED: Mapping[str, Config] = {**PRESETS, **NETWORKS}


def list_models(pattern: str = "*") -> list[str]:
    """Names of the models that `create_model` makes, those that match a glob pattern."""
    return sorted(name for name in NAMED if fnmatchcase(name, pattern))


def configure(name: str, **overrides: Any) -> Config:
    """The configuration of a model by name, with some fields overridden.

    An equilibrium model `fast:NAME` is NAME with the budgets that docs/performance.md
    recommends for training in place of the paper's.
    """
    plain_name = _without_prefix(name)
    check_choice("model", plain_name, NAMED)
    config = NAMED[plain_name]
    if plain_name != name:
        if not isinstance(config, MDEQConfig):
            raise ValueError(f"{plain_name} has no equilibrium, so there is no {name}")
        config = config.override(**FAST)
    return config.override(**overrides)


def build(config: Config) -> Model:
    """The model of a configuration."""
    if isinstance(config, ResNetConfig):
        return ResNet(config)
    if isinstance(config, NeuralODEConfig):
        return NeuralODE(config)
    if isinstance(config, PublishedConfig):
        return Published(config)
    return MDEQ(config)


def count_parameters(config: Config) -> int | None:
    """Parameters of a model; None if the library that has the network is not installed."""
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in build(config).parameters())
    except MissingLibraryError:
        return None


def create_model(name: str, *, pretrained: bool = False, **overrides: Any) -> Any:
    """Make a model by name, with any field of its configuration overridden.

    Args:
        name: One of `list_models()`; `fast:NAME` for an equilibrium model in the recommended
            training mode.
        pretrained: The model as it was measured, its solver included, with the weights that ship
            with the package, in evaluation mode; what is overridden must leave their shapes.
        overrides: `num_classes`, `in_channels`, `dropout`, `tasks`, ...; `solver` and `backward`
            in part or whole: `solver={"max_steps": 8}`, `backward="phantom"`.
    """
    config = configure(name, **overrides)
    if not pretrained:
        return build(config)
    folder = trained_preset(_without_prefix(name))
    if folder is None:
        raise ValueError(
            f"no weights ship for {name!r}, only for {', '.join(SHIPPED.values())}; train it, or "
            "say pretrained=False"
        )
    return _restored(folder, **overrides)


def _without_prefix(name: str) -> str:
    return name.removeprefix(FAST_PREFIX) if isinstance(name, str) else name


def load(folder: str | Path) -> Any:
    """Load a model in evaluation mode: one that `save_pretrained` wrote, a run's, a shipped one.

    Args:
        folder: That `save_pretrained` was given; of a run of `mdeq train`, for its last weights;
            or the name of weights that ship with the package, such as "camvid".
    """
    if not isinstance(folder, (str, Path)):
        raise ValueError(f"folder is {folder!r}; expected the path that save_pretrained was given")
    return _restored(model_folder(folder))


def _restored(folder: Path, **overrides: Any) -> Model:
    values = read_config(folder)
    network = values.get("network", "mdeq")
    check_choice("network", network, KINDS)
    model = build(KINDS[network].from_dict(values).override(**overrides))
    read_weights(model, folder / WEIGHTS)
    return model.eval()
