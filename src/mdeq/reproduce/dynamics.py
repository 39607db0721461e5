"""Figure 4a: accuracy against epochs of the implicit models, and of a ResNet of their size."""

import json

from matplotlib.figure import Figure

from mdeq.reproduce.outcome import Claim, Outcome
from mdeq.reproduce.setting import Setting
from mdeq.reproduce.training import MODELS, TEST, described, records, trained

COLOURS = dict(
    zip(MODELS.values(), ("#0072B2", "#E69F00", "0.4", "#009E73", "#CC79A7"), strict=True)
)


def measure(setting: Setting) -> Outcome:
    """Train every model, or find it trained."""
    curves, rows, final = {}, [], {}
    for model in setting.each(MODELS, "dynamics"):
        folder = trained(model, setting)
        lines = records(folder)
        looks = [line for line in lines if "val" in line]
        accuracy = [100 * look["val"]["classification"]["top1"] for look in looks]
        name, epochs = MODELS[model], [look["epoch"] for look in looks]
        curves[name] = {"epochs": epochs, "accuracy": accuracy}
        final[name] = accuracy[-1]
        paces = sorted(line["train"]["images_per_second"] for line in lines if "train" in line)
        tested = ""
        if (folder / TEST).exists():
            test = json.loads((folder / TEST).read_text())
            final[name] = 100 * test["classification"]["top1"]
            tested = f"{final[name]:.2f}"
            curves[name] |= {"test": final[name], "minutes": test["seconds"] / 60}
        rows.append(
            [
                name,
                str(looks[-1]["step"]),
                f"{epochs[-1]:.2f}",
                f"{paces[len(paces) // 2]:.0f}" if paces else "",
                f"{accuracy[-1]:.1f}",
                tested,
            ]
        )
    implicit = {name: value for name, value in final.items() if name != "ResNet-18"}
    best = max(implicit, key=lambda name: implicit[name])
    return Outcome(
        title="Accuracy of implicit models as they learn (figure 4a)",
        scale=f"{described(setting)}; {setting.machine}. Curves on images held out of training.",
        columns=["", "steps", "epochs", "images/s", "held out, %", "test, %"],
        rows=rows,
        claims=[
            Claim(
                text="MDEQ-small is the most accurate of the implicit models",
                holds=best == "MDEQ-small",
                seen=", ".join(f"{name} {value:.1f} %" for name, value in implicit.items()),
            )
        ],
        figures=curves,
    )


def draw(outcome: Outcome) -> Figure:
    """A line for every model."""
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for name, curve in outcome.figures.items():
        style = "o--" if name == "ResNet-18" else "o-"
        axes.plot(
            curve["epochs"],
            curve["accuracy"],
            style,
            color=COLOURS[name],
            markersize=4,
            label=f"{name}, {curve['accuracy'][-1]:.1f} %",
        )
    axes.set(xlabel="epochs", ylabel="accuracy on held-out images, %", title=outcome.title)
    axes.set_xscale("log")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=9)
    return figure
