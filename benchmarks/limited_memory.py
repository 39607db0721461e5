"""What Broyden should forget when its memory is full: three schemes, measured.

.venv/bin/python benchmarks/limited_memory.py
"""

from typing import Any

import torch
from torch import Tensor

import mdeq
from mdeq.solvers import Broyden
from problems import PROBLEMS

BUDGET = 120


@mdeq.register_solver("restart")
class Restart(Broyden):
    """Forget everything when the memory is full: the classical choice."""

    def __call__(self, z: Tensor, fz: Tensor, r: Tensor) -> Tensor:
        """Propose as Broyden does, from an empty memory every `memory` steps."""
        if self.updates == self.directions.shape[1]:
            self.updates = 0
        return super().__call__(z, fz, r)


@mdeq.register_solver("rank-one")
class ForgetOldestTerm:
    """B = -I + sum u v^T; forget the oldest term of the sum, as the paper describes."""

    def __init__(self, z0: Tensor, max_steps: int, *, memory: int = 10) -> None:
        self.memory = memory
        self.terms: list[tuple[Tensor, Tensor]] = []
        self.last: tuple[Tensor, Tensor] | None = None

    def __call__(self, z: Tensor, fz: Tensor, r: Tensor) -> Tensor:
        """Propose z - B g."""
        if self.last is not None:
            s, y = z - self.last[0], r - self.last[1]
            v = self._apply(s, transposed=True)
            u = (s - self._apply(y)) / (v * y).sum(dim=1, keepdim=True)
            self.terms = [*self.terms, (u.nan_to_num(), v.nan_to_num())][-self.memory :]
        self.last = (z, r)
        return z - self._apply(r)

    def _apply(self, x: Tensor, transposed: bool = False) -> Tensor:
        out = -x
        for u, v in self.terms:
            left, right = (v, u) if transposed else (u, v)
            out = out + left * (right * x).sum(dim=1, keepdim=True)
        return out


def main() -> None:
    """Print the table, for docs/solvers.md."""
    print(f"median residual after {BUDGET} evaluations, 16 samples, 3 seeds\n")
    print("| problem | m | oldest factor (ours) | restart | oldest term (paper) | m = all |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, make in PROBLEMS.items():
        for memory in (5, 12, 18):
            cells = []
            for solver in ("broyden", "restart", "rank-one", "all"):
                best = []
                for seed in range(3):
                    torch.manual_seed(seed)
                    f, z0 = make()
                    how: dict[str, Any] = {"tol": 1e-13, "max_steps": BUDGET}
                    if solver != "all":
                        how |= {"solver": solver, "memory": memory}
                    best.append(mdeq.solve(f, z0, **how).residual)  # type: ignore[type-var]
                cells.append(f"{torch.cat(best).median():.1e}")
            print(f"| {name} | {memory} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
