"""Figure 4b: time and memory of a training step, relative to ResNet-101."""

from functools import partial

from matplotlib.figure import Figure

from mdeq.bench import Contestant, apart, compare_steps
from mdeq.reproduce.outcome import Claim, Outcome
from mdeq.reproduce.setting import Setting

REFERENCE = "resnet101_cifar10"
NAMES = {
    "mdeq_cifar10": "MDEQ",
    "fast:mdeq_cifar10": "MDEQ, recommended mode",
    "mdeq_cifar10_small": "MDEQ-small",
    "fast:mdeq_cifar10_small": "MDEQ-small, recommended mode",
    "anode_cifar10": "augmented Neural ODE",
    "resnet18_cifar10": "ResNet-18",
    REFERENCE: "ResNet-101",
    "densenet121_cifar10": "DenseNet-121",
}
BATCH, SIZE = 32, 32
LARGE, LARGE_SIZE = "mdeq_imagenet_large", 224
PUBLISHED = {"mdeq_cifar10": 2.7}  # the text of section 5.4; the figure gives no numbers


def measure(setting: Setting) -> Outcome:
    """Measure all in turns, each in a process of its own."""
    turns = setting.pick(3, 7)
    contestant = partial(Contestant, batch_size=BATCH, image_size=SIZE, device=setting.device)
    with apart({name: partial(contestant, name) for name in NAMES}) as contestants:
        results = compare_steps(contestants, reference=REFERENCE, turns=turns)
    times = {result.name: result.train.seconds_ratio for result in results}
    peaks = {result.name: result.train.bytes_ratio for result in results}
    rows = [
        [
            NAMES[result.name],
            f"{result.parameters / 1e6:.3g} M",
            f"{result.train.seconds.median:.2f}",
            f"{times[result.name]:.2f}",
            str(PUBLISHED.get(result.name, "")),
            f"{result.train.bytes / 1e6:.0f}",
            f"{peaks[result.name]:.2f}",
        ]
        for result in results
    ]
    figures = {
        NAMES[result.name]: {
            "parameters": result.parameters,
            "seconds": result.train.seconds.median,
            "time": times[result.name].median,
            "bytes": result.train.bytes,
            "memory": peaks[result.name],
        }
        for result in results
    }
    claims = [
        Claim(
            text="MDEQ saves more than 60 % of the memory of ResNet-101",
            holds=peaks["mdeq_cifar10"] < 0.4,
            seen=f"it saves {100 * (1 - peaks['mdeq_cifar10']):.0f} %, and in the recommended mode "
            f"{100 * (1 - peaks['fast:mdeq_cifar10']):.0f} %",
        ),
        Claim(
            text="a small MDEQ is faster than an augmented Neural ODE of its size",
            holds=times["mdeq_cifar10_small"].median < times["anode_cifar10"].median,
            seen=f"{_faster(figures, 'MDEQ-small'):.1f} times as fast; in the recommended mode "
            f"{_faster(figures, 'MDEQ-small, recommended mode'):.1f} times; in the paper 3 times",
        ),
    ]
    if setting.budget == "full":
        rows.append(["MDEQ-large on ImageNet", *_large(setting)])
    return Outcome(
        title="Time and memory of a training step (figure 4b)",
        scale=f"Batches of {BATCH} random images of {SIZE}x{SIZE}, weights at random; {turns} "
        "turns, medians between quartiles; memory above weights and optimiser; float32 on "
        f"{setting.machine}. Ratios are to ResNet-101.",
        columns=["", "size", "seconds", "ratio", "paper", "peak, MB", "ratio"],
        rows=rows,
        claims=claims,
        figures=figures,
    )


def _faster(figures: dict[str, dict[str, float]], name: str) -> float:
    return figures["augmented Neural ODE"]["seconds"] / figures[name]["seconds"]


def _large(setting: Setting) -> list[str]:
    """The memory of training the large ImageNet model: about 6 GB in the paper."""
    make = partial(
        Contestant, LARGE, batch_size=BATCH, image_size=LARGE_SIZE, device=setting.device
    )
    with apart({LARGE: make}) as contestants:
        peak = contestants[LARGE].do(Contestant.train_bytes)
        parameters = contestants[LARGE].do(Contestant.parameters)
    return [f"{parameters / 1e6:.3g} M", "", "", "6 GB", f"{peak / 1e6:.0f}", ""]


def draw(outcome: Outcome) -> Figure:
    """Bars of time and of memory."""
    names = list(outcome.figures)
    figure = Figure(figsize=(8.5, 1.6 + 0.55 * len(names)), layout="constrained")
    axes = figure.subplots()
    for offset, kind, colour in ((0.2, "time", "#0072B2"), (-0.2, "memory", "#D55E00")):
        places = [len(names) - k + offset for k in range(len(names))]
        values = [outcome.figures[name][kind] for name in names]
        bars = axes.barh(places, values, 0.38, color=colour, label=kind)
        axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    axes.set_yticks(range(len(names), 0, -1), names)
    axes.axvline(1, color="0.6", linewidth=0.8)
    axes.set(xlabel="in multiples of ResNet-101's; lower is better", title=outcome.title)
    axes.margins(x=0.1)
    axes.legend(loc="lower right")
    return figure
