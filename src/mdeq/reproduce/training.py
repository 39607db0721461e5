"""Models that a comparison needs trained: alike, once, and found again after that."""

import itertools
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mdeq.data import create_source, open_split
from mdeq.engine import Recipe, Trainer, create_accelerator, read_yaml, recipe_file
from mdeq.engine.run import RECIPE, Run
from mdeq.models import LAST, MDEQConfig, Model, NeuralODEConfig, configure, load
from mdeq.reproduce.setting import Setting

MODELS = {
    "mdeq_cifar10_small": "MDEQ-small",
    "deq_cifar10_small": "single-stream DEQ",
    "resnet18_cifar10_small": "ResNet-18",
    "anode_cifar10": "augmented Neural ODE",
    "node_cifar10": "Neural ODE",
}
QUICK_MINUTES = 0.75
LOOKS = 4
PILOT = 0.05  # of the time that a model has, to find out how many steps that is
ORIGIN, LEARNT = "origin.json", "learnt.json"


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """What became of a model in training.

    Attributes:
        folder: Of its run.
        steps: Of the optimiser.
        minutes: That they took.
        epochs: At which it was looked at.
        held_out: Accuracy then, in percent, on images that were held out of training.
        images: How many these were.
        test: Accuracy at the end on the test split, in percent, and of how many images.
    """

    folder: str
    steps: int
    minutes: float
    epochs: list[float]
    held_out: list[float]
    images: int
    test: tuple[float, int] | None

    @property
    def final(self) -> tuple[float, int]:
        """The best-founded accuracy at the end, and of how many images."""
        return self.test or (self.held_out[-1], self.images)

    def model(self) -> Model:
        """The last weights."""
        model: Model = load(Path(self.folder) / LAST)
        return model


def trained(name: str, setting: Setting) -> Learnt:
    """A model after training; a run that was interrupted goes on, a finished one is found."""
    folder = _folder(name, setting)
    if (folder / LEARNT).exists():
        learnt = json.loads((folder / LEARNT).read_text())
        return Learnt(**{**learnt, "test": learnt["test"] and tuple(learnt["test"])})
    begun = (folder / RECIPE).exists()
    recipe = Recipe.of(read_yaml((folder / RECIPE).read_text())) if begun else None
    trainer = Trainer(recipe or _recipe(name, setting), create_accelerator())
    run = Run(folder) if begun else Run.create(name, str(folder))
    try:
        if not begun:
            run.write(ORIGIN, json.dumps(setting.origin("cifar10"), indent=2))
            run.write(RECIPE, trainer.recipe.to_yaml())
        trainer.enter(run)
        trainer.resume()
        trainer.journal.say(f"{MODELS[name]}: {trainer.total} steps, in {folder}")
        try:
            trainer.train()
        finally:
            trainer.journal.close()
        looks = [record for record in run.records() if "val" in record]
        test = None
        if setting.budget == "full":
            figures = trainer.test()
            test = _accuracy(figures), figures["examples"]
        learnt = Learnt(
            folder=str(folder),
            steps=trainer.total,
            minutes=trainer.progress.seconds / 60,
            epochs=[look["epoch"] for look in looks],
            held_out=[_accuracy(look["val"]) for look in looks],
            images=looks[-1]["val"]["examples"],
            test=test,
        )
        run.write(LEARNT, json.dumps(asdict(learnt), indent=2))
        return learnt
    finally:
        run.close()


def unseen_images(setting: Setting, count: int) -> Tensor:
    """Images like those that the models were trained on, normalised."""
    source = create_source(**_dataset(setting))
    examples = open_split(source, "test", setting.cifar10)
    assert examples is not None
    samples: list[Any] = [examples[0, index] for index in range(min(count, len(examples)))]
    images = source.normalise(torch.stack([sample["image"] for sample in samples]), torch.float32)
    return images.as_subclass(Tensor).to(setting.device)


def image_size(setting: Setting) -> int:
    """Height and width of the images: an ODE takes seconds for a batch of full size."""
    return setting.pick(16, 32)


def described(setting: Setting) -> str:
    """How the models were trained, for captions."""
    minutes, side = _minutes(setting), image_size(setting)
    data = "CIFAR-10" if setting.cifar10 is not None else "drawings of shapes"
    length, mode, batch = "50 epochs", "by the paper's budgets", 128
    if minutes is not None:
        length = f"{minutes:g} minutes" if minutes >= 1 else f"{60 * minutes:g} seconds"
        mode, batch = "in the recommended mode", 64
    return (
        f"{length} of training each on {data} at {side}x{side}, without augmentation; batches of "
        f"{batch}, Adam at 0.001, one seed, equilibria {mode}"
    )


def _accuracy(figures: dict[str, Any]) -> float:
    return 100 * float(figures["classification"]["top1"])


def _minutes(setting: Setting) -> float | None:
    return setting.pick(QUICK_MINUTES, None) if setting.minutes is None else setting.minutes


def _folder(name: str, setting: Setting) -> Path:
    """Of a run of the same origin, or a new one."""
    minutes = _minutes(setting)
    length = "paper" if minutes is None else f"{minutes:g}-minutes"
    kind = f"{name}-{_dataset(setting)['name']}-{image_size(setting)}-{length}"
    for number in itertools.count(1):
        folder = setting.output / "runs" / (kind if number == 1 else f"{kind}-{number}")
        origin = folder / ORIGIN
        if not folder.exists() or (
            origin.exists() and json.loads(origin.read_text()) == setting.origin("cifar10")
        ):
            return folder
    raise AssertionError  # the numbers do not end


def _dataset(setting: Setting) -> dict[str, Any]:
    """Held-out images make the curves."""
    held_out, size = setting.pick(300, 1000), {"image_size": image_size(setting)}
    if setting.cifar10 is not None:
        return {"name": "cifar10", "holdout": held_out, **size}
    return {"name": "shapes", "val": held_out, **size}


def _recipe(name: str, setting: Setting) -> Recipe:
    """The paper's recipe for its small model: whole, or cut down to the time that there is."""
    values = read_yaml(recipe_file("cifar10-small").read_text())
    values |= {"dataset": _dataset(setting), "data": setting.cifar10, "description": ""}
    values |= {"tasks": {"classification": 1.0}, "model": {"name": name}}
    config = configure(name)
    solved, minutes = isinstance(config, MDEQConfig), _minutes(setting)
    if isinstance(config, NeuralODEConfig):  # whose classifier sees every pixel
        values["model"]["image_size"] = image_size(setting)
    if not solved or minutes is not None:
        del values["softplus"]
    if minutes is None:
        return Recipe.of(values)
    if solved:
        values["model"]["name"] = f"fast:{name}"
    values["batch_size"] = 64
    pilot = Trainer(Recipe.of(values), create_accelerator())
    every = max(1, round(60 * minutes / pilot.pace(60 * minutes * PILOT) / LOOKS))
    looks = {"evaluation": {"every": f"{every} steps"}}
    return Recipe.of({**values, **looks, "length": f"{LOOKS * every} steps"})
