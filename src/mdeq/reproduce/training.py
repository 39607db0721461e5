"""Models that a comparison needs trained: alike, once, and found again after that."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdeq.engine import Recipe, Trainer, create_accelerator, read_yaml, recipe_file
from mdeq.engine.run import METRICS, RECIPE, Run
from mdeq.models import MDEQConfig, NeuralODEConfig, configure
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
TEST = "test.json"


def trained(model: str, setting: Setting) -> Path:
    """The folder of a run of the model; one that was interrupted goes on."""
    minutes = _minutes(setting)
    length = "50-epochs" if minutes is None else f"{minutes:g}-minutes"
    data = f"{_dataset(setting)['name']}-{image_size(setting)}"
    folder = setting.output / "runs" / f"{model}-{data}-{length}"
    begun = (folder / RECIPE).exists()
    if begun:
        recipe = replace(Recipe.of(read_yaml((folder / RECIPE).read_text())), data=setting.cifar10)
    else:
        recipe = _recipe(model, setting)
    trainer = Trainer(recipe, create_accelerator())
    run = Run(folder) if begun else Run.create(model, str(folder))
    try:
        if not begun:
            run.write(RECIPE, trainer.recipe.to_yaml())
        trainer.enter(run)
        trainer.resume()
        if trainer.progress.step < trainer.total:
            trainer.journal.say(f"{MODELS[model]}: {trainer.total} steps, in {folder}")
            try:
                trainer.train()
            finally:
                trainer.journal.close()
        if setting.budget == "full" and not (folder / TEST).exists():
            run.write(TEST, json.dumps(trainer.test(), indent=2))
    finally:
        run.close()
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    """What a run wrote down."""
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def image_size(setting: Setting) -> int:
    """Height and width of the images: an ODE takes seconds for a batch of full size."""
    return setting.pick(16, 32)


def described(setting: Setting) -> str:
    """How the models were trained, for captions."""
    minutes, side = _minutes(setting), image_size(setting)
    data = "CIFAR-10" if setting.cifar10 is not None else "drawings of shapes"
    data += f" at {side}x{side}"
    if minutes is None:
        return f"50 epochs of {data}, Adam, equilibria by the paper's budgets"
    time = f"{minutes:g} minutes" if minutes >= 1 else f"{60 * minutes:g} seconds"
    return (
        f"{time} of training each on {data}, without augmentation; batches of 64, Adam at 0.001, "
        "one seed, equilibria in the recommended mode"
    )


def _minutes(setting: Setting) -> float | None:
    return setting.pick(QUICK_MINUTES, None) if setting.minutes is None else setting.minutes


def _dataset(setting: Setting) -> dict[str, Any]:
    """Held-out images make the curves."""
    held_out, size = setting.pick(300, 1000), {"image_size": image_size(setting)}
    if setting.cifar10 is not None:
        return {"name": "cifar10", "holdout": held_out, **size}
    return {"name": "shapes", "val": held_out, **size}


def _recipe(model: str, setting: Setting) -> Recipe:
    """The paper's recipe for its small model: whole, or cut down to the time that there is."""
    values = read_yaml(recipe_file("cifar10-small").read_text())
    values |= {"dataset": _dataset(setting), "data": setting.cifar10, "description": ""}
    values |= {"tasks": {"classification": 1.0}, "model": {"name": model}}
    config = configure(model)
    solved, minutes = isinstance(config, MDEQConfig), _minutes(setting)
    if isinstance(config, NeuralODEConfig):  # whose classifier sees every pixel
        values["model"]["image_size"] = image_size(setting)
    if minutes is None:
        if not solved:
            del values["softplus"]
        return Recipe.of(values)
    del values["softplus"]
    if solved:
        values["model"]["name"] = f"fast:{model}"
    values["batch_size"] = 64
    pilot = Trainer(Recipe.of(values), create_accelerator())
    steps = max(LOOKS, round(60 * minutes / pilot.pace(60 * minutes * PILOT)))
    looks = {"evaluation": {"every": f"{-(-steps // LOOKS)} steps"}}
    return Recipe.of({**values, **looks, "length": f"{steps} steps"})
