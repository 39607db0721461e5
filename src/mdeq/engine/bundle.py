"""A trained model as a folder that needs nothing else: weights, and what goes in and comes out.

Beside what `save_pretrained` writes stands data.json: the dataset that the model was trained
on, and the names of its classes. `mdeq.load` reads the folder as it is.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdeq.data import Source, create_source
from mdeq.engine.checkpoint import write_atomically
from mdeq.engine.recipe import plain
from mdeq.models import MDEQ, load

DATA = "data.json"
LAST = "last"
BEST = "best"


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A trained model and what it was trained on.

    Attributes:
        model: In evaluation mode.
        dataset: The `dataset` section of its recipe.
        classes: Names of the classes of every task.
        data: The folder that its data were in, if any.
    """

    model: MDEQ
    dataset: Mapping[str, Any]
    classes: Mapping[str, list[str]]
    data: str | None = None

    @property
    def source(self) -> Source:
        """The dataset."""
        return create_source(**self.dataset)

    def save(self, folder: Path) -> None:
        """Write the folder, file by file: a reader finds the old weights or the new ones."""
        drafts = folder.with_name(f".{folder.name}.draft")
        shutil.rmtree(drafts, ignore_errors=True)
        try:
            self.model.save_pretrained(drafts)
            about = {"dataset": self.dataset, "classes": self.classes, "data": self.data}
            (drafts / DATA).write_text(json.dumps(plain(about), indent=2))
            folder.mkdir(exist_ok=True)
            for draft in sorted(drafts.iterdir()):
                write_atomically(folder / draft.name, partial(_move, draft))
        finally:
            shutil.rmtree(drafts, ignore_errors=True)


def open_bundle(name: str) -> Bundle:
    """The model of a run's folder, or of a folder with a model in it."""
    folder = Path(name)
    if (folder / LAST).is_dir():
        folder = folder / LAST
    if not folder.is_dir():
        raise ValueError(
            f"there is no run or model {name}; expected the folder of a run, such as one that "
            "`mdeq train` wrote into runs/"
        )
    file = folder / DATA
    if not file.is_file():
        hint = (
            "its training has not come to an evaluation yet"
            if (folder / "recipe.yaml").exists()
            else "expected the folder of a run, or RUN/best"
        )
        raise ValueError(f"{folder} has no {DATA}; {hint}")
    try:
        about = json.loads(file.read_text())
        dataset, classes, data = about["dataset"], about["classes"], about["data"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged ({error!r}); train again, or restore it") from None
    return Bundle(model=load(folder), dataset=dataset, classes=classes, data=data)


def _move(source: Path, target: Path) -> None:
    source.replace(target)
