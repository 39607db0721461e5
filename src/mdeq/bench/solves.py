"""Time to the same residual on a trained model, for our solvers and torchdeq's."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mdeq.bench.apart import Apart, apart
from mdeq.bench.peers import plain_map, torchdeq_solvers
from mdeq.bench.timing import Spread, interleaved, ratios, seconds
from mdeq.engine import keep_freed_memory
from mdeq.models import MDEQ
from mdeq.solvers import FlatMap, Layout, residual_norm, solve

BUDGET = 150
MEMORY = {"broyden": 50, "anderson": 10}  # updates that both keep, ours and torchdeq's
TORCHDEQ_MEMORY = {"broyden": "LBFGS_thres", "anderson": "m"}


@dataclass(frozen=True, kw_only=True)
class SolveResult:
    """How one solver did at one tolerance.

    Attributes:
        solver: By name, torchdeq's with its prefix.
        tol: Relative residual asked of every sample.
        evaluations: Of f for the whole batch, until its last sample is there.
        residual: The largest of all samples, computed anew at the answer.
        seconds: Of the solve.
        ratio: In multiples of the reference's, turn by turn.
    """

    solver: str
    tol: float
    evaluations: int
    residual: float
    seconds: Spread
    ratio: Spread


class Solves(ABC):
    """The equilibria of a model for some images, to be found by one solver or another."""

    f: FlatMap
    device: torch.device

    @abstractmethod
    def find(self, solver: str, tol: float) -> tuple[Tensor, int]:
        """The flat answer, and how often f was evaluated for it."""

    def seconds(self, solver: str, tol: float) -> float:
        """Until it is found."""
        return seconds(partial(self.find, solver, tol), self.device)

    @torch.no_grad()
    def judge(self, solver: str, tol: float) -> tuple[int, float]:
        """The evaluations, and the largest residual computed anew at the answer."""
        answer, evaluations = self.find(solver, tol)
        fz = self.f(answer)
        return evaluations, float(residual_norm(fz, fz - answer, "relative").max())


class OwnSolves(Solves):
    """By our solvers: channels last, finished samples leaving the batch."""

    @torch.no_grad()
    def __init__(self, model: MDEQ, images: Tensor, device: torch.device) -> None:
        keep_freed_memory()
        model = model.eval().to(device).to(memory_format=torch.channels_last)
        x = model.injection(images.to(device).contiguous(memory_format=torch.channels_last))
        self.of_scales, self.start = model.f.at(x), model.f.start(x)
        self.layout = Layout.of(self.start)
        self.f, self.device = self.layout.flatten(self.of_scales), device

    def find(self, solver: str, tol: float) -> tuple[Tensor, int]:
        """By ours."""
        found = solve(
            self.of_scales,
            self.start,
            solver,
            tol=tol,
            max_steps=BUDGET,
            memory=MEMORY[solver],
            compact=True,
        )
        return self.layout.pack(found.z), len(found.trace)


class TorchDEQSolves(Solves):
    """By torchdeq's solvers: as it comes, on f written plainly."""

    def __init__(self, model: MDEQ, images: Tensor, device: torch.device) -> None:
        model = model.eval().to(device).to(memory_format=torch.contiguous_format)
        self.f, self.start = plain_map(model, images.to(device).contiguous())
        self.device = device

    @torch.no_grad()
    def find(self, solver: str, tol: float) -> tuple[Tensor, int]:
        """By theirs."""
        count = 0

        def counted(z: Tensor) -> Tensor:
            nonlocal count
            count += 1
            return self.f(z)

        memory: dict[str, Any] = {TORCHDEQ_MEMORY[solver]: MEMORY[solver]}
        found: Tensor
        found, _, _ = torchdeq_solvers()[solver](
            counted, self.start, max_iter=BUDGET, tol=tol, stop_mode="rel", **memory
        )
        return found, count


def compare_solvers(
    model: MDEQ,
    images: Tensor,
    *,
    tols: Sequence[float],
    turns: int,
    reference: str,
    device: torch.device,
) -> list[SolveResult]:
    """Solve for the same images to each tolerance, ours and torchdeq's in turns."""
    makers: dict[str, Callable[[], Solves]] = {
        "": partial(OwnSolves, model, images, device),
        "torchdeq ": partial(TorchDEQSolves, model, images, device),
    }
    results = []
    with apart(makers) as sides:
        works: dict[str, tuple[Apart[Solves], str]] = {
            f"{side}{solver}": (sides[side], solver) for side in makers for solver in MEMORY
        }
        for tol in tols:
            times = interleaved(
                {
                    name: partial(process.do, Solves.seconds, solver, tol)
                    for name, (process, solver) in works.items()
                },
                turns=turns,
                title=f"to {tol:g}",
                warmups=1,
            )
            for name, (process, solver) in works.items():
                evaluations, residual = process.do(Solves.judge, solver, tol)
                results.append(
                    SolveResult(
                        solver=name,
                        tol=tol,
                        evaluations=evaluations,
                        residual=residual,
                        seconds=Spread.of(times[name]),
                        ratio=ratios(times[name], times[reference]),
                    )
                )
    return results
