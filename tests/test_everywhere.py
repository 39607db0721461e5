"""Devices, precisions, grad modes, torch.compile and data-parallel training."""

import copy
import socket
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

import mdeq
from tests.problems import SOLVERS, Affine, ConvNet


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("dtype", "tol"),
    [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)],
)
def test_precisions(solver: str, dtype: torch.dtype, tol: float, device: torch.device) -> None:
    problem = Affine.random([0.3, 0.7], 10, dtype=dtype, device=device)
    solution = mdeq.solve(problem, problem.zeros(), solver, tol=tol, max_steps=100)
    assert solution.z.dtype == dtype
    assert solution.residual.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert solution.converged.all()


@pytest.mark.parametrize("backward", ["implicit", "phantom", "one_step", "unrolled"])
def test_under_autocast_f_is_bfloat16_and_the_solver_float32(
    backward: str, device: torch.device
) -> None:
    layer = nn.Linear(16, 16, device=device)
    x = torch.randn(4, 16, device=device)
    inside: list[torch.dtype] = []

    def f(z: Tensor) -> Tensor:
        inside.append(z.dtype)
        out = 0.5 * layer(z) + x.to(torch.bfloat16)
        inside.append(out.dtype)
        return out

    with torch.autocast(device.type, dtype=torch.bfloat16):
        z, solution = mdeq.fixed_point(
            f,
            torch.zeros_like(x),
            forward={"tol": 2e-2},
            backward={"mode": backward, **({"tol": 2e-2} if backward == "implicit" else {})},
            on_failure="ignore",
        )
    (rounded,) = torch.autograd.grad(z.sum(), layer.weight)
    assert set(inside[::2]) == {torch.float32}
    assert set(inside[1::2]) == {torch.bfloat16}
    assert z.dtype == solution.z.dtype == solution.residual.dtype == torch.float32
    z, _ = mdeq.fixed_point(
        lambda z: 0.5 * layer(z) + x, torch.zeros_like(x), backward=backward, on_failure="ignore"
    )
    (exact,) = torch.autograd.grad(z.sum(), layer.weight)
    assert (rounded - exact).norm() < 0.05 * exact.norm()


class RecordDtypes(TorchDispatchMode):
    """Notes in which precision matrices are multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.products: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.bmm, torch.ops.aten.baddbmm):
            self.products.add(args[0].dtype)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("solver", ["broyden", "anderson"])
def test_autocast_does_not_touch_the_solvers_own_products(solver: str) -> None:
    layer, x = nn.Linear(16, 16), torch.randn(4, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16), RecordDtypes() as record:
        z, _ = mdeq.fixed_point(
            lambda z: 0.5 * layer(z) + x,
            torch.zeros_like(x),
            forward={"solver": solver, "tol": 1e-9, "max_steps": 8},
            backward={"solver": solver, "tol": 1e-9, "max_steps": 8},
            on_failure="ignore",
        )
        z.sum().backward()  # inside the context, where it should not be but may be
    assert record.products == {torch.float32}


def test_autocast_reaches_the_float32_answer_to_bfloat16_accuracy() -> None:
    layer, x = nn.Linear(16, 16), torch.randn(4, 16)

    def f(z: Tensor) -> Tensor:
        return torch.tanh(0.5 * layer(z) + x)

    exact = mdeq.solve(f, torch.zeros_like(x), tol=1e-6).z
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = mdeq.solve(f, torch.zeros_like(x), tol=1e-2, max_steps=50)
        assert torch.is_autocast_enabled("cpu")  # what the caller had set is left as it was
    assert rounded.converged.all()
    torch.testing.assert_close(rounded.z, exact, rtol=0, atol=3e-2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: type[torch.no_grad], device: torch.device) -> None:
    net = ConvNet().to(device)
    x = torch.randn(2, 2, 6, 6, device=device)
    expected, _ = mdeq.fixed_point(lambda z: net(z, x), net.zeros(x))
    with mode():
        for start in (net.zeros(x), net.zeros(x.clone())):
            z, _ = mdeq.fixed_point(lambda z: net(z, x), start)
            assert all(torch.equal(a, b) for a, b in zip(z, expected, strict=True))
            assert not any(scale.requires_grad for scale in z)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo's
@pytest.mark.parametrize("backward", ["implicit", "phantom"])
def test_a_compiled_f_gives_the_same_gradients(backward: str, device: torch.device) -> None:
    net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)).double().to(device)
    x = torch.randn(3, 8, dtype=torch.float64, device=device)

    def f(z: Tensor) -> Tensor:
        return torch.tanh(0.5 * net(z) + x)

    gradients = []
    for layer in (f, torch.compile(f, backend="aot_eager")):
        z, _ = mdeq.fixed_point(
            layer, torch.zeros_like(x), forward={"tol": 1e-10, "max_steps": 60}, backward=backward
        )
        gradients.append(torch.autograd.grad(z.sum(), list(net.parameters())))
    for plain, compiled in zip(*gradients, strict=True):
        torch.testing.assert_close(compiled, plain)


class Model(nn.Module):
    """An equilibrium layer with a head, small enough for two processes on two cores."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        exact = {"tol": 1e-12, "max_steps": 100}
        z, _ = mdeq.fixed_point(
            lambda z: torch.tanh(0.5 * self.layer(z) + x),
            torch.zeros_like(x),
            forward=exact,
            backward=exact,
        )
        out: Tensor = self.head(z)
        return out


def _train_one_rank(rank: int, port: int, model: Model, x: Tensor, results: list[Tensor]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    parallel = DistributedDataParallel(model)
    # One easy and one hard half: the ranks stop their solves at different steps.
    parallel(x[rank::2]).square().mean().backward()
    for result, parameter in zip(results, model.parameters(), strict=True):
        if rank == 0:
            result.copy_(parameter.grad)
    dist.barrier()
    dist.destroy_process_group()


def test_data_parallel_gradients_are_those_of_the_whole_batch() -> None:
    model = Model().double()
    x = torch.randn(8, 6, dtype=torch.float64)
    x[::2] *= 1e-3
    alone = copy.deepcopy(model)
    alone(x).square().mean().backward()

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = [torch.zeros_like(p).detach().share_memory_() for p in model.parameters()]
    mp.spawn(_train_one_rank, args=(port, model, x, results), nprocs=2)
    for ours, parameter in zip(results, alone.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=0, atol=1e-9)
