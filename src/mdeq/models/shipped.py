"""Trained weights that are part of the package."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from mdeq.models.weights import CONFIG

SHIPPED: Mapping[str, str] = MappingProxyType({"camvid": "mdeq_camvid"})
"""Names of the trained models, and of the presets that they are."""


def shipped_folder(name: str) -> Path:
    """The folder of a trained model of the package."""
    return Path(str(files("mdeq") / "weights" / name))


def named_folder(name: str | Path) -> Path:
    """The folder of a trained model by its name, or the folder that was named."""
    folder = Path(name)
    if not isinstance(name, str) or name not in SHIPPED:
        return folder
    if (folder / CONFIG).is_file() or (folder / "last").is_dir():
        raise ValueError(
            f"{name} is the name of weights that ship, and a folder with a model here; "
            f"say ./{name} for the folder, or go elsewhere for the weights"
        )
    return shipped_folder(name)


def trained_preset(preset: str) -> Path | None:
    """The folder of the weights of a preset, if some ship."""
    names = (name for name, of in SHIPPED.items() if of == preset)
    return next((shipped_folder(name) for name in names), None)
