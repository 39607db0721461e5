"""A run from beginning to end, for the command line and for scripts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from mdeq.data import write_image
from mdeq.engine.bundle import LAST
from mdeq.engine.devices import create_accelerator
from mdeq.engine.journal import describe, spoken_time
from mdeq.engine.recipe import Recipe, read_yaml
from mdeq.engine.run import METRICS, RECIPE, SUMMARY, TENSORBOARD, Run
from mdeq.engine.trainer import Trainer

SAMPLES = "samples"


def start_run(recipe: Recipe, *, name: str, output: str | None = None) -> dict[str, Any]:
    """Train in a new folder, `output` or the next free one in runs/; the final figures."""
    trainer = Trainer(recipe, create_accelerator())
    if trainer.accelerator.is_main_process:
        run = Run.create(name, output)
        run.write(RECIPE, trainer.recipe.to_yaml())
        trainer.enter(run)
    return _complete(trainer)


def resume_run(folder: str, *, data: str | None = None) -> dict[str, Any]:
    """Go on with a run exactly where its last checkpoint is; the final figures."""
    file = Path(folder) / RECIPE
    if not file.is_file():
        raise ValueError(f"{folder} holds no run: it has no {RECIPE}; nothing to resume")
    try:
        recipe = Recipe.of(read_yaml(file.read_text()))
    except (yaml.YAMLError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    if data is not None:
        recipe = replace(recipe, data=data)
    trainer = Trainer(recipe, create_accelerator())
    if trainer.accelerator.is_main_process:
        trainer.enter(Run(Path(folder)))
    trainer.resume()
    return _complete(trainer)


def figures_table(figures: dict[str, Any]) -> str:
    """The figures of an evaluation, one a line."""
    rows = [("split", f"{figures['split']}, {figures['examples']:,} images")]
    if "classification" in figures:
        rows += [
            (name, f"{100 * figures['classification'][key]:.2f} %")
            for key, name in (("top1", "accuracy"), ("top5", "top-5 accuracy"))
        ]
    if "segmentation" in figures:
        rows.append(("mIoU", f"{100 * figures['segmentation']['miou']:.2f} %"))
        rows += [
            (f"  {name}", "absent" if value is None else f"{100 * value:.2f} %")
            for name, value in figures["segmentation"]["iou"].items()
        ]
    solver = figures["equilibrium"]
    rows += [
        ("residual of f", f"{solver['residual']:.2g}"),
        ("evaluations of f", f"{solver['steps']:.1f}"),
        ("parameters", f"{figures['parameters']:,}"),
        ("time", spoken_time(figures["seconds"])),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _complete(trainer: Trainer) -> dict[str, Any]:
    accelerator, run, journal = trainer.accelerator, trainer.run, trainer.journal
    if run is not None:
        parameters = sum(p.numel() for p in trainer.learner.model.parameters())
        journal.say(
            f"training {trainer.recipe.model['name']} ({parameters:,} parameters) on "
            f"{trainer.recipe.dataset['name']} for {trainer.total} steps of "
            f"{trainer.recipe.batch_size} images; everything goes into {run.folder}"
        )
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


def _summarise(trainer: Trainer, run: Run, figures: dict[str, Any]) -> None:
    """The table, the picture, a few images to try, and what to type next."""
    from mdeq.engine.pictures import save_summary  # matplotlib is slow to import

    examples = trainer.examples[figures["split"]]
    save_summary(
        run.file(SUMMARY),
        list(run.records()),
        trainer.learner.judged.eval(),
        examples,
        trainer.classes,
        f"{trainer.recipe.model['name']} on {trainer.recipe.dataset['name']}: "
        + ", ".join(describe(figures)),
    )
    run.file(SAMPLES).mkdir(exist_ok=True)
    for index in range(min(4, len(examples))):
        image = examples[0, index]["image"]  # type: ignore[index]
        write_image(run.file(SAMPLES) / f"{index}.png", image)
    print()
    print(figures_table(figures))
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
    print(f"try it:           mdeq predict {run.folder} {run.file(SAMPLES) / '0.png'}")
    print("on your images:   mdeq train folder --data DIR   (DIR/train/CLASS/*.jpg)")
