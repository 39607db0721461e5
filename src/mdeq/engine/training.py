"""A run from beginning to end, for the command line and for scripts."""

import json
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from mdeq.data import write_image
from mdeq.engine.devices import create_accelerator
from mdeq.engine.material import check_masks
from mdeq.engine.recipe import Recipe, read_yaml
from mdeq.engine.report import describe, figures_table
from mdeq.engine.run import METRICS, RECIPE, SUMMARY, TENSORBOARD, Run, last_unfinished
from mdeq.engine.trainer import Trainer
from mdeq.models import LAST, Transfer, configure, load, model_folder

SAMPLES = "samples"
TRANSFER = "transfer.json"


def start_run(recipe: Recipe, *, name: str, output: str | None = None) -> dict[str, Any]:
    """Train in a new folder, `output` or the next free one in runs/; the final figures."""
    trainer = Trainer(recipe, create_accelerator(parts_at_rest=bool(recipe.second)))
    transfer = _begin(trainer)
    if trainer.accelerator.is_main_process:
        check_masks(trainer.materials)
        before = last_unfinished(name) if output is None else None
        run = Run.create(name, output)
        run.write(RECIPE, trainer.recipe.to_yaml())
        if transfer is not None:
            run.write(TRANSFER, json.dumps(asdict(transfer), indent=2))
        trainer.enter(run)
        if before is not None:
            trainer.journal.say(
                f"note: {before} has not come to its end; to go on with it instead, say "
                f"{_command()} train --resume {before}"
            )
    if transfer is not None:
        trainer.save()  # the other model may be gone when the run goes on
        trainer.journal.say(f"from {recipe.init}: {transfer}; every name is in {TRANSFER}")
    return _complete(trainer)


def resume_run(
    folder: str, *, data: str | None = None, second_data: str | None = None
) -> dict[str, Any]:
    """Go on with a run exactly where its last checkpoint is; the final figures.

    The data may have moved, to `data`, and those of a second dataset to `second_data`.
    """
    file = Path(folder) / RECIPE
    if not file.is_file():
        raise ValueError(f"{folder} holds no run: it has no {RECIPE}; nothing to resume")
    try:
        recipe = Recipe.of(read_yaml(file.read_text()))
    except (yaml.YAMLError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    if data is not None:
        recipe = replace(recipe, data=data)
    if second_data is not None:
        if not recipe.second:
            raise ValueError(f"second.data is {second_data}, but the run has one dataset")
        recipe = replace(recipe, second={**recipe.second, "data": str(second_data)})
    trainer = Trainer(recipe, create_accelerator(parts_at_rest=bool(recipe.second)))
    if trainer.accelerator.is_main_process:
        trainer.enter(Run(Path(folder)))
    if not trainer.resume():
        _begin(trainer)
    return _complete(trainer)


def _begin(trainer: Trainer) -> Transfer | None:
    """Take over the backbone that the recipe names, if it names one."""
    init = trainer.recipe.init
    return None if init is None else trainer.learner.begin_with(load(model_folder(init)), init)


def _complete(trainer: Trainer) -> dict[str, Any]:
    accelerator, run, journal = trainer.accelerator, trainer.run, trainer.journal
    if run is not None:
        journal.say(_announcement(trainer, run))
    try:
        trainer.train()
        figures = trainer.test()
    finally:
        journal.close()
    if run is not None:
        _summarise(trainer, run, figures)
        run.close()
    accelerator.wait_for_everyone()
    accelerator.end_training()
    return figures


def _announcement(trainer: Trainer, run: Run) -> str:
    done, total = trainer.progress.step, trainer.total
    if done == total:
        return f"the run in {run.folder} is finished, with {total} steps; evaluating it again"
    parameters = sum(p.numel() for p in trainer.learner.model.parameters())
    words = [
        f"training {trainer.recipe.model['name']} ({parameters:,} parameters"
        f"{_changed(trainer)}) on {trainer.recipe.dataset['name']} "
        f"for {total} steps of {trainer.recipe.batch_size} images"
        f"{f', going on from step {done}' if done else ''}; everything goes into {run.folder}"
    ]
    words += [
        f"note: {material.name} has no val and no test split, so the figures will be of images "
        "that it was trained on"
        for material in trainer.materials
        if material.last_split() == "train"
    ]
    return "\n".join(words)


def _changed(trainer: Trainer) -> str:
    """What the model has otherwise than its preset, but for the heads of its tasks."""
    preset = configure(trainer.recipe.model["name"]).to_dict()
    own = trainer.learner.model.config.to_dict()
    names = [name for name in own if own[name] != preset[name] and name != "tasks"]
    return f"; not as the preset: {', '.join(names)}" if names else ""


def _command() -> str:
    """How the user can call `mdeq`: by its name, if the shell finds it, or as it was called."""
    return "mdeq" if shutil.which("mdeq") or Path(sys.argv[0]).name != "mdeq" else sys.argv[0]


def _summarise(trainer: Trainer, run: Run, figures: dict[str, Any]) -> None:
    """The table, the picture, a few images to try, and what to type next."""
    from mdeq.engine.pictures import save_summary  # matplotlib is slow to import

    print()
    print(figures_table(figures, trainer.classes), flush=True)
    material = trainer.materials[0]
    examples = material.examples[material.last_split()]
    save_summary(
        run.file(SUMMARY),
        list(run.records()),
        trainer.learner.judged.eval(),
        examples,
        trainer.classes_of(material),
        trainer.colours,
        f"{trainer.recipe.model['name']} on {trainer.recipe.dataset['name']}, {figures['split']} "
        "split: " + ", ".join(describe(figures)),
        window=trainer.window_of(material),
    )
    run.file(SAMPLES).mkdir(exist_ok=True)
    for index in range(min(4, len(examples))):
        image = examples[0, index]["image"]  # type: ignore[index]
        write_image(run.file(SAMPLES) / f"{index}.png", image)
    print()
    for what, name in (
        ("picture", SUMMARY),
        ("model", LAST),
        ("metrics", METRICS),
        ("recipe", RECIPE),
        ("curves", TENSORBOARD),
    ):
        print(f"{what:8} {run.file(name)}")
    print()
    mdeq = _command()
    print(f"try it:          {mdeq} predict {run.folder} {run.file(SAMPLES) / '0.png'}")
    if trainer.recipe.dataset["name"] == "shapes":
        print(f"on your images:  {mdeq} train folder --data DIR   (DIR/train/CLASS/*.jpg)")
