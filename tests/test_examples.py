"""Every example that the documentation shows runs, and prints what it says."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import mdeq

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(mdeq.__path__, "mdeq.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(
        importlib.import_module(name), extraglobs={"mdeq": mdeq, "torch": torch}
    )
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    """The Python blocks of a page run in order, in one namespace; asserts in them hold."""
    namespace: dict[str, object] = {}
    for match in re.finditer(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(match[1], str(page), "exec"), namespace)
