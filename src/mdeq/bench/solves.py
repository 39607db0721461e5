"""Time to the same residual on a trained model, for our solvers and torchdeq's."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mdeq.bench.peers import plain_map, torchdeq_solvers
from mdeq.bench.timing import Spread, interleaved, ratios
from mdeq.models import MDEQ
from mdeq.solvers import Layout, residual_norm, solve

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


class _Counted:
    """A map that counts its evaluations."""

    def __init__(self, f: Callable[[Tensor], Tensor]) -> None:
        self.f, self.count = f, 0

    def __call__(self, z: Tensor) -> Tensor:
        self.count += 1
        return self.f(z)


@torch.no_grad()
def compare_solvers(
    model: MDEQ, images: Tensor, *, tols: Sequence[float], turns: int, reference: str
) -> list[SolveResult]:
    """Solve for the same images to each tolerance.

    Ours in channels-last order, and with finished samples leaving the batch; torchdeq's as it
    comes, on f written plainly.
    """
    device = images.device
    plain_model = copy.deepcopy(model).eval().to(memory_format=torch.contiguous_format)
    plain_f, plain_start = plain_map(plain_model, images.contiguous())
    own_model = copy.deepcopy(model).eval().to(memory_format=torch.channels_last)
    x = own_model.injection(images.contiguous(memory_format=torch.channels_last))
    f, start = own_model.f.at(x), own_model.f.start(x)
    layout = Layout.of(start)
    results = []
    for tol in tols:
        answers: dict[str, Tensor] = {}
        counts: dict[str, int] = {}

        def ours(name: str, tol: float = tol, counts: dict[str, int] = counts) -> Tensor:
            found = solve(
                f,
                start,
                name,
                tol=tol,
                max_steps=BUDGET,
                memory=MEMORY[name],
                compact=True,
            )
            counts[name] = len(found.trace)
            return layout.pack(found.z)

        def theirs(name: str, tol: float = tol, counts: dict[str, int] = counts) -> Tensor:
            counted = _Counted(plain_f)
            found, _, _ = torchdeq_solvers()[name](
                counted,
                plain_start,
                max_iter=BUDGET,
                tol=tol,
                stop_mode="rel",
                **{TORCHDEQ_MEMORY[name]: MEMORY[name]},
            )
            counts[f"torchdeq {name}"] = counted.count
            answer: Tensor = found
            return answer

        works = {name: (lambda name=name: ours(name)) for name in ("broyden", "anderson")}
        works |= {
            f"torchdeq {name}": (lambda name=name: theirs(name)) for name in torchdeq_solvers()
        }
        for name, work in works.items():
            answers[name] = work()
        times = interleaved(works, turns=turns, device=device, title=f"to {tol:g}", warmups=0)
        for name, answer in answers.items():
            own_f = plain_f if name.startswith("torchdeq") else layout.flatten(f)
            fz = own_f(answer)
            results.append(
                SolveResult(
                    solver=name,
                    tol=tol,
                    evaluations=counts[name],
                    residual=float(residual_norm(fz, fz - answer, "relative").max()),
                    seconds=Spread.of(times[name]),
                    ratio=ratios(times[name], times[reference]),
                )
            )
    return results
