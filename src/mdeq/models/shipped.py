"""Where models are: trained weights of the package, runs, folders."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from mdeq.models.weights import CONFIG

SHIPPED: Mapping[str, str] = MappingProxyType(
    {"camvid": "mdeq_camvid", "cifar10": "mdeq_cifar10_small"}
)
"""Names of the trained models, and of the presets that they are."""
FIGURES = "figures.json"
"""What was measured of a trained model, as `mdeq evaluate --json` writes it, beside its weights."""
LAST = "last"
"""The folder of the model in that of a run."""


def shipped_folder(name: str) -> Path:
    """The folder of a trained model of the package."""
    return Path(str(files("mdeq") / "weights" / name))


def model_folder(name: str | Path) -> Path:
    """The folder of a model: one of the package's by name, a run's last weights, or the folder."""
    folder = Path(name)
    there = (folder / CONFIG).is_file() or (folder / LAST).is_dir()
    if isinstance(name, str) and name in SHIPPED:
        if there:
            raise ValueError(
                f"{name} is the name of weights that ship, and a folder with a model here; "
                f"say ./{name} for the folder, or go elsewhere for the weights"
            )
        return shipped_folder(name)
    if (folder / LAST).is_dir():
        return folder / LAST
    if not folder.is_dir():
        near = get_close_matches(str(name), SHIPPED, n=1)
        raise ValueError(
            f"there is no run or model {name}; {f'did you mean {near[0]!r}? ' if near else ''}"
            "expected the folder of a run, such as `mdeq train` writes into runs/, one that "
            f"save_pretrained wrote, or trained weights by name: {', '.join(SHIPPED)}"
        )
    return folder


def trained_preset(preset: str) -> Path | None:
    """The folder of the weights of a preset, if some ship."""
    names = (name for name, of in SHIPPED.items() if of == preset)
    return next((shipped_folder(name) for name in names), None)
