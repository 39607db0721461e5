"""Gradients through the equilibrium against closed forms, finite differences and unrolling."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mdeq
from tests.problems import SOLVERS, Affine, ConvNet, join_scales, on_scales, split_scales

EXACT = {"tol": 1e-13, "max_steps": 400}


def affine_problem(device: torch.device) -> dict[str, Tensor]:
    """z = W z + A x + b with W of spectral radius 0.9, all float64 leaves."""
    weight = torch.randn(6, 6, dtype=torch.float64)
    weight *= 0.9 / torch.linalg.eigvals(weight).abs().max()
    tensors = {
        "weight": weight,
        "inject": torch.randn(6, 4, dtype=torch.float64),
        "bias": torch.randn(6, dtype=torch.float64),
        "x": torch.randn(3, 4, dtype=torch.float64),
    }
    return {name: t.to(device).requires_grad_() for name, t in tensors.items()}


@pytest.mark.parametrize("backward_solver", SOLVERS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_implicit_gradients_equal_the_closed_form(
    solver: str, backward_solver: str, device: torch.device
) -> None:
    t = affine_problem(device)
    cotangent = torch.randn(3, 6, dtype=torch.float64, device=device)

    def f(z: Tensor) -> Tensor:
        return z @ t["weight"].T + t["x"] @ t["inject"].T + t["bias"]

    z, _ = mdeq.fixed_point(
        f,
        torch.zeros_like(cotangent),
        forward={"solver": solver, **EXACT},
        backward={"mode": "implicit", "solver": backward_solver, **EXACT},
        on_failure="raise",
    )
    (z * cotangent).sum().backward()

    exact = {name: tensor.detach() for name, tensor in t.items()}
    resolvent = torch.linalg.inv(torch.eye(6).to(exact["weight"]) - exact["weight"])
    z_star = (exact["x"] @ exact["inject"].T + exact["bias"]) @ resolvent.T
    adjoint = cotangent @ resolvent
    expected = {
        "weight": adjoint.T @ z_star,
        "inject": adjoint.T @ exact["x"],
        "bias": adjoint.sum(dim=0),
        "x": adjoint @ exact["inject"],
    }
    torch.testing.assert_close(z, z_star, rtol=0, atol=1e-9)
    for name, gradient in expected.items():
        torch.testing.assert_close(t[name].grad, gradient, rtol=0, atol=1e-8)


def conv_problem(batch: int = 2) -> tuple[ConvNet, Tensor, list[Tensor]]:
    net = ConvNet().double()
    x = torch.randn(batch, 2, 6, 6, dtype=torch.float64, requires_grad=True)
    return net, x, net.zeros(x.detach())


def conv_gradients(net: ConvNet, x: Tensor, z: list[Tensor]) -> list[Tensor]:
    loss = sum((scale**3).sum() for scale in z)
    assert isinstance(loss, Tensor)
    return list(torch.autograd.grad(loss, [*net.parameters(), x]))


def test_implicit_gradients_equal_those_of_300_unrolled_steps() -> None:
    net, x, z0 = conv_problem()
    exact = {"tol": 1e-14, "max_steps": 300}
    z, _ = mdeq.fixed_point(
        lambda z: net(z, x), z0, forward=exact, backward=exact, on_failure="ignore"
    )
    unrolled = z0
    for _ in range(300):
        unrolled = net(unrolled, x)
    for ours, theirs in zip(
        conv_gradients(net, x, z), conv_gradients(net, x, unrolled), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS)
def test_gradcheck(solver: str) -> None:
    weight = (0.3 * torch.randn(3, 3, dtype=torch.float64)).requires_grad_()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def equilibrium(weight: Tensor, x: Tensor) -> Tensor:
        z, _ = mdeq.fixed_point(
            lambda z: torch.tanh(z @ weight + x),
            torch.zeros(2, 3, dtype=torch.float64),
            forward={"solver": solver, **EXACT},
            backward={"solver": solver, **EXACT},
            on_failure="ignore",
        )
        return z

    assert torch.autograd.gradcheck(equilibrium, (weight, x))


def test_one_unused_scale_is_no_obstacle() -> None:
    """A loss on one scale differentiates through both."""
    net, x, z0 = conv_problem()
    z, _ = mdeq.fixed_point(lambda z: net(z, x), z0, forward=EXACT, backward=EXACT)
    z[1].sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_unrolled_is_f_stacked_and_reaches_z0() -> None:
    net, x, _ = conv_problem()
    start = [scale.normal_().requires_grad_() for scale in net.zeros(x.detach())]
    z, solution = mdeq.fixed_point(
        lambda z: net(z, x), start, backward={"mode": "unrolled", "steps": 3}
    )
    expected = net(net(net(start, x), x), x)
    assert all(torch.equal(a, b) for a, b in zip(z, expected, strict=True))
    ours = torch.autograd.grad(join_scales(z).sum(), [*net.parameters(), x, *start])
    theirs = torch.autograd.grad(join_scales(expected).sum(), [*net.parameters(), x, *start])
    assert all(torch.allclose(a, b, rtol=1e-12) for a, b in zip(ours, theirs, strict=True))
    assert solution.steps.tolist() == [3, 3]
    assert solution.trace.shape == (3, 2)
    again = net(solution.z, x)
    assert all(torch.equal(a, b) for a, b in zip(z, again, strict=True))


def scalar_problem() -> tuple[Tensor, Tensor]:
    """z = a z + 1, z* = 1 / (1 - a): every mode has a gradient known on paper."""
    a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    return a, torch.zeros(1, 1, dtype=torch.float64)


@pytest.mark.parametrize(
    ("backward", "expected"),
    [
        ("implicit", 4.0),  # 1 / (1 - a)^2
        ("one_step", 2.0),  # z*
        ({"mode": "phantom", "steps": 1, "tau": 1.0}, 2.0),
        # k damped steps: z* tau sum_{i<k} (1 - tau + tau a)^i
        ({"mode": "phantom", "steps": 3, "tau": 0.5}, 2.0 * 0.5 * (1 + 0.75 + 0.75**2)),
        ({"mode": "unrolled", "steps": 3}, 1 + 2 * 0.5),  # d/da (1 + a + a^2)
    ],
)
def test_every_mode_has_its_own_gradient(backward: Any, expected: float) -> None:
    a, z0 = scalar_problem()
    z, _ = mdeq.fixed_point(lambda z: a * z + 1, z0, forward=EXACT, backward=backward)
    z.sum().backward()
    assert a.grad is not None
    assert a.grad.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("backward", ["implicit", "phantom", "one_step", "unrolled"])
def test_the_value_does_not_depend_on_whether_gradients_are_recorded(backward: str) -> None:
    net, x, z0 = conv_problem()
    settings = {"forward": {"tol": 1e-2}, "backward": backward}
    recorded, _ = mdeq.fixed_point(lambda z: net(z, x), z0, **settings)
    with torch.no_grad():
        plain, _ = mdeq.fixed_point(lambda z: net(z, x), z0, **settings)
    assert all(torch.equal(a, b) for a, b in zip(recorded, plain, strict=True))
    assert all(scale.requires_grad for scale in recorded)
    assert not any(scale.requires_grad for scale in plain)


def test_implicit_returns_the_solution_itself() -> None:
    net, x, z0 = conv_problem()
    z, solution = mdeq.fixed_point(lambda z: net(z, x), z0)
    assert all(torch.equal(a, b) for a, b in zip(z, solution.z, strict=True))
    assert not any(scale.requires_grad for scale in solution.z)


@pytest.mark.parametrize("backward", ["implicit", "phantom", "one_step"])
def test_z0_gets_no_gradient_from_a_solve(backward: str) -> None:
    a, _ = scalar_problem()
    z0 = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    z, _ = mdeq.fixed_point(lambda z: a * z + 1, z0, backward=backward)
    z.sum().backward()
    assert z0.grad is None


def test_a_tensor_used_inside_and_outside_f_counts_once_for_each() -> None:
    a, z0 = scalar_problem()
    z, _ = mdeq.fixed_point(lambda z: a * z + 1, z0, forward=EXACT, backward=EXACT)
    (z.sum() * a).backward()  # d/da a / (1 - a) = 1 / (1 - a)^2
    assert a.grad is not None
    assert a.grad.item() == pytest.approx(4.0, rel=1e-12)


def test_gradients_accumulate_over_several_backward_passes() -> None:
    a, z0 = scalar_problem()
    z, _ = mdeq.fixed_point(lambda z: a * z + 1, z0, forward=EXACT, backward=EXACT)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    assert a.grad is not None
    assert a.grad.item() == pytest.approx(8.0, rel=1e-12)
    with pytest.raises(RuntimeError, match="second time"):
        z.sum().backward()


def test_gradients_reach_tensors_computed_before() -> None:
    """x enters as a non-leaf, inside f and again outside of it."""
    raw = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def loss(z_of_x: Callable[[Tensor], Tensor]) -> Tensor:
        x = raw.sin()
        return (z_of_x(x) * x).sum()

    def implicit(x: Tensor) -> Tensor:
        z, _ = mdeq.fixed_point(
            lambda z: torch.tanh(0.5 * z + x), torch.zeros_like(x), forward=EXACT, backward=EXACT
        )
        return z

    def unrolled(x: Tensor) -> Tensor:
        z = torch.zeros_like(x)
        for _ in range(100):
            z = torch.tanh(0.5 * z + x)
        return z

    (ours,) = torch.autograd.grad(loss(implicit), raw)
    (theirs,) = torch.autograd.grad(loss(unrolled), raw)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_multiscale_gradients_equal_the_closed_form() -> None:
    shapes = [(2, 3, 3), (4, 2), (5,)]
    problem = Affine.random([0.95, 0.4], 18 + 8 + 5)
    weight, bias = problem.weight.clone().requires_grad_(), problem.bias.clone().requires_grad_()
    cotangent = torch.randn_like(bias)
    z, _ = mdeq.fixed_point(
        on_scales(Affine(weight, bias), shapes),
        split_scales(problem.zeros(), shapes),
        forward=EXACT,
        backward=EXACT,
        on_failure="raise",
    )
    (join_scales(z) * cotangent).sum().backward()
    adjoint = Affine(problem.weight.mT, cotangent).solution
    torch.testing.assert_close(bias.grad, adjoint, rtol=0, atol=1e-8)
    outer = adjoint[:, :, None] * problem.solution[:, None, :]
    torch.testing.assert_close(weight.grad, outer, rtol=1e-8, atol=1e-8)


def test_an_f_without_a_graph_gives_a_z_without_one() -> None:
    with torch.no_grad():
        constant = torch.randn(2, 3)
    z, _ = mdeq.fixed_point(lambda z: constant, torch.zeros(2, 3))
    assert not z.requires_grad
    assert torch.equal(z, constant)


@pytest.mark.parametrize("stop", ["relative", "absolute"])
def test_unrolled_is_judged_like_a_solve(stop: str) -> None:
    """From zero, 0.5 z + 4 moves by 4, 2, 1 to 4, 6, 7."""
    z, solution = mdeq.fixed_point(
        lambda z: [0.5 * z[0] + 4],
        [torch.zeros(1, 1)],
        forward={"tol": 0.5 if stop == "relative" else 0.999, "stop": stop},
        backward={"mode": "unrolled", "steps": 3},
        track_scales=True,
    )
    expected = [1.0, 2 / 6, 1 / 7] if stop == "relative" else [4.0, 2.0, 1.0]
    assert solution.trace[:, 0].tolist() == pytest.approx(expected)
    assert solution.converged.tolist() == [stop == "relative"]
    assert solution.scale_changes[:, 0, 0].tolist() == pytest.approx([1.0, 2 / 6])
    assert (z[0].item(), solution.z[0].item()) == (7.0, 6.0)


def test_the_change_of_scales_is_recorded_on_request() -> None:
    net, x, z0 = conv_problem()
    _, without = mdeq.fixed_point(lambda z: net(z, x), z0)
    _, tracked = mdeq.fixed_point(lambda z: net(z, x), z0, track_scales=True)
    assert without.scale_changes is None
    assert tracked.scale_changes.shape == (len(tracked.trace) - 1, 2, 2)


def test_the_result_shares_no_memory_with_the_solution() -> None:
    with torch.no_grad():
        z, solution = mdeq.fixed_point(lambda z: 0.5 * z + 1, torch.zeros(1, 3))
        z.zero_()
    assert (solution.z != 0).all()


def test_an_f_that_ignores_z_is_differentiated_too() -> None:
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    z, _ = mdeq.fixed_point(lambda z: x.sin(), torch.zeros_like(x))
    z.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


@pytest.mark.parametrize("batch", [1, 2])
def test_in_place_operations_on_the_result_are_allowed(batch: int) -> None:
    """Heads often begin with an in-place ReLU."""
    net, x, z0 = conv_problem(batch)
    z, _ = mdeq.fixed_point(lambda z: net(z, x), z0, forward=EXACT, backward=EXACT)
    expected = torch.autograd.grad(join_scales(z).relu().sum(), x, retain_graph=True)
    loss = sum(nn.functional.relu(scale, inplace=True).sum() for scale in z)
    torch.testing.assert_close(torch.autograd.grad(loss, x), expected)


@pytest.mark.parametrize("backward", ["implicit", "phantom", "unrolled"])
def test_in_place_operations_on_a_single_tensor_are_allowed(backward: str) -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    z, _ = mdeq.fixed_point(lambda z: 0.5 * z + x, torch.zeros(2, 3, 4), backward=backward)
    nn.functional.relu(z, inplace=True).sum().backward()
    assert torch.equal(x.grad > 0, z > 0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_not_finite_has_no_finite_gradient(bad: float) -> None:
    """Zero would be taken for a gradient, by people and by gradient scalers."""
    x = torch.randn(2, 3, requires_grad=True)
    z, _ = mdeq.fixed_point(
        lambda z: torch.tanh(0.5 * z + x), torch.zeros(2, 3), on_failure="ignore"
    )
    (z * torch.tensor([[1.0], [bad]])).sum().backward()
    assert x.grad[0].isfinite().all()  # the other sample's own
    assert x.grad[1].isnan().all()


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e-10, 1e10])
def test_gradients_scale_with_the_loss(size: float) -> None:
    x = torch.randn(2, 3, requires_grad=True)
    z, _ = mdeq.fixed_point(
        lambda z: torch.tanh(0.5 * z + x),
        torch.zeros(2, 3),
        forward={"tol": 1e-6, "max_steps": 60},
        backward={"tol": 1e-6, "max_steps": 60},
    )
    (unit,) = torch.autograd.grad(z.sum(), x, retain_graph=True)
    (scaled,) = torch.autograd.grad(z.sum() * size, x)
    torch.testing.assert_close(scaled / size, unit, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backward", ["phantom", "one_step", "unrolled"])
def test_explicit_modes_can_be_differentiated_twice(backward: str) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def equilibrium(x: Tensor) -> Tensor:
        z, _ = mdeq.fixed_point(
            lambda z: torch.tanh(0.5 * z + x),
            torch.zeros_like(x),
            # z* is a constant to these modes, so hold it still for finite differences
            forward={"max_steps": 1},
            backward=backward,
            on_failure="ignore",
        )
        return z

    assert torch.autograd.gradgradcheck(equilibrium, (x,))


def test_unrolled_second_derivatives_are_exact() -> None:
    a, z0 = scalar_problem()
    z, _ = mdeq.fixed_point(lambda z: a * z + 1, z0, backward=mdeq.Unrolled(steps=200))
    (first,) = torch.autograd.grad(z.sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first, a)
    assert second.item() == pytest.approx(16.0, rel=1e-12)  # 2 / (1 - a)^3


def test_no_second_derivative_slips_past_the_adjoint() -> None:
    """d^2 / dx dw of w z*(x) passes through the adjoint's right-hand side alone."""
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    z, _ = mdeq.fixed_point(lambda z: torch.tanh(0.5 * z + x), torch.zeros(2, 3).double())
    loss = (z * w).sum() + (w * x).sum()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once"):
        torch.autograd.grad(gradient.sum(), w)


def test_implicit_says_that_it_cannot_be_differentiated_twice() -> None:
    a, z0 = scalar_problem()
    z, _ = mdeq.fixed_point(lambda z: a * z + 1, z0, forward=EXACT, backward=EXACT)
    (first,) = torch.autograd.grad(z.sum(), a, create_graph=True)
    assert first.item() == pytest.approx(4.0, rel=1e-12)  # the first is fine
    with pytest.raises(RuntimeError, match=r"differentiated once.*backward='unrolled'"):
        torch.autograd.grad(first, a)


def test_a_jacobian_that_is_nan_makes_a_gradient_that_is_nan() -> None:
    """Where the first product is NaN; the start of the backward solve, zero, would hide it."""
    x = torch.tensor([[-1.0], [0.3]], requires_grad=True)
    z, _ = mdeq.fixed_point(
        lambda z: 0.5 * torch.where(z > 0, z.sqrt(), 0) + x, torch.zeros(2, 1), on_failure="ignore"
    )
    z.sum().backward()
    assert x.grad is not None
    assert x.grad[0].isnan().all()
    assert x.grad[1].isfinite().all()
