"""Figure 5: relative change of z against evaluations of f, by solver and size of image."""

from collections.abc import Callable
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
    evaluations_until,
    in_words,
    relative_changes,
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
        return f"{self.model}, {self.size[1]}x{self.size[0]}"


def _streets(size: tuple[int, int], evaluations: int) -> Panel:
    return Panel(
        model="mdeq_camvid",
        size=size,
        evaluations=evaluations,
        batches=lambda setting: street_batches(setting, *size),
    )


PANELS = (
    Panel(model="mdeq_cifar10_small", size=(32, 32), evaluations=30, batches=cifar10_batches),
    _streets((120, 160), 60),
    _streets(STREET, 120),
)
GROWING = tuple(_streets(size, 120) for size in ((75, 100), (150, 200), STREET))
"""The same pictures in three sizes, for one model: do they need more steps?"""


def measure(setting: Setting) -> Outcome:
    """Solve for five batches of every size, with every solver, before and after training."""
    curves: dict[str, dict[str, list[float | None]]] = {}
    words, work = [], [(panel, weights, solver) for panel in PANELS for weights in WEIGHTS
                       for solver in SOLVERS]  # fmt: skip
    for panel, weights, solver in setting.each(work, "convergence"):
        batches, kind = panel.batches(setting)
        words.append(f"{len(batches[0])} {kind}")
        curves[_key(panel, weights, solver)] = _curve(setting, panel, weights, solver, batches)
    growing = {
        panel.title: _curve(setting, panel, "trained", "broyden", panel.batches(setting)[0])["mean"]
        for panel in setting.each(GROWING, "growing images")
    }
    return Outcome(
        title="Convergence to the equilibrium (figure 5)",
        scale=f"Mean and deviation over {BATCHES} batches, each of "
        f"{' or '.join(dict.fromkeys(words))}; random weights and those that ship (cifar10, "
        "camvid); Broyden keeps "
        f"{' or '.join(str(_solver(p, 'broyden').memory) for p in PANELS[:2])} updates, Anderson "
        f"{ANDERSON_MEMORY}; float32 on {setting.machine}.",
        columns=["", "weights", "solver", f"evaluations to {SETTLED}", "change at the end"],
        rows=[
            [
                panel.title,
                weights,
                SOLVERS[solver][0],
                in_words(evaluations_until(mean), panel.evaluations),
                "not finite" if mean[-1] is None else f"{mean[-1]:.2g}",
            ]
            for panel, weights, solver in work
            for mean in [curves[_key(panel, weights, solver)]["mean"]]
        ],
        claims=[_steadier(curves), _longer(growing)],
        figures={"curves": curves, "growing": growing},
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


def _steadier(curves: dict[str, dict[str, list[float | None]]]) -> Claim:
    """Broyden against plain iteration: which settles first, case by case."""
    fewer, more, seen = 0, 0, []
    for panel in PANELS:
        for weights in WEIGHTS:
            counts = [
                evaluations_until(curves[_key(panel, weights, solver)]["mean"])
                for solver in ("broyden", "picard")
            ]
            broyden, plain = (panel.evaluations + 1 if n is None else n for n in counts)
            fewer, more = fewer + (broyden < plain), more + (broyden > plain)
            words = " against ".join(in_words(n, panel.evaluations) for n in counts)
            seen.append(f"{panel.size[1]}x{panel.size[0]} {weights} {words}")
    return Claim(
        text="Broyden's method converges more steadily than plain iteration",
        holds=None if not fewer and not more else not more,
        seen=f"evaluations to {SETTLED}: {'; '.join(seen)}",
    )


def _longer(growing: dict[str, list[float | None]]) -> Claim:
    """One model, trained: the same pictures in three sizes."""
    needed = [evaluations_until(curve) for curve in growing.values()]
    known = [n for n in needed if n is not None]
    # Of those that did not settle nothing is known but that they come last.
    decided = len(known) >= len(needed) - 1 and needed[: len(known)] == known
    return Claim(
        text="more steps are needed as images grow",
        holds=(known == sorted(known) and known[0] < known[-1]) if decided else None,
        seen=f"evaluations of Broyden's to {SETTLED}: "
        + ", ".join(
            f"{title.split(', ')[1]} {in_words(n, GROWING[0].evaluations)}"
            for title, n in zip(growing, needed, strict=True)
        ),
    )


def draw(outcome: Outcome) -> Figure:
    """A panel for every size, above with random weights, below with trained ones."""
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    grid = figure.subplots(len(WEIGHTS), len(PANELS), sharey="row")
    for row, weights in zip(grid, WEIGHTS, strict=True):
        for axes, panel in zip(row, PANELS, strict=True):
            for solver, (label, colour) in SOLVERS.items():
                curve = outcome.figures["curves"][_key(panel, weights, solver)]
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
