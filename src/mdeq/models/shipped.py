"""Trained weights that are part of the package."""

from importlib.resources import files
from pathlib import Path

SHIPPED = {"camvid": "mdeq_camvid"}
"""Names of the trained models, and of the presets that they are."""


def shipped_folder(name: str) -> Path:
    """The folder of a trained model of the package."""
    return Path(str(files("mdeq") / "weights" / name))


def trained_preset(preset: str) -> Path | None:
    """The folder of the weights of a preset, if some ship."""
    names = (name for name, of in SHIPPED.items() if of == preset)
    return next((shipped_folder(name) for name in names), None)
