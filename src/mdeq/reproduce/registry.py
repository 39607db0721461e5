"""Everything that can be reproduced, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from matplotlib.figure import Figure

from mdeq.reproduce import (
    convergence,
    dynamics,
    efficiency,
    memory,
    multiscale,
    qualitative,
    tables,
)
from mdeq.reproduce.outcome import Outcome, page, save_picture
from mdeq.reproduce.paper import TABLES
from mdeq.reproduce.setting import Setting

PAGE = "results.md"


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A table or a figure of the paper.

    Attributes:
        about: One line for the list.
        measure: Does the work.
        draw: Makes the picture of what was found.
        options: That it depends on, besides the budget.
        kept: Whether an outcome of the same code, data and options is shown again; tables are
            not, since a run may have ended since.
    """

    about: str
    measure: Callable[[Setting], Outcome]
    draw: Callable[[Outcome], Figure]
    options: tuple[str, ...] = ()
    kept: bool = True


def _table(name: str) -> Reproduction:
    return Reproduction(
        about=f"table: {TABLES[name].title}",
        measure=partial(tables.look_up, TABLES[name]),
        draw=tables.draw,
        options=("runs",),
        kept=False,
    )


REPRODUCTIONS: Mapping[str, Reproduction] = MappingProxyType(
    {
        **{name: _table(name) for name in TABLES},
        "dynamics": Reproduction(
            about="figure 4a: accuracy against epochs of implicit models",
            measure=dynamics.measure,
            draw=dynamics.draw,
            options=("cifar10", "minutes"),
        ),
        "efficiency": Reproduction(
            about="figure 4b: time and memory of a training step",
            measure=efficiency.measure,
            draw=efficiency.draw,
        ),
        "convergence": Reproduction(
            about="figure 5: convergence by solver and size of image",
            measure=convergence.measure,
            draw=convergence.draw,
            options=("cifar10", "camvid"),
        ),
        "multiscale": Reproduction(
            about="appendix: convergence of every scale, and of a single one",
            measure=multiscale.measure,
            draw=multiscale.draw,
            options=("cifar10", "minutes"),
        ),
        "memory": Reproduction(
            about="memory of a training step against depth",
            measure=memory.measure,
            draw=memory.draw,
        ),
        "qualitative": Reproduction(
            about="appendix: street scenes, segmented",
            measure=qualitative.measure,
            draw=qualitative.draw,
            options=("camvid",),
        ),
    }
)


def reproduce(name: str, setting: Setting) -> tuple[Outcome, bool]:
    """Measure and draw, or find what was measured before; whether it was found.

    Leaves NAME.json and NAME.png in the folder of the budget, and all that was found so far in
    one page, results.md.
    """
    reproduction = REPRODUCTIONS[name]
    made = setting.made(name, reproduction.options)
    folder = setting.output / setting.budget
    folder.mkdir(parents=True, exist_ok=True)
    file, picture = folder / f"{name}.json", folder / f"{name}.png"
    before = Outcome.read(file) if reproduction.kept and picture.exists() else None
    if before is not None and before.made == made:
        return before, True
    outcome = replace(reproduction.measure(setting), made=made)
    file.unlink(missing_ok=True)  # a picture is never beside the figures of another
    save_picture(reproduction.draw(outcome), outcome.caption, picture)
    outcome.save(file)
    _write_page(setting)
    return outcome, False


def _write_page(setting: Setting) -> None:
    folder = setting.output / setting.budget
    outcomes = {
        f"{name}.png": outcome
        for name in REPRODUCTIONS
        if (outcome := Outcome.read(folder / f"{name}.json")) is not None
    }
    (folder / PAGE).write_text(page(outcomes))
