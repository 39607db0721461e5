"""A trained model as a folder that needs nothing else: weights, and what goes in and comes out.

Beside what `save_pretrained` writes stands data.json: the dataset that the model was trained
on, and the names of its classes. `mdeq.load` reads the folder as it is.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from mdeq.data import SPLITS, Colour, Examples, Source, Split, create_source, open_split
from mdeq.engine.checkpoint import write_atomically
from mdeq.engine.recipe import plain
from mdeq.engine.windows import Window
from mdeq.models import Model, load, model_folder

DATA = "data.json"
BEST = "best"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A dataset that a model was trained on.

    Attributes:
        dataset: The `dataset` section of the recipe.
        classes: Names of the classes of every task that it was used for.
        data: The folder that it was in, if any.
        batch_size: Images at once in evaluation.
        window: Height and width of the parts that they were segmented in, if any.
    """

    dataset: Mapping[str, Any]
    classes: Mapping[str, list[str]]
    data: str | None = None
    batch_size: int = 100
    window: Window | None = None

    @property
    def source(self) -> Source:
        """The dataset."""
        return create_source(**self.dataset)

    def examples(self, split: Split | None, data: str | None = None) -> Examples:
        """A split of it, by default the last that there is: test, or else val.

        It is read from another place if `data` says so, and has the same classes.
        """
        folder = data or self.data
        found = self.source.classes(None if folder is None else Path(folder))
        check_classes(self.classes, found, "the model was trained on")
        for wanted in ("test", "val") if split is None else (split,):
            examples = open_split(self.source, wanted, folder)
            if examples is not None:
                return examples
        there = [s for s in SPLITS if open_split(self.source, s, folder) is not None]
        raise ValueError(
            f"the data of {self.dataset['name']} have no {split or 'val or test'} split, only "
            f"{' and '.join(there)}; choose another --split"
        )


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A trained model and what it was trained on.

    Attributes:
        model: In evaluation mode.
        parts: The datasets: one, or two with tasks of their own.
        tasks: Weight of every task's loss.
        colours: Of the classes of a pixel, in pictures.
    """

    model: Model
    parts: Sequence[Part]
    tasks: Mapping[str, float]
    colours: Sequence[Colour | None] = ()

    @property
    def classes(self) -> dict[str, list[str]]:
        """Names of the classes of every task."""
        return {task: names for part in self.parts for task, names in part.classes.items()}

    def part(self, task: str) -> Part:
        """The dataset of a task."""
        return next(part for part in self.parts if task in part.classes)

    def save(self, folder: Path) -> None:
        """Write the folder, file by file: a reader finds the old weights or the new ones."""
        drafts = folder.with_name(f".{folder.name}.draft")
        shutil.rmtree(drafts, ignore_errors=True)
        try:
            self.model.save_pretrained(drafts)
            about = {
                "parts": [asdict(part) for part in self.parts],
                "tasks": self.tasks,
                "colours": self.colours,
            }
            (drafts / DATA).write_text(json.dumps(plain(about), indent=2))
            folder.mkdir(exist_ok=True)
            for draft in sorted(drafts.iterdir()):
                write_atomically(folder / draft.name, draft.read_bytes())
        except SafetensorError as error:
            raise OSError(f"cannot save {folder}: {error}") from None
        finally:
            shutil.rmtree(drafts, ignore_errors=True)


def check_classes(
    expected: Mapping[str, list[str]], found: Mapping[str, list[str]], whose: str
) -> None:
    """The classes of some data are those that are expected of them."""
    for task, names in expected.items():
        there = list(found.get(task, ()))
        if there == list(names):
            continue
        if not there:
            raise ValueError(f"these data have no labels for {task}, which {whose}; give others")
        for number, (name, other) in enumerate(zip_longest(names, there, fillvalue="none")):
            if name != other:
                raise ValueError(
                    f"{task} class {number} of these data ({len(there)} in all) is {other}, but "
                    f"{whose} {name} there ({len(names)} in all); give data with the same classes"
                )


def open_bundle(name: str) -> Bundle:
    """The model of a run's folder, or of a folder with a model in it."""
    folder = model_folder(name)
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
        # Channels last is the faster order, on CPUs and on GPUs.
        parts = [Part(**part) for part in about.pop("parts")]
        model = load(folder).to(memory_format=torch.channels_last)
        return Bundle(model=model, parts=parts, **about)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged ({error}); train again, or restore it") from None
