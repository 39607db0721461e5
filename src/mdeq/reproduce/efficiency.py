"""Figure 4b: time and memory of a training step, relative to ResNet-101."""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec

from matplotlib.figure import Figure

from mdeq.bench import Contestant, Spread, apart, compare_steps
from mdeq.reproduce.outcome import Claim, Outcome
from mdeq.reproduce.setting import Setting

REFERENCE, ODE = "resnet101_cifar10", "anode_cifar10"
NAMES = {
    "mdeq_cifar10": "MDEQ",
    "fast:mdeq_cifar10": "MDEQ, recommended mode",
    "mdeq_cifar10_small": "MDEQ-small",
    "fast:mdeq_cifar10_small": "MDEQ-small, recommended mode",
    ODE: "augmented Neural ODE",
    "resnet18_cifar10": "ResNet-18",
    REFERENCE: "ResNet-101",
    "densenet121_cifar10": "DenseNet-121",
}
BATCH, SIZE = 32, 32
LARGE, LARGE_SIZE = "mdeq_imagenet_large", 224
PUBLISHED = {"mdeq_cifar10": 2.7}  # in the text of section 4.4; the figure has no numbers


def measure(setting: Setting) -> Outcome:
    """Measure all in turns, each in a process of its own."""
    turns = setting.pick(3, 7)
    names = [name for name in NAMES if name != ODE or find_spec("torchdiffeq")]
    contestant = partial(Contestant, batch_size=BATCH, image_size=SIZE, device=setting.device)
    with apart({name: partial(contestant, name) for name in names}) as contestants:
        results = compare_steps(contestants, reference=REFERENCE, turns=turns)
    rows = [
        [
            NAMES[result.name],
            f"{result.parameters / 1e6:.3g} M",
            f"{result.train.seconds.median:.2f}",
            f"{result.train.seconds_ratio:.2f}",
            str(PUBLISHED.get(result.name, "")),
            f"{result.train.bytes / 1e6:.0f}",
            f"{result.train.bytes_ratio:.2f}",
        ]
        for result in results
    ]
    if setting.budget == "full":
        rows.append(_large(setting))
    times = {result.name: result.train.seconds_ratio for result in results}
    peaks = {result.name: result.train.bytes / 1e6 for result in results}
    return Outcome(
        title="Time and memory of a training step (figure 4b)",
        caption=f"Batches of {BATCH} random images, of {SIZE}x{SIZE} where nothing else is said, "
        f"weights at random; {turns} turns, medians between quartiles; memory above weights and "
        f"optimiser; float32 on {setting.machine}. Ratios are to ResNet-101.",
        columns=[
            "",
            "size",
            "seconds",
            "ratio of time",
            "in the paper",
            "peak, MB",
            "ratio of memory",
        ],
        rows=rows,
        claims=[saves(peaks), slower(times), faster(times)],
        figures={
            NAMES[result.name]: {
                "parameters": result.parameters,
                "seconds": result.train.seconds.median,
                "time": result.train.seconds_ratio.median,
                "bytes": result.train.bytes,
                "memory": result.train.bytes_ratio,
            }
            for result in results
        },
    )


def saves(peaks: Mapping[str, float]) -> Claim:
    """Memory of MDEQ beside that of deep explicit networks; a shallow ResNet needs less."""
    saved = {
        other: 100 * (1 - peaks["mdeq_cifar10"] / peaks[other])
        for other in (REFERENCE, "densenet121_cifar10")
    }
    fast = 100 * (1 - peaks["fast:mdeq_cifar10"] / peaks[REFERENCE])
    shallow = peaks["mdeq_cifar10"] / peaks["resnet18_cifar10"]
    return Claim(
        text="MDEQ saves more than 60 % of the memory of ResNet-101 and of a DenseNet",
        holds=min(saved.values()) > 60,
        seen=", ".join(f"{value:.0f} % of {NAMES[other]}'s" for other, value in saved.items())
        + f"; in the recommended mode {fast:.0f} % of {NAMES[REFERENCE]}'s; "
        f"but it needs {shallow:.1f} times that of {NAMES['resnet18_cifar10']}",
    )


def slower(times: Mapping[str, Spread]) -> Claim:
    """Time of MDEQ beside that of ResNet-101, which is 1."""
    ours = times["mdeq_cifar10"]
    return Claim(
        text="MDEQ is slower than ResNet-101 (the paper: 2.7 times)",
        holds=None if ours.low <= 1 <= ours.high else ours.low > 1,
        seen=f"{ours:.2f} of its time; in the recommended mode {times['fast:mdeq_cifar10']:.2f}",
    )


def faster(times: Mapping[str, Spread]) -> Claim:
    """Time of the small MDEQ beside that of the Neural ODE, where there is one."""
    text = "a small MDEQ is faster than an augmented Neural ODE of its size (the paper: 3 times)"
    if ODE not in times:
        missing = "not measured: it needs a library, pip install torchdiffeq"
        return Claim(text=text, holds=None, seen=missing)
    ours, ode = times["mdeq_cifar10_small"], times[ODE]
    fast = times["fast:mdeq_cifar10_small"]
    apart_ = ours.high < ode.low or ours.low > ode.high
    return Claim(
        text=text,
        holds=ours.median < ode.median if apart_ else None,
        seen=f"{ode.median / ours.median:.1f} times as fast; in the recommended mode "
        f"{ode.median / fast.median:.1f} times",
    )


def _large(setting: Setting) -> list[str]:
    """A line on the memory of training the large ImageNet model."""
    make = partial(
        Contestant, LARGE, batch_size=BATCH, image_size=LARGE_SIZE, device=setting.device
    )
    try:
        with apart({LARGE: make}) as contestants:
            size = f"{contestants[LARGE].do(Contestant.parameters) / 1e6:.3g} M"
            contestants[LARGE].do(Contestant.train)  # the optimiser's state is then there
            peak = f"{contestants[LARGE].do(Contestant.train_bytes) / 1e6:.0f}"
    except (OSError, RuntimeError) as error:  # out of memory; all others are measured by now
        size, peak = "", f"failed: {' '.join(str(error).split())}"
    name = f"MDEQ-large for ImageNet, {LARGE_SIZE}x{LARGE_SIZE}; about 6 GB in the paper"
    return [name, size, "", "", "", peak, ""]


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
