"""Multiscale equilibrium models (stem, backbone, heads, presets, weights), and what to compare."""

import mdeq.models.timm_models  # noqa: F401  registers the models with timm
from mdeq.models.base import MissingLibraryError
from mdeq.models.config import MDEQConfig
from mdeq.models.mdeq import MDEQ, Equilibrium
from mdeq.models.ode import NeuralODE, NeuralODEConfig, StiffError
from mdeq.models.official import import_official
from mdeq.models.presets import FAST, NETWORKS, PRESETS
from mdeq.models.published import Published, PublishedConfig
from mdeq.models.registry import (
    Config,
    Model,
    build,
    configure,
    count_parameters,
    create_model,
    list_models,
    load,
)
from mdeq.models.resnet import ResNet, ResNetConfig
from mdeq.models.shipped import FIGURES, LAST, SHIPPED, model_folder, shipped_folder
from mdeq.models.transfer import Transfer, transfer_backbone
from mdeq.models.weights import load_exactly

__all__ = [
    "FAST",
    "FIGURES",
    "LAST",
    "MDEQ",
    "NETWORKS",
    "PRESETS",
    "SHIPPED",
    "Config",
    "Equilibrium",
    "MDEQConfig",
    "MissingLibraryError",
    "Model",
    "NeuralODE",
    "NeuralODEConfig",
    "Published",
    "PublishedConfig",
    "ResNet",
    "ResNetConfig",
    "StiffError",
    "Transfer",
    "build",
    "configure",
    "count_parameters",
    "create_model",
    "import_official",
    "list_models",
    "load",
    "load_exactly",
    "model_folder",
    "shipped_folder",
    "transfer_backbone",
]
