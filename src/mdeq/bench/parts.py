"""Where the time of a step goes, and what f costs beside its convolutions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from mdeq.bench.contestants import Contestant
from mdeq.bench.timing import Spread, interleaved, ratios, seconds
from mdeq.models import MDEQ

Interval = tuple[float, float]


@dataclass(frozen=True)
class Part:
    """Some part of a step of training, with its share of the whole."""

    name: str
    seconds: float
    share: float


def parts_of_step(contestant: Contestant, *, turns: int) -> list[Part]:
    """The parts of a step, by the labels that mdeq leaves in PyTorch's profiler.

    "f" is its evaluations in the solves; "recorded f" the evaluations with a graph, and the way
    back through them, stem and heads; "solver" the arithmetic of the solves.
    """
    contestant.train()
    with profile(activities=[ProfilerActivity.CPU]) as run:
        for _ in range(turns):
            contestant.train()
    found: dict[str, list[Interval]] = {}
    for event in run.events() or []:
        if event.name.startswith(("mdeq.", "bench.")):
            found.setdefault(event.name, []).append((event.time_range.start, event.time_range.end))

    def spent(name: str) -> float:
        return sum(end - start for start, end in found.get(name, [])) / turns / 1e6

    def spent_solving(name: str) -> float:
        inside = [
            (start, end)
            for start, end in found.get(name, [])
            if any(a <= start and end <= b for a, b in found.get("mdeq.solve", []))
        ]
        return sum(end - start for start, end in inside) / turns / 1e6

    whole = spent("bench.forward") + spent("bench.backward") + spent("bench.optimiser")
    f, products = spent_solving("mdeq.f"), spent("mdeq.product")
    packing = spent_solving("mdeq.packing")
    solving = spent("mdeq.solve")
    durations = {
        "f": f,
        "products": products,
        "solver": solving - f - products - packing,
        "packing": packing,
        "recorded f, stem and heads": whole - solving - spent("bench.optimiser"),
        "optimiser": spent("bench.optimiser"),
    }
    return [Part(name, value, value / whole) for name, value in durations.items()]


class _Convolutions(TorchDispatchMode):
    """Collects the convolutions that run inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.calls.append(lambda: func(*args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))

    def repeat(self) -> None:
        """Run them again, and nothing else."""
        for call in self.calls:
            call()


@torch.no_grad()
def convolution_ratio(contestant: Contestant, *, turns: int) -> Spread:
    """The time of an evaluation of f, in multiples of that of its convolutions alone."""
    model = contestant.model
    if not isinstance(model, MDEQ):
        raise ValueError(f"{contestant.name} has no f; expected an equilibrium model")
    x = model.injection(contestant.images)
    f = model.f.at(x)
    z = [torch.randn_like(scale) for scale in model.f.start(x)]
    with _Convolutions() as convolutions:
        f(z)
    times = interleaved(
        {
            "f": lambda: seconds(lambda: f(z), x.device),
            "convolutions": lambda: seconds(convolutions.repeat, x.device),
        },
        turns=10 * turns,
        title="f",
    )
    return ratios(times["f"], times["convolutions"])
