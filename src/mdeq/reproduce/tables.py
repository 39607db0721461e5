"""The paper's tables of results: what was published, what was trained here, how to train it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure

from mdeq.data import create_source
from mdeq.engine import Recipe, read_yaml
from mdeq.engine.run import METRICS, RECIPE, SUMMARY, read_records
from mdeq.models import FIGURES, SHIPPED, configure, count_parameters, shipped_folder
from mdeq.reproduce.outcome import Outcome
from mdeq.reproduce.paper import Entry, Table
from mdeq.reproduce.setting import Setting


def look_up(table: Table, setting: Setting) -> Outcome:
    """The table with our figures: of the runs in a folder, or of weights that ship."""
    rows, figures, runs = [], [], setting.runs
    for entry in setting.each(table.entries, table.dataset):
        parameters = None if entry.model is None else count_parameters(configure(entry.model))
        ours, where = _ours(table, entry, parameters, runs)
        deviation = "" if entry.deviation is None else f" ± {entry.deviation}"
        rows.append(
            [
                entry.name,
                "" if entry.size is None else f"{entry.size:g} M",
                _millions(entry, parameters),
                *(f"{score:.1f}{deviation}" for score in entry.scores),
                *(f"{score:.2f}" for score in ours or ()),
                *([] if ours else [""] * len(table.scores)),
                where or table.command(entry) or "",
                f"{entry.source}{entry.note and '; our size: '}{entry.note}",
            ]
        )
        figures.append({**asdict(entry), "parameters": parameters, "ours": ours, "where": where})
    return Outcome(
        title=table.title,
        caption=f"Published figures are the paper's; ours, where there are any, are of the runs in "
        f"{runs}/ and of what ships.",
        columns=[
            "",
            "size",
            "our size",
            *(f"{score}, %" for score in table.scores),
            *(f"our {score}" for score in table.scores),
            "where ours is, or what trains it",
            "the paper cites",
        ],
        rows=rows,
        figures={"score": next(iter(table.scores)), "entries": figures},
    )


def draw(outcome: Outcome) -> Figure:
    """A dot at every published score, and a star where ours is."""
    entries = outcome.figures["entries"]
    figure = Figure(figsize=(8, 1.4 + 0.3 * len(entries)), layout="constrained")
    axes = figure.subplots()
    titles = {"#0072B2": "MDEQ, published", "0.5": "others, published", "#D55E00": "ours"}
    for place, entry in enumerate(reversed(entries)):
        colour = "#0072B2" if "MDEQ" in entry["name"] else "0.5"
        marks = [(entry["scores"][0], "o", colour)]
        if entry["ours"]:
            marks.append((entry["ours"][0], "*", "#D55E00"))
        # The lower one has its figure on the left, the other on the right.
        for offset, (score, marker, colour) in zip((-36, 9), sorted(marks), strict=False):
            label = titles.pop(colour, None)  # once for every colour
            axes.plot(score, place, marker, color=colour, markersize=9, linestyle="", label=label)
            axes.annotate(
                f"{score:.2f}" if marker == "*" else f"{score:.1f}",
                (score, place),
                xytext=(offset, -3),
                textcoords="offset points",
                fontsize=9,
                color=colour,
            )
    names = [f"{e['name']} ({e['size']:g} M)" if e["size"] else e["name"] for e in entries]
    axes.set_yticks(range(len(names)), reversed(names), fontsize=9)
    axes.set(xlabel=f"{outcome.figures['score']}, %", title=outcome.title)
    axes.margins(x=0.12)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, fontsize=9)
    return figure


def _millions(entry: Entry, parameters: int | None) -> str:
    if parameters is None:
        return "" if entry.model is None else "library not installed"
    return f"{parameters / 1e6:.3g} M"


def _ours(
    table: Table, entry: Entry, parameters: int | None, runs: Path
) -> tuple[list[float] | None, str]:
    """Our scores in percent, and where they are from: the newest finished run, or what ships."""
    finished = [file.parent for file in runs.glob(f"*/{SUMMARY}")]
    for run in sorted(finished, key=lambda run: (run / SUMMARY).stat().st_mtime, reverse=True):
        try:
            recipe = Recipe.of(read_yaml((run / RECIPE).read_text()))
        except (yaml.YAMLError, ValueError, TypeError, AttributeError, OSError):
            continue  # damaged, or of another version of this package
        if _is_of(recipe, table, entry) and count_parameters(recipe.model_config({})) == parameters:
            looks = list(read_records(run / METRICS))
            split = "test" if any("test" in look for look in looks) else "val"
            scores = [look[split] for look in looks if split in look]
            if scores:
                mode = ", recommended mode" if recipe.model["name"].startswith("fast:") else ""
                return _percent(scores[-1], table), f"{run} ({split}, {recipe.length}{mode})"
    for name, preset in SHIPPED.items():
        file = shipped_folder(name) / FIGURES
        if preset == entry.model and name == table.dataset and file.exists():
            return _percent(json.loads(file.read_text()), table), f"ships as {name}"
    return None, ""


def _is_of(recipe: Recipe, table: Table, entry: Entry) -> bool:
    """Whether a run trained this network on these data, as the table has it."""
    return (
        recipe.model["name"].removeprefix("fast:") == entry.model
        and recipe.dataset["name"] == table.dataset
        and getattr(recipe.source, "image_size", None)
        == getattr(create_source(name=table.dataset), "image_size", None)
        and (table.dataset != "cifar10" or recipe.source.augment == ("augmented" in entry.name))
    )


def _percent(figures: dict[str, Any], table: Table) -> list[float]:
    return [100 * figures[table.task][figure] for figure in table.scores.values()]
