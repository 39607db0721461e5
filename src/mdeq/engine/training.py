"""A run from beginning to end, for the command line and for scripts."""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from mdeq.data import write_image
from mdeq.engine.bundle import LAST, model_folder
from mdeq.engine.devices import create_accelerator
from mdeq.engine.journal import describe, spoken_time
from mdeq.engine.recipe import Recipe, read_yaml
from mdeq.engine.run import METRICS, RECIPE, SUMMARY, TENSORBOARD, Run
from mdeq.engine.trainer import Trainer
from mdeq.models import load

SAMPLES = "samples"


def start_run(recipe: Recipe, *, name: str, output: str | None = None) -> dict[str, Any]:
    """Train in a new folder, `output` or the next free one in runs/; the final figures."""
    trainer = Trainer(recipe, create_accelerator(parts_at_rest=bool(recipe.second)))
    transfer = None
    if recipe.init is not None:
        transfer = trainer.learner.begin_with(load(model_folder(recipe.init)), recipe.init)
    if trainer.accelerator.is_main_process:
        run = Run.create(name, output)
        run.write(RECIPE, trainer.recipe.to_yaml())
        trainer.enter(run)
    if transfer is not None:
        trainer.save()  # so that a run that is killed early goes on from there too
        trainer.journal.say(f"from {recipe.init}: {transfer}")
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
    trainer.resume()
    return _complete(trainer)


def figures_table(figures: dict[str, Any], classes: Mapping[str, list[str]]) -> str:
    """The figures of an evaluation, one a line."""
    seen = " that it was trained on" if "train" in figures["split"] else ""
    rows = [("split", f"{figures['split']}, {figures['examples']:,} images{seen}")]
    if "classification" in figures:
        rows.append(("accuracy", f"{100 * figures['classification']['top1']:.2f} %"))
        if len(classes["classification"]) > 5:
            rows.append(("top-5 accuracy", f"{100 * figures['classification']['top5']:.2f} %"))
    if "segmentation" in figures:
        rows.append(("mIoU", f"{100 * figures['segmentation']['miou']:.2f} %"))
        rows += [
            (f"  {name}", "absent" if value is None else f"{100 * value:.2f} %")
            for name, value in figures["segmentation"]["iou"].items()
        ]
    if "equilibrium" in figures:
        solver = figures["equilibrium"]
        rows.append(("residual of f", f"{solver['residual']:.2g}"))
        rows.append(("evaluations of f", f"{solver['steps']:.1f}"))
    rows += [
        ("parameters", f"{figures['parameters']:,}"),
        (
            "training time" if "evaluation_seconds" in figures else "evaluation time",
            spoken_time(figures["seconds"]),
        ),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


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
    return (
        f"training {trainer.recipe.model['name']} ({parameters:,} parameters) on "
        f"{trainer.recipe.dataset['name']} for {total} steps of {trainer.recipe.batch_size} images"
        f"{f', going on from step {done}' if done else ''}; everything goes into {run.folder}"
    )


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
