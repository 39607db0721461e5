"""Figure 4a: accuracy against epochs of the implicit models, and of a ResNet of their size."""

import math
from collections.abc import Mapping
from dataclasses import asdict

from matplotlib.figure import Figure

from mdeq.engine import DivergedError
from mdeq.models import MissingLibraryError, StiffError
from mdeq.reproduce.outcome import Claim, Outcome
from mdeq.reproduce.setting import Setting
from mdeq.reproduce.training import MODELS, Learnt, described, trained

OURS, EXPLICIT = "MDEQ-small", "ResNet-18"
COLOURS = dict(
    zip(MODELS.values(), ("#0072B2", "#E69F00", "0.4", "#009E73", "#CC79A7"), strict=True)
)


def measure(setting: Setting) -> Outcome:
    """Train every model, or find it trained; one that fails leaves the others their lines."""
    learnt: dict[str, Learnt] = {}
    failed = ""
    rows = []
    for model in setting.each(MODELS, "dynamics"):
        name = MODELS[model]
        try:
            run = learnt[name] = trained(model, setting)
        except (DivergedError, MissingLibraryError, StiffError) as error:
            failed += f" {name} failed: {error}."
            continue
        rows.append(
            [
                name,
                str(run.steps),
                f"{run.minutes:.1f}",
                f"{run.epochs[-1]:.2f}",
                f"{run.held_out[-1]:.1f}",
                *([] if run.test is None else [f"{run.test[0]:.2f}"]),
            ]
        )
    return Outcome(
        title="Accuracy of implicit models as they learn (figure 4a)",
        caption=f"{described(setting)}; {setting.machine}. Curves on images held out of "
        f"training.{failed}",
        columns=["", "steps", "minutes", "epochs", "held out, %", *setting.pick([], ["test, %"])],
        rows=rows,
        claims=[most_accurate({name: run.final for name, run in learnt.items()})],
        figures={name: asdict(run) for name, run in learnt.items()},
    )


def most_accurate(final: Mapping[str, tuple[float, int]]) -> Claim:
    """Whether MDEQ-small leads all implicit models by more than two standard errors."""
    others = {name: value for name, value in final.items() if name not in (OURS, EXPLICIT)}
    missing = [name for name in MODELS.values() if name not in (*final, EXPLICIT)]
    holds = None
    if OURS in final and others:
        ours, images = final[OURS]
        lead = ours - max(value for value, _ in others.values())
        share = ours / 100
        certain = 200 * math.sqrt(2 * share * (1 - share) / images)
        if lead > certain:
            holds = None if missing else True
        elif lead < -certain:
            holds = False
    return Claim(
        text="MDEQ-small is the most accurate of the implicit models, at the end of training",
        holds=holds,
        seen=", ".join(
            [
                *(f"{name} {value:.1f} %" for name, (value, _) in final.items()),
                *(f"{name} not trained" for name in missing),
            ]
        ),
    )


def draw(outcome: Outcome) -> Figure:
    """A line for every model."""
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for name, curve in outcome.figures.items():
        axes.plot(
            curve["epochs"],
            curve["held_out"],
            "o--" if name == EXPLICIT else "o-",
            color=COLOURS[name],
            markersize=4,
            label=f"{name}, {curve['held_out'][-1]:.1f} %",
        )
    axes.set(xlabel="epochs", ylabel="accuracy on held-out images, %", title=outcome.title)
    axes.set_xscale("log")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=9)
    return figure
