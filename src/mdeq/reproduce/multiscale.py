"""Appendix: how every scale converges, beside a model that has one scale alone."""

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure

from mdeq.models import MDEQ
from mdeq.reproduce.changes import (
    NEVER,
    SETTLED,
    as_curve,
    evaluations_until,
    in_words,
    relative_changes,
    rising,
)
from mdeq.reproduce.outcome import Claim, Outcome
from mdeq.reproduce.setting import Setting
from mdeq.reproduce.training import MODELS, described, image_size, trained, unseen_images
from mdeq.solvers import SolverConfig

SOLVER = SolverConfig(solver="broyden", tol=NEVER, max_steps=60, memory=12)
IMAGES = 40
SEVERAL, SINGLE = "mdeq_cifar10_small", "deq_cifar10_small"
COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#E69F00")


def measure(setting: Setting) -> Outcome:
    """Solve for the same images with both models, trained for the same time."""
    side, images = image_size(setting), unseen_images(setting, IMAGES)
    steps = []
    curves: dict[str, list[float | None]] = {}
    for name in setting.each((SEVERAL, SINGLE), "multiscale"):
        learnt = trained(name, setting)
        steps.append(f"{learnt.steps} steps for {MODELS[name]}")
        model = learnt.model().eval().to(setting.device)
        assert isinstance(model, MDEQ)
        changes = relative_changes(model, images, SOLVER, by_scale=True).mean(dim=1)
        for k in range(changes.shape[1]):
            size = f"{side >> k}x{side >> k}"
            title = MODELS[name] if name == SINGLE else f"scale {k + 1} of MDEQ-small"
            curves[f"{title}, {size}"] = as_curve(changes[:, k])
    needed = {title: evaluations_until(curve) for title, curve in curves.items()}
    return Outcome(
        title="Convergence of every scale (appendix)",
        caption=f"Both models after {described(setting)}: {' and '.join(steps)}. Broyden keeps "
        f"{SOLVER.memory} updates; mean of {len(images)} test images; float32 on "
        f"{setting.machine}.",
        columns=["", f"evaluations to stay below {SETTLED}", "change at the end"],
        rows=[
            [
                title,
                in_words(needed[title], SOLVER.max_steps),
                "not finite" if curve[-1] is None else f"{curve[-1]:.2g}",
            ]
            for title, curve in curves.items()
        ],
        claims=claims(needed),
        figures=curves,
    )


def claims(needed: Mapping[str, int | None]) -> list[Claim]:
    """Of evaluations until every scale has settled, finest first, and the single stream last."""
    budget = SOLVER.max_steps
    *scales, single = [(n, budget) for n in needed.values()]
    *words, word = [in_words(n, budget) for n in needed.values()]
    return [
        Claim(
            text="lower-resolution scales converge first",
            holds=rising(scales[::-1]),
            seen=f"evaluations to stay below {SETTLED}, finest scale first: {', '.join(words)}",
        ),
        Claim(
            text="the finest scale converges faster than that of a single-stream model",
            holds=rising([scales[0], single]),
            seen=f"evaluations to stay below {SETTLED}: {words[0]} against {word}",
        ),
    ]


def draw(outcome: Outcome) -> Figure:
    """A line for every scale."""
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for (title, curve), colour in zip(outcome.figures.items(), COLOURS, strict=True):
        values = [torch.nan if change is None else change for change in curve]
        axes.semilogy(range(2, len(curve) + 2), values, color=colour, label=title)
    axes.axhline(SETTLED, color="0.6", linewidth=0.8, linestyle=":")
    axes.set(xlabel="evaluations of f", ylabel="relative change of the scale", title=outcome.title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    return figure
