"""Figure 5: relative change of z against evaluations of f, by solver and size of image."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from mdeq.models import MDEQ, configure, create_model
from mdeq.reproduce.changes import (
    NEVER,
    SETTLED,
    as_curve,
    bounded,
    evaluations_until,
    in_words,
    relative_changes,
    rising,
)
from mdeq.reproduce.images import BATCHES, STREET, cifar10_batches, street_batches
from mdeq.reproduce.outcome import Claim, Outcome
from mdeq.reproduce.setting import Setting
from mdeq.solvers import SolverConfig

SOLVERS = {
    "broyden": ("Broyden", "#0072B2"),
    "anderson": ("Anderson", "#009E73"),
    "picard": ("plain iteration", "#E69F00"),
}
ANDERSON_MEMORY = 10
WEIGHTS = ("random", "trained")
Batches = tuple[list[Tensor], str]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One size of image: the model, its images and how long it is solved for."""

    model: str
    size: tuple[int, int]
    evaluations: int
    batches: Callable[[Setting], Batches]

    @property
    def title(self) -> str:
        """Of its part of the picture."""
        return f"{self.model}, {self.pixels}"

    @property
    def pixels(self) -> str:
        """Width and height."""
        return f"{self.size[1]}x{self.size[0]}"


def _streets(size: tuple[int, int], evaluations: int) -> Panel:
    return Panel(
        model="mdeq_camvid",
        size=size,
        evaluations=evaluations,
        batches=lambda setting: street_batches(setting, *size),
    )


PANELS = (
    Panel(model="mdeq_cifar10_small", size=(32, 32), evaluations=30, batches=cifar10_batches),
    _streets((192, 256), 60),
    _streets(STREET, 120),
)
GROWING = (_streets((96, 128), 60), *PANELS[1:])
"""The same pictures in three sizes, for one model: do they need more steps?"""


def measure(setting: Setting) -> Outcome:
    """Solve for five batches of every size, with every solver, before and after training."""
    work = [(panel, weights, solver) for panel in PANELS for weights in WEIGHTS
            for solver in SOLVERS]  # fmt: skip
    work.append((GROWING[0], "trained", "broyden"))
    images = {panel.title: panel.batches(setting) for panel in {*PANELS, *GROWING}}
    curves = {}
    for panel, weights, solver in setting.each(work, "convergence"):
        batches, _ = images[panel.title]
        curves[_key(panel, weights, solver)] = _curve(setting, panel, weights, solver, batches)
    needed = {key: evaluations_until(curve["mean"]) for key, curve in curves.items()}
    words = [f"{len(images[p.title][0][0])} {images[p.title][1]}" for p in PANELS]
    memories = [str(_solver(panel, "broyden").memory) for panel in PANELS[:2]]
    return Outcome(
        title="Convergence to the equilibrium (figure 5)",
        caption=f"Mean and deviation over {BATCHES} batches, each of "
        f"{' or '.join(dict.fromkeys(words))}; random weights and those that ship (cifar10, "
        f"camvid); Broyden keeps {' or '.join(memories)} updates, Anderson {ANDERSON_MEMORY}; "
        f"float32 on {setting.machine}. Dotted: {SETTLED}. Shaded: the deviation, down to a tenth "
        "of the mean.",
        columns=[
            "",
            "weights",
            "solver",
            f"evaluations to stay below {SETTLED}",
            "change at the end",
        ],
        rows=[
            [
                panel.title,
                weights,
                SOLVERS[solver][0],
                in_words(needed[_key(panel, weights, solver)], panel.evaluations),
                "not finite" if last is None else f"{last:.2g}",
            ]
            for panel, weights, solver in work
            for last in [curves[_key(panel, weights, solver)]["mean"][-1]]
        ],
        claims=[
            steadier(
                {
                    f"{panel.pixels}, {weights}": (
                        needed[_key(panel, weights, "broyden")],
                        needed[_key(panel, weights, "picard")],
                        panel.evaluations,
                    )
                    for panel in PANELS
                    for weights in WEIGHTS
                }
            ),
            longer(
                {
                    panel.pixels: (needed[_key(panel, "trained", "broyden")], panel.evaluations)
                    for panel in GROWING
                }
            ),
        ],
        figures=curves,
    )


