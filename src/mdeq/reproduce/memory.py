"""Memory of a training step against depth: the equilibrium beside the same f, unrolled."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from mdeq.engine import keep_freed_memory
from mdeq.measure import peak_memory
from mdeq.models import create_model
from mdeq.reproduce.changes import NEVER
from mdeq.reproduce.outcome import Claim, Outcome
from mdeq.reproduce.setting import Setting

MODEL, UPDATES = "mdeq_cifar10_small", 12
DEPTHS = (5, 15, 30, 60, 120)  # UPDATES are kept from the second on
FLAT = 1.05


def measure(setting: Setting) -> Outcome:
    """Measure steps of training with more and more evaluations of f."""
    keep_freed_memory()
    batch = setting.pick(8, 32)
    images = torch.randn(batch, 3, 32, 32, device=setting.device)
    peaks: dict[str, list[float]] = {"equilibrium": [], "unrolled": []}
    for depth in setting.each(DEPTHS, "memory"):
        solver = {"max_steps": depth, "tol": NEVER, "memory": UPDATES}
        for mode, backward in (
            ("equilibrium", {"mode": "implicit", **solver}),
            ("unrolled", {"mode": "unrolled", "steps": depth}),
        ):
            peaks[mode].append(_peak(images, solver, backward) / 1e6)
    return Outcome(
        title="Memory of a training step against depth",
        caption=f"{MODEL}, a batch of {batch} random images of 32x32; Broyden keeps {UPDATES} "
        f"updates, in both directions; memory above the weights; float32 on {setting.machine}.",
        columns=["evaluations of f", "equilibrium, MB", "unrolled, MB"],
        rows=[
            [str(depth), f"{implicit:.0f}", f"{unrolled:.0f}"]
            for depth, implicit, unrolled in zip(DEPTHS, *peaks.values(), strict=True)
        ],
        claims=[flat(**peaks)],
        figures={"depths": DEPTHS, **peaks},
    )


def flat(equilibrium: Sequence[float], unrolled: Sequence[float]) -> Claim:
    """Whether memory stays where it is, once the solver's own is full; in MB, by depth."""
    return Claim(
        text="memory is flat in depth",
        holds=equilibrium[-1] < FLAT * equilibrium[1],
        seen=f"from {DEPTHS[1]} to {DEPTHS[-1]} evaluations {equilibrium[1]:.0f} to "
        f"{equilibrium[-1]:.0f} MB; unrolled {unrolled[1]:.0f} to {unrolled[-1]:.0f} MB",
    )


def _peak(images: Tensor, solver: Mapping[str, Any], backward: Mapping[str, Any]) -> int:
    torch.manual_seed(0)
    model = create_model(MODEL, solver=solver, backward=backward).to(images.device).train()

    def step() -> None:
        model(images).sum().backward()
        model.zero_grad()

    step()
    return peak_memory(step, images.device)


def draw(outcome: Outcome) -> Figure:
    """Two lines."""
    figure = Figure(figsize=(7, 4.8), layout="constrained")
    axes = figure.subplots()
    for mode, colour in (("equilibrium", "#0072B2"), ("unrolled", "#E69F00")):
        axes.plot(outcome.figures["depths"], outcome.figures[mode], "o-", color=colour, label=mode)
    axes.set(xlabel="evaluations of f", ylabel="peak memory, MB", title=outcome.title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
