"""Make the last weights of a run part of the package, with a card that says what they are.

    mdeq evaluate RUN --solver.max_steps 30 --json FIGURES.json
    .venv/bin/python tools/ship.py RUN NAME RECIPE FIGURES.json COMMIT

NAME is one of `mdeq.models.SHIPPED`; COMMIT is that of the code that trained the run by RECIPE.
What ships is what was measured: the weights with the solver that FIGURES.json names.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from mdeq.engine import open_bundle
from mdeq.engine.bundle import Bundle
from mdeq.implicit import evaluations_after
from mdeq.models import FIGURES, MDEQ, SHIPPED, Model, shipped_folder

CARD = """---
library_name: mdeq
license: mit
tags:
- deep-equilibrium
---

# {name}: {preset}, trained on {dataset}

    mdeq predict {name} PICTURE
    mdeq evaluate {name} --data DIR
    model = mdeq.create_model("{preset}", pretrained=True)

| | |
| --- | --- |
| data | {dataset}, {images} training images |
| recipe | `mdeq train {recipe} --data DIR`, seed {seed}, {steps} steps |
| code | commit {commit} |
| parameters | {parameters:,} |
| solver | {solver}, at most {budget} evaluations of f{after}; in training {trained} |
{figures}
| licence | MIT, as the code; the images have terms of their own |
"""


def card(
    bundle: Bundle, run: Path, name: str, recipe: str, figures: dict[str, Any], commit: str
) -> str:
    """What a user should know of the weights."""
    trained = yaml.safe_load((run / "recipe.yaml").read_text())
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    model = bundle.model
    assert isinstance(model, MDEQ)
    after = evaluations_after(model.backward)
    part = bundle.parts[0]
    return CARD.format(
        name=name,
        preset=SHIPPED[name],
        dataset=part.dataset["name"],
        images=figures["training_images"],
        recipe=recipe,
        seed=trained["seed"],
        steps=records[-1]["step"],
        commit=commit,
        parameters=figures["parameters"],
        solver=model.config.solver.solver,
        budget=model.config.solver.max_steps,
        trained=trained["model"]["solver"]["max_steps"],
        after=f", then {after} more" if after else "",
        figures="\n".join(f"| {what} | {value} |" for what, value in _rows(figures)),
    )


def _rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    on = f"{figures['split']} split, {figures['examples']:,} images"
    if "classification" in figures:
        rows.append((f"accuracy, {on}", f"{100 * figures['classification']['top1']:.2f} %"))
    if "segmentation" in figures:
        rows.append((f"mIoU, {on}", f"{100 * figures['segmentation']['miou']:.2f} %"))
    solved = figures["equilibrium"]
    residual = f"{solved['residual']:.2g}, by {solved['steps']:.1f} evaluations"
    rows.append(("residual of f there", residual))
    return rows


def _with_solver(model: Model, solver: dict[str, Any]) -> MDEQ:
    assert isinstance(model, MDEQ)
    measured = MDEQ(model.config.override(solver=solver))
    measured.load_state_dict(model.state_dict())
    return measured.eval()


def main(run: str, name: str, recipe: str, figures_file: str, commit: str) -> None:
    """Copy, forget where the data were, write the card."""
    bundle = open_bundle(run)
    figures = json.loads(Path(figures_file).read_text())
    bundle = replace(bundle, model=_with_solver(bundle.model, figures["solver"]))
    examples = bundle.parts[0].examples("train")
    figures["training_images"] = len(examples)
    folder = shipped_folder(name)
    folder.parent.mkdir(exist_ok=True)
    text = card(bundle, Path(run), name, recipe, figures, commit)
    replace(bundle, parts=[replace(part, data=None) for part in bundle.parts]).save(folder)
    (folder / "README.md").write_text(text)
    (folder / FIGURES).write_text(json.dumps(figures, indent=2) + "\n")
    print(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
