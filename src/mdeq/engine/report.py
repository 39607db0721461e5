"""The figures of an evaluation, for people to read."""

from collections.abc import Mapping, Sequence
from typing import Any


def figures_table(figures: dict[str, Any], classes: Mapping[str, list[str]]) -> str:
    """The figures of an evaluation, one a line."""
    seen = " that it was trained on" if "train" in figures["split"] else ""
    rows = [("split", f"{figures['split']}, {figures['examples']:,} images{seen}")]
    if "classification" in figures:
        rows.append(("accuracy", f"{100 * figures['classification']['top1']:.2f} %"))
        if len(classes["classification"]) > 5:
            rows.append(("top-5 accuracy", f"{100 * figures['classification']['top5']:.2f} %"))
    if "segmentation" in figures:
        rows.append(("pixels", f"{100 * figures['segmentation']['pixel_accuracy']:.2f} %"))
        rows.append(("mIoU", f"{100 * figures['segmentation']['miou']:.2f} %"))
        rows += [
            (f"  {name}", "absent" if value is None else f"{100 * value:.2f} %")
            for name, value in figures["segmentation"]["iou"].items()
        ]
    if "equilibrium" in figures:
        solver = figures["equilibrium"]
        rows.append(("evaluations of f", f"{solver['steps']:.1f}"))
        rows.append(("residual of f", f"{solver['residual']:.2g}, {_share_at_equilibrium(solver)}"))
    rows += [
        ("parameters", f"{figures['parameters']:,}"),
        (
            "training time" if "evaluation_seconds" in figures else "evaluation time",
            spoken_time(figures["seconds"]),
        ),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def budgets_table(rows: Sequence[Mapping[str, Any]], after: int) -> str:
    """How the figures depend on the evaluations of f that the solver may take.

    Args:
        rows: Figures with the `max_steps` that they were measured at.
        after: Evaluations that follow every solve.
    """
    named = (("classification", "top1", "accuracy"), ("segmentation", "miou", "mIoU"))
    shown = [(task, figure, name) for task, figure, name in named if task in rows[0]]
    titles = "".join(f"  {name:>8}" for _, _, name in shown)
    lines = [f"at most  took  residual  at equilibrium{titles}"]
    for row in rows:
        solver = row["equilibrium"]
        scores = "".join(f"  {100 * row[task][figure]:6.2f} %" for task, figure, _ in shown)
        lines.append(
            f"{row['max_steps']:7}  {solver['steps']:4.1f}  {solver['residual']:8.2g}  "
            f"{100 * solver['converged']:12.1f} %{scores}"
        )
    if after:
        lines.append(f"evaluations of f by the solver; {after} more follow every solve")
    return "\n".join(lines)


def describe(figures: dict[str, Any]) -> list[str]:
    """The figures of an evaluation in words."""
    words = []
    if "classification" in figures:
        words.append(f"accuracy {100 * figures['classification']['top1']:.1f} %")
    if "segmentation" in figures:
        words.append(f"mIoU {100 * figures['segmentation']['miou']:.1f} %")
    if "equilibrium" in figures:
        solver = figures["equilibrium"]
        words.append(
            f"residual {solver['residual']:.2g} after {solver['steps']:.3g} evaluations of f"
        )
    return words


def spoken_time(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _share_at_equilibrium(solver: Mapping[str, float]) -> str:
    """How many answers were given at an equilibrium: a budget may end a solve before it."""
    share, tolerance = solver["converged"], solver["tolerance"]
    if share == 0:
        return f"not an equilibrium: no image reached {tolerance:g}"
    return f"{100 * share:.4g} % of the images at an equilibrium (up to {tolerance:g})"
