"""Images a second in training on CIFAR-10, by variants of the `cifar10-small-cpu` recipe, in turns.

    .venv/bin/python benchmarks/pace.py CIFAR_FOLDER

Six turns, of which the first does not count; two minutes on two quiet cores.
"""

import statistics
import sys
import time
from typing import Any

from mdeq.engine import Recipe, Trainer, create_accelerator, read_yaml, recipe_file
from mdeq.engine.interruption import Interruption

IMAGES, TURNS = 256, 6  # images in a turn
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "batches of 64": {"batch_size": 64},
    "batches of 32": {"batch_size": 32},
    "bfloat16 autocast": {"precision": "bf16"},
    "torch.compile of f": {"compile": True},
    "nearest upsampling": {"model": {"upsampling": "nearest"}},
    "images of half the size": {"coarse": {"share": 1.0}},
}


def trainer(data: str, changes: dict[str, Any]) -> Trainer:
    """A trainer of the recipe, on images of full size unless the changes say otherwise."""
    values = read_yaml(recipe_file("cifar10-small-cpu").read_text())
    model = {**values["model"], **changes.get("model", {})}
    plain = {"data": data, "coarse": {"share": 0.0}}
    return Trainer(Recipe.of({**values, **plain, **changes, "model": model}), create_accelerator())


def main(data: str) -> None:
    """Print the table."""
    made = {name: trainer(data, changes) for name, changes in VARIANTS.items()}
    streams = {name: each._batches() for name, each in made.items()}
    paces: dict[str, list[float]] = {name: [] for name in made}
    for turn in range(TURNS):
        for name, each in made.items():
            steps = IMAGES // each.recipe.batch_size
            began = time.perf_counter()
            for _ in range(steps):
                each._step(streams[name], Interruption())
            seconds = time.perf_counter() - began
            if turn:
                paces[name].append(steps * each.recipe.batch_size / seconds)
    print("| | images/s | quartiles |\n| --- | --- | --- |")
    for name, seen in paces.items():
        low, middle, high = statistics.quantiles(seen, n=4, method="inclusive")
        print(f"| {name} | {middle:.0f} | {low:.0f} to {high:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1])
