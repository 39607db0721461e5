"""Jacobian tools against matrices whose norm and spectrum are known."""

import math

import pytest
import torch
from torch import Tensor, nn

import mdeq
from tests.problems import Affine, ConvNet, join_scales, on_scales, split_scales


def test_frobenius_norm_of_a_signed_permutation_is_exact_for_any_probe() -> None:
    """J^T e has D entries of size s, whatever the signs in e: no variance at all."""
    order = torch.randperm(7)
    estimate = mdeq.jacobian_norm(lambda z: 0.5 * z[:, order], torch.randn(3, 7))
    torch.testing.assert_close(estimate, torch.full((3,), 0.25 * 7))


def test_frobenius_norm_is_unbiased_and_per_sample() -> None:
    problem = Affine.random([0.5, 2.0, 8.0], 6)
    exact = problem.weight.square().sum(dim=(1, 2))
    estimate = mdeq.jacobian_norm(problem, problem.zeros(), probes=4000)
    torch.testing.assert_close(estimate, exact, rtol=0.1, atol=0)


def test_frobenius_norm_is_differentiable() -> None:
    """On f = s z the estimate is s^2 D for any probe, so its derivative is 2 s D."""
    scale = torch.tensor(3.0, requires_grad=True)
    mdeq.jacobian_norm(lambda z: scale * z, torch.ones(2, 5)).mean().backward()
    assert scale.grad is not None
    assert scale.grad.item() == pytest.approx(2 * 3.0 * 5)


def test_frobenius_norm_differentiates_through_z_if_z_has_a_graph() -> None:
    z = torch.full((1, 2), 3.0, requires_grad=True)
    mdeq.jacobian_norm(lambda z: z**2, z).sum().backward()  # sum (2 z)^2
    torch.testing.assert_close(z.grad, torch.full((1, 2), 8 * 3.0))


def test_frobenius_norm_can_be_read_without_gradients() -> None:
    net = ConvNet()
    x = torch.randn(2, 2, 4, 4)
    with torch.no_grad():
        estimate = mdeq.jacobian_norm(lambda z: net(z, x), net.zeros(x))
    assert not estimate.requires_grad
    assert (estimate > 0).all()


def test_spectral_radius_of_every_sample() -> None:
    radii = [0.1, 0.9, 1.2, 5.0] * 8
    problem = Affine.random(radii, 100)
    estimate = mdeq.spectral_radius(problem, problem.zeros())
    torch.testing.assert_close(
        estimate, torch.tensor(radii, dtype=torch.float64), rtol=0.05, atol=0
    )


@pytest.mark.parametrize(
    ("matrix", "radius", "accuracy"),
    [
        ([[0.7]], 0.7, 1e-6),
        ([[-0.7]], 0.7, 1e-6),
        ([[0.9, 0.0], [0.0, -0.9]], 0.9, 1e-6),  # two eigenvalues of one size
        ([[0.0, -0.8, 0.0], [0.8, 0.0, 0.0], [0.0, 0.0, 0.3]], 0.8, 1e-6),  # a rotation
        ([[0.0, -0.4], [1.6, 0.0]], 0.8, 0.05),  # an elliptic one
        ([[0.5, 100.0], [0.0, 0.5]], 0.5, 0.03),  # far from normal, and defective
        ([[0.0, 1.0], [0.0, 0.0]], 0.0, 1e-6),  # nilpotent
    ],
)
def test_spectral_radius_where_one_vector_does_not_settle(
    matrix: list[list[float]], radius: float, accuracy: float
) -> None:
    weight = torch.tensor(matrix, dtype=torch.float64)
    estimate = mdeq.spectral_radius(
        lambda z: z @ weight.T, torch.zeros(2, len(matrix), dtype=torch.float64)
    )
    torch.testing.assert_close(
        estimate, torch.full((2,), radius, dtype=torch.float64), rtol=accuracy, atol=1e-6
    )


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_both_tools_work_where_gradients_are_off(mode: type[torch.no_grad]) -> None:
    with mode():
        z = torch.zeros(2, 3)
        torch.testing.assert_close(
            mdeq.spectral_radius(lambda z: 0.7 * z, z), torch.full((2,), 0.7)
        )
        torch.testing.assert_close(
            mdeq.jacobian_norm(lambda z: 0.7 * z, z), torch.full((2,), 3 * 0.49)
        )


def test_both_tools_work_under_autocast() -> None:
    layer = nn.Linear(50, 50)
    z = torch.zeros(2, 50)
    exact = mdeq.spectral_radius(layer, z, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = mdeq.spectral_radius(layer, z, generator=torch.Generator().manual_seed(0))
        assert mdeq.jacobian_norm(layer, z).isfinite().all()
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0)


def test_spectral_radius_of_a_map_that_ignores_its_state_is_zero() -> None:
    x = torch.randn(2, 3)
    estimate = mdeq.spectral_radius(lambda z: x, torch.zeros(2, 3))
    assert estimate.tolist() == [0.0, 0.0]


def test_spectral_radius_of_scales() -> None:
    shapes = [(2, 2), (3,)]
    problem = Affine.random([0.8], 7)
    estimate = mdeq.spectral_radius(
        on_scales(problem, shapes), split_scales(problem.zeros(), shapes), steps=200
    )
    assert estimate.item() == pytest.approx(0.8, rel=0.03)


def test_spectral_radius_says_where_plain_iteration_converges() -> None:
    def f(z: Tensor) -> Tensor:
        return torch.cos(1.2 * z)

    solution = mdeq.solve(f, torch.zeros(1, 1, dtype=torch.float64), tol=1e-12)
    radius = mdeq.spectral_radius(f, solution.z).item()
    assert radius == pytest.approx(1.2 * math.sin(1.2 * solution.z.item()))
    assert radius < 1
    near = solution.z + 0.01
    assert (join_scales([f(near)]) - solution.z).abs() < 0.01


def test_bad_counts_are_errors() -> None:
    with pytest.raises(ValueError, match="probes is 0"):
        mdeq.jacobian_norm(torch.cos, torch.zeros(1, 1), probes=0)
    with pytest.raises(ValueError, match="steps is 0"):
        mdeq.spectral_radius(torch.cos, torch.zeros(1, 1), steps=0)
