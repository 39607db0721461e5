"""Time to the same residual on a trained model, for our solvers and torchdeq's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mdeq.bench.peers import plain_map, torchdeq_solvers
from mdeq.bench.timing import Spread, interleaved, ratios
from mdeq.models import MDEQ
from mdeq.solvers import Layout, residual_norm, solve

BUDGET = 300


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

    def __init__(self, f: Callable[..., object]) -> None:
        self.f, self.count = f, 0

    def __call__(self, z: object) -> object:
        self.count += 1
        return self.f(z)


@torch.no_grad()
def compare_solvers(
    model: MDEQ, images: Tensor, *, tols: Sequence[float], turns: int, reference: str
) -> list[SolveResult]:
    """Solve for the same images to each tolerance: ours in channels-last, torchdeq's plainly."""
    device = images.device
    fast = images.contiguous(memory_format=torch.channels_last)
    model = model.eval().to(memory_format=torch.channels_last)
    x = model.stem(fast)
    f, start = model.f.at(x), model.f.start(x)
    layout = Layout.of(start)
    plain_f, plain_start = plain_map(model, images)
    results = []
    for tol in tols:
        answers: dict[str, Tensor] = {}
        counts: dict[str, int] = {}

        def ours(name: str, tol: float = tol, counts: dict[str, int] = counts) -> Tensor:
            counted = _Counted(f)
            found = solve(counted, start, name, tol=tol, max_steps=BUDGET)  # type: ignore[arg-type]
            counts[name] = counted.count
            return layout.pack(found.z)

        def theirs(name: str, tol: float = tol, counts: dict[str, int] = counts) -> Tensor:
            counted = _Counted(plain_f)
            found, _, _ = torchdeq_solvers()[name](
                counted, plain_start, max_iter=BUDGET, tol=tol, stop_mode="rel"
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