def _key(panel: Panel, weights: str, solver: str) -> str:
    return f"{panel.title}, {weights}, {solver}"


def _solver(panel: Panel, solver: str) -> SolverConfig:
    config: Any = configure(panel.model)
    memory = {"broyden": config.solver.memory, "anderson": ANDERSON_MEMORY}.get(solver)
    return SolverConfig(solver=solver, tol=NEVER, max_steps=panel.evaluations, memory=memory)


def _curve(
    setting: Setting, panel: Panel, weights: str, solver: str, batches: list[Tensor]
) -> dict[str, list[float | None]]:
    """Mean and deviation over batches of the change, which is a mean over images."""
    torch.manual_seed(0)
    model = create_model(panel.model, pretrained=weights == "trained").eval()
    assert isinstance(model, MDEQ)
    model = model.to(setting.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    config = _solver(panel, solver)
    changes = torch.stack(
        [
            relative_changes(model, batch.to(setting.device), config).mean(1)[:, 0]
            for batch in batches
        ]
    )
    return {"mean": as_curve(changes.mean(dim=0)), "deviation": as_curve(changes.std(dim=0))}


def steadier(cases: Mapping[str, tuple[int | None, int | None, int]]) -> Claim:
    """Whether Broyden's method settles before plain iteration; both, and the budget, by case."""
    pairs = [(bounded(b, budget), bounded(p, budget)) for b, p, budget in cases.values()]
    sooner, later = sum(b < p for b, p in pairs), sum(b > p for b, p in pairs)
    return Claim(
        text="Broyden's method converges more steadily than plain iteration",
        holds=None if not sooner and not later else not later,
        seen=f"it settles below {SETTLED} before plain iteration in {sooner} of {len(cases)} "
        f"cases, after it in {later}: "
        + "; ".join(
            f"{name} {in_words(b, budget)} against {in_words(p, budget)}"
            for name, (b, p, budget) in cases.items()
        ),
    )


def longer(needed: Mapping[str, tuple[int | None, int]]) -> Claim:
    """Whether evaluations are never fewer, and at last more, the larger images are.

    By size, smallest first: the evaluations and their budget.
    """
    return Claim(
        text="more steps are needed as images grow",
        holds=rising(list(needed.values())),
        seen=f"evaluations of Broyden's to stay below {SETTLED}, trained: "
        + ", ".join(f"{size} {in_words(n, budget)}" for size, (n, budget) in needed.items()),
    )


def draw(outcome: Outcome) -> Figure:
    """A panel for every size, above with random weights, below with trained ones."""
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    grid = figure.subplots(len(WEIGHTS), len(PANELS), sharey="row")
    for row, weights in zip(grid, WEIGHTS, strict=True):
        for axes, panel in zip(row, PANELS, strict=True):
            for solver, (label, colour) in SOLVERS.items():
                curve = outcome.figures[_key(panel, weights, solver)]
                mean, deviation = (
                    torch.tensor([torch.nan if v is None else v for v in curve[name]])
                    for name in ("mean", "deviation")
                )
                evaluations = range(2, len(mean) + 2)
                axes.semilogy(evaluations, mean, color=colour, label=label)
                # Below its tenth a band would fill the plot: the scale is logarithmic.
                low = torch.maximum(mean - deviation, mean / 10)
                axes.fill_between(evaluations, low, mean + deviation, color=colour, alpha=0.15)
            axes.axhline(SETTLED, color="0.6", linewidth=0.8, linestyle=":")
            axes.set_title(f"{panel.title}, {weights}", fontsize=10)
            axes.grid(alpha=0.3)
        row[0].set_ylabel("relative change of z")
    for axes in grid[-1]:
        axes.set_xlabel("evaluations of f")
    grid[0, 0].legend(fontsize=9)
    figure.suptitle(outcome.title)
    return figure
