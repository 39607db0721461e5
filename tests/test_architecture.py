"""The folder tree is the architecture: imports point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mdeq

PACKAGE = Path(mdeq.__file__).parent
LAYERS = [
    "measure",
    "solvers",
    "implicit",
    "nn",
    "models",
    "data",
    "engine",
    "bench",
    "reproduce",
    "cli",
]  # each may import those before it, and itself


def imported_layers(source: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("mdeq.")}


def test_every_part_of_the_package_has_its_layer() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    no_layers = {"__init__", "__main__", "__pycache__", "py", "recipes", "weights", "pictures"}
    assert parts - no_layers == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer: str) -> None:
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    for source in [PACKAGE / f"{layer}.py", *(PACKAGE / layer).rglob("*.py")]:
        if source.exists():
            assert imported_layers(source) <= allowed, source


def test_importing_the_package_loads_nothing_it_does_not_need() -> None:
    heavy = ["accelerate", "matplotlib", "tensorboard", "torchdeq"]
    code = f"import mdeq, sys; print([m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"
