"""What a run learns from: one dataset, or two in alternation."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from accelerate import Accelerator
from tqdm import tqdm

from mdeq.data import (
    SPLITS,
    Batch,
    Colour,
    Examples,
    Order,
    Pairs,
    Source,
    Split,
    batches,
    create_source,
    open_split,
)
from mdeq.engine.recipe import Recipe
from mdeq.engine.sections import SecondConfig


@dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """A dataset of a run, opened.

    Attributes:
        section: The `dataset` of the recipe.
        data: The folder that it is read from.
        batch_size: Images in one step on it.
        evaluation_batch_size: Images at once in evaluation.
        classes: Names of the classes of every task that it has labels for.
        colours: Of the classes of a pixel.
        examples: By split.
    """

    section: Mapping[str, Any]
    data: str | None
    batch_size: int
    evaluation_batch_size: int
    classes: Mapping[str, list[str]]
    colours: Sequence[Colour | None]
    examples: dict[Split, Examples]

    @classmethod
    def open(
        cls,
        section: Mapping[str, Any],
        data: str | None,
        *,
        batch_size: int,
        evaluation_batch_size: int,
        seed: int,
    ) -> Self:
        """Find the splits that there are."""
        source, folder = create_source(**section), Path(data) if data else None
        opened = {
            split: open_split(source, split, data, training=split == "train", seed=seed)
            for split in SPLITS
        }
        return cls(
            section=section,
            data=data,
            batch_size=batch_size,
            evaluation_batch_size=evaluation_batch_size,
            classes=source.classes(folder),
            colours=source.colours(folder),
            examples={split: found for split, found in opened.items() if found is not None},
        )

    @property
    def name(self) -> str:
        """Of the dataset."""
        return str(self.section["name"])

    @property
    def source(self) -> Source:
        """The dataset."""
        return self.examples["train"].source

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of the training split."""
        return len(self.examples["train"]) // self.batch_size

    def last_split(self) -> Split:
        """The test split, or what comes closest."""
        return next(split for split in reversed(SPLITS) if split in self.examples)

    def chosen_split(self) -> Split | None:
        """The validation split, or else the test split, if there is one."""
        return next((split for split in SPLITS[1:] if split in self.examples), None)


def check_masks(materials: Sequence[Material]) -> None:
    """Read every mask once: a wrong one would end the run when its turn comes, hours later."""
    for material in materials:
        for split, examples in material.examples.items():
            samples = examples.samples
            if isinstance(samples, Pairs):
                for index in tqdm(
                    range(len(samples)), f"checking {split} masks", leave=False, disable=None
                ):
                    samples.check(index)


def open_materials(recipe: Recipe) -> list[Material]:
    """The datasets of a recipe: one, or two of different tasks."""
    materials = [
        Material.open(
            recipe.dataset,
            recipe.data,
            batch_size=recipe.batch_size,
            evaluation_batch_size=recipe.evaluation.batch_size,
            seed=recipe.seed,
        )
    ]
    if recipe.second:
        second = SecondConfig(**recipe.second)
        materials.append(
            Material.open(
                second.dataset,
                second.data,
                batch_size=second.batch_size,
                evaluation_batch_size=second.batch_size,
                seed=recipe.seed,
            )
        )
        both = sorted(materials[0].classes.keys() & materials[1].classes.keys())
        if both:
            raise ValueError(
                f"{recipe.dataset['name']} and {second.dataset['name']} both have labels for "
                f"{' and '.join(both)}; expected two datasets of different tasks"
            )
    return materials


def alternating(
    materials: Sequence[Material],
    recipe: Recipe,
    accelerator: Accelerator,
    *,
    start: int,
    stop: int,
) -> Generator[tuple[Material, Batch]]:
    """The batches of the steps from `start` on; step k is on material k modulo their number."""
    count = len(materials)
    with ExitStack() as stack:
        streams = [
            stack.enter_context(
                closing(
                    batches(
                        material.examples["train"],
                        Order(
                            len(material.examples["train"]),
                            material.batch_size,
                            seed=recipe.seed,
                            start=-((index - start) // count),  # its steps that are done
                            stop=-((index - stop) // count),
                            process=accelerator.process_index,
                            processes=accelerator.num_processes,
                        ),
                        workers=recipe.workers,
                        pin_memory=accelerator.device.type == "cuda",
                    )
                )
            )
            for index, material in enumerate(materials)
        ]
        for step in range(start, stop):
            yield materials[step % count], next(streams[step % count])
