"""A solve waits for the device at its stop tests, and nowhere else."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import mdeq
from tests.problems import SOLVERS

# Operations whose result, or whose result's shape, the host has to wait for.
WAITING = {
    "aten._local_scalar_dense",
    "aten.is_nonzero",
    "aten.item",
    "aten.equal",
    "aten.nonzero",
    "aten.masked_select",
    "aten.unique_dim",
    "aten._unique2",
    "aten.bincount",
    "aten.repeat_interleave",
    "aten._linalg_check_errors",
    "aten.linalg_eigvals",
}


class CountWaits(TorchDispatchMode):
    """Counts operations, and those that make the host wait."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.overloadpacket)
        indexed_by_mask = name.startswith("aten.index") and any(
            isinstance(index, Tensor) and index.dtype == torch.bool
            for index in (args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else [])
        )
        self.operations["aten.nonzero" if indexed_by_mask else name] += 1
        return func(*args, **(kwargs or {}))

    @property
    def waits(self) -> int:
        return sum(self.operations[name] for name in WAITING)


def never_converging(z: list[Tensor]) -> list[Tensor]:
    return [torch.sin(50 * scale + 0.1) for scale in z]


def start() -> list[Tensor]:
    return [torch.zeros(3, 2, 4, 4), torch.zeros(3, 4, 2, 2)]


def test_the_counter_notices_every_kind_of_wait() -> None:
    x = torch.arange(4.0)
    with CountWaits() as count:
        x.sum().item()
        bool(x.any())
        x[x > 1]
        x.nonzero()
        torch.linalg.solve(torch.eye(2), torch.ones(2))  # raises on singular input: it looks
    assert count.waits == 5


@pytest.mark.parametrize(("check_every", "tests"), [(1, 19), (5, 3), (20, 0), (1000, 0)])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solve_waits_once_a_stop_test(solver: str, check_every: int, tests: int) -> None:
    settings = {} if solver == "picard" else {"memory": 6}
    with CountWaits() as count:
        mdeq.solve(
            never_converging,
            start(),
            solver,
            tol=1e-30,
            max_steps=20,
            check_every=check_every,
            track_scales=True,
            **settings,
        )
    assert count.operations["aten.sin"] == 20 * 2
    assert count.waits == tests


def test_a_training_step_waits_for_nothing_else() -> None:
    """Forward and backward solve of 20 evaluations each, tested every 10: one wait each."""
    x = torch.randn(3, 2, 4, 4, requires_grad=True)
    settings = {"tol": 1e-30, "max_steps": 20, "check_every": 10, "memory": 6}
    with CountWaits() as count:
        z, _ = mdeq.fixed_point(
            lambda z: torch.sin(50 * z + x),
            torch.zeros(3, 2, 4, 4),
            forward=settings,
            backward=settings,
            on_failure="ignore",
        )
        z.sum().backward()
    assert count.waits == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_itself_sees_no_synchronisation() -> None:
    x = torch.randn(3, 2, 4, 4, device="cuda", requires_grad=True)
    z0 = torch.zeros(3, 2, 4, 4, device="cuda")
    settings = {"tol": 1e-30, "max_steps": 20, "check_every": 20, "memory": 6}
    torch.cuda.set_sync_debug_mode("error")
    try:
        for solver in SOLVERS:
            how = {**settings, "solver": solver}
            if solver == "picard":
                del how["memory"]
            z, _ = mdeq.fixed_point(
                lambda z: torch.sin(50 * z + x),
                z0,
                forward=how,
                backward=how,
                on_failure="ignore",
            )
            z.sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_product_with_zero_is_not_computed() -> None:
    """A backward solve of 5 evaluations, the first at zero: 4 products, and the last pass."""
    x = torch.randn(3, 4, requires_grad=True)
    z, _ = mdeq.fixed_point(
        lambda z: torch.sin(0.5 * z + x),
        torch.zeros(3, 4),
        backward={"tol": 1e-30, "max_steps": 5},
        on_failure="ignore",
    )
    with CountWaits() as count:
        z.sum().backward()
    assert count.operations["aten.cos"] == 5


class Recorded(TorchDispatchMode):
    """Lists every operation with the shapes of what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, tuple[torch.Size, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        results = out if isinstance(out, (list, tuple)) else [out]
        shapes = tuple(r.shape for r in results if isinstance(r, Tensor))
        self.operations.append((str(func), shapes))
        return out


@pytest.mark.parametrize("solver", SOLVERS)
def test_between_stop_tests_nothing_depends_on_the_data(solver: str) -> None:
    """The same operations on the same shapes, whatever converges: what a CUDA graph asks for."""
    lists = []
    for slope in (0.0, 0.5, 50.0):  # done at once, soon, never
        with Recorded() as recorded:
            mdeq.solve(
                lambda z, slope=slope: torch.sin(slope * z + 0.1),
                torch.zeros(3, 7),
                solver,
                max_steps=12,
                check_every=1000,
                **({} if solver == "picard" else {"memory": 4}),
            )
        lists.append(recorded.operations)
    assert lists[0] == lists[1] == lists[2]


@pytest.mark.parametrize("solver", SOLVERS)
def test_there_is_no_work_per_sample_in_python(solver: str) -> None:
    counts = []
    for batch in (2, 64):
        with Recorded() as recorded:
            mdeq.solve(
                lambda z: torch.sin(50 * z + 0.1), torch.zeros(batch, 7), solver, max_steps=12
            )
        counts.append(len(recorded.operations))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("solver", ["broyden", "anderson"])
def test_what_a_solver_remembers_is_allocated_once(solver: str) -> None:
    """Nothing in the iteration is larger than a state, but for views of the solver's memory."""
    with Recorded() as recorded:
        mdeq.solve(
            lambda z: torch.sin(50 * z + 0.1),
            torch.zeros(3, 1000),
            solver,
            max_steps=12,
            memory=6,
            check_every=1000,
        )
    allocating = [
        (name, shape)
        for name, shapes in recorded.operations
        for shape in shapes
        if shape.numel() > 3 * 1000 and ("empty" in name or "cat" in name or "copy" in name)
    ]
    assert 1 <= len(allocating) <= 2  # one ring for Broyden, two for Anderson
