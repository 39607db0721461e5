"""What the equilibrium is worth on shapes: beside a single evaluation of f, and a linear model.

Trains the `shapes` recipe as `make train` does; the same recipe with f applied once in place
of its equilibrium; and a linear map from all pixels to the logits of both tasks. All are judged
on the same unseen images. The folders of the runs stay in runs/.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mdeq.data import Once, Order, batches, create_source, open_split
from mdeq.engine import create_accelerator, evaluate, open_bundle, task_loss
from mdeq.engine.tasks import Scores
from mdeq.implicit import Unrolled

ONCE = ["--model.backward", "{mode: unrolled, steps: 1}"]


def main() -> None:
    """Train all three, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seed = ["--seed", str(options.seed)]
    rows = {"equilibrium": train(*seed)}
    run = rows["equilibrium"]["run"]
    rows["the same weights, solved to 1e-3"] = judged(run, solver={"max_steps": 30, "tol": 1e-3})
    rows["the same weights, f once"] = judged(run, backward=Unrolled(steps=1))
    rows["trained and used with f once"] = train(*seed, *ONCE)
    rows["linear model"] = linear(options.seed)
    print(f"{'':34} {'accuracy':>9} {'mIoU':>7} {'residual':>9} {'training':>9}")
    for name, figures in rows.items():
        accuracy, miou = figures["classification"]["top1"], figures["segmentation"]["miou"]
        seconds = f"{figures['seconds']:.0f} s" if "run" in figures else ""
        residual = f"{figures['equilibrium']['residual']:.2g}" if name != "linear model" else ""
        print(f"{name:34} {100 * accuracy:7.1f} % {100 * miou:5.1f} % {residual:>9} {seconds:>9}")


def train(*arguments: str) -> dict[str, Any]:
    """`mdeq train shapes`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        said = command("train", "shapes", "--json", str(file), *arguments)
        figures: dict[str, Any] = json.loads(file.read_text())
    run = said.split("everything goes into ")[1].split()[0]
    return {**figures, "run": run}


def judged(run: str, **settings: Any) -> dict[str, Any]:
    """The trained model with other settings of `solver` or `backward`."""
    bundle = open_bundle(run)
    for name, value in settings.items():
        setattr(bundle.model, name, value)
    examples = open_split(bundle.parts[0].source, "test")
    assert examples is not None
    accelerator = create_accelerator()
    figures = evaluate(
        bundle.model, examples, bundle.classes, accelerator=accelerator, batch_size=100
    )
    assert figures is not None
    return figures


def command(*arguments: str) -> str:
    """Run `mdeq`; what it said."""
    print("mdeq", *arguments, flush=True)
    return subprocess.run(
        [sys.executable, "-m", "mdeq", *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def linear(seed: int, epochs: int = 5) -> dict[str, Any]:
    """A linear map from the pixels to both tasks' logits, trained on more images than the rest."""
    torch.manual_seed(seed)
    source = create_source("shapes")
    classes = source.classes(None)
    size = source.samples("val", None)[0]["image"].shape[-1]  # type: ignore[index]
    outputs = {task: len(names) for task, names in classes.items()}
    outputs["segmentation"] *= size * size
    maps = nn.ModuleDict({task: nn.Linear(3 * size * size, n) for task, n in outputs.items()})
    optimiser = torch.optim.Adam(maps.parameters(), lr=1e-4)

    def load(split: str, epochs: int | None) -> Iterator[dict[str, Any]]:
        examples = open_split(source, split)  # type: ignore[arg-type]
        assert examples is not None
        if epochs is None:
            return batches(examples, Once(len(examples), 100), workers=0)
        stop = epochs * (len(examples) // 100)
        return batches(examples, Order(len(examples), 100, seed=seed, stop=stop), workers=0)

    def logits(image: Tensor) -> dict[str, Tensor]:
        image = source.normalise(image, torch.float32)
        flat = {task: layer(image.flatten(1)) for task, layer in maps.items()}
        flat["segmentation"] = flat["segmentation"].unflatten(1, (-1, size, size))
        return flat

    for batch in load("train", epochs):
        predicted = logits(batch["image"])
        loss = sum(task_loss(task, predicted[task], batch[task]) for task in classes)
        optimiser.zero_grad()
        assert isinstance(loss, Tensor)
        loss.backward()
        optimiser.step()
    scores = Scores(classes, torch.device("cpu"), solved=False)
    for batch in load("test", None):
        with torch.no_grad():
            scores.update(logits(batch["image"]), batch)
    return scores.compute()


if __name__ == "__main__":
    main()
