"""A solve that fails says so, in the way the user chose; a backward solve can be listened to."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mdeq

SHORT = {"tol": 1e-9, "max_steps": 3}
LONG = {"tol": 1e-9, "max_steps": 100}


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(0.5 * self.linear(z) + x)


def equilibrium(forward: dict[str, float], backward: dict[str, float], **how: object) -> Tensor:
    layer, x = Layer().double(), torch.randn(4, 5, dtype=torch.float64)
    z, _ = mdeq.fixed_point(
        lambda z: layer(z, x),
        torch.zeros_like(x),
        forward=forward,
        backward=backward,
        **how,
    )
    return z


def test_a_failed_forward_solve_warns_by_default() -> None:
    with pytest.warns(
        mdeq.ConvergenceWarning,
        match=r"forward solve .* 4 of 4 samples: relative residual up to 0\.\d+, "
        r"tolerance 1e-09, with a budget of 3 evaluations of 'broyden'. Raise max_steps",
    ):
        equilibrium(SHORT, LONG)


def test_a_failed_backward_solve_warns_by_default() -> None:
    z = equilibrium(LONG, SHORT)
    with pytest.warns(mdeq.ConvergenceWarning, match="backward solve .* budget of 3"):
        z.sum().backward()


def test_a_warning_points_at_the_callers_line() -> None:
    with pytest.warns(mdeq.ConvergenceWarning) as caught:
        equilibrium(SHORT, LONG)
    with pytest.warns(mdeq.ConvergenceWarning) as caught_in_backward:
        equilibrium(LONG, SHORT).sum().backward()
    assert caught[0].filename == caught_in_backward[0].filename == __file__


def test_a_warning_says_where_f_was_not_finite() -> None:
    with pytest.warns(mdeq.ConvergenceWarning, match="For 1 of them f was not finite"):
        mdeq.fixed_point(lambda z: z + torch.tensor([[0.0], [torch.nan]]), torch.ones(2, 3))


def test_failure_can_raise_in_either_direction() -> None:
    with pytest.raises(mdeq.ConvergenceError, match="forward solve") as caught:
        equilibrium(SHORT, LONG, on_failure="raise")
    assert caught.value.solution.steps.tolist() == [3] * 4
    z = equilibrium(LONG, SHORT, on_failure="raise")
    with pytest.raises(mdeq.ConvergenceError, match="backward solve"):
        z.sum().backward()


def test_failure_can_be_ignored() -> None:
    equilibrium(SHORT, SHORT, on_failure="ignore").sum().backward()  # warnings are errors here


def test_the_backward_solution_reaches_the_caller() -> None:
    heard: list[mdeq.Solution[Tensor]] = []
    z = equilibrium(LONG, LONG, on_backward=heard.append)
    assert heard == []
    z.sum().backward()
    (solution,) = heard
    assert solution.converged.all()
    assert solution.z.shape == (4, 5)
    assert (solution.residual <= 1e-9).all()


def test_the_backward_solution_comes_in_scales() -> None:
    heard: list[mdeq.Solution[list[Tensor]]] = []
    x = torch.randn(2, 3, requires_grad=True)
    z, _ = mdeq.fixed_point(
        lambda z: [0.5 * z[0] + x, 0.5 * z[1] + z[0].mean(dim=1)],
        [torch.zeros(2, 3), torch.zeros(2)],
        on_backward=heard.append,
    )
    z[1].sum().backward()
    assert [tuple(scale.shape) for scale in heard[0].z] == [(2, 3), (2,)]


def train_and_watch(backward: str, *, run_backward: bool) -> list[weakref.ref[Any]]:
    """Use an equilibrium, and return weak references to all that took part in it."""
    layer, x = Layer(), torch.randn(4, 5)
    z, solution = mdeq.fixed_point(lambda z: layer(z, x), torch.zeros(4, 5), backward=backward)
    layer.last = z  # a layer that keeps its own output
    if run_backward:
        z.sum().backward()
    return [weakref.ref(part) for part in (layer, layer.linear.weight, x, z, solution.z)]


@pytest.mark.parametrize("run_backward", [True, False])
@pytest.mark.parametrize("backward", ["implicit", "phantom", "one_step", "unrolled"])
def test_everything_is_freed_without_the_garbage_collector(
    backward: str, run_backward: bool
) -> None:
    gc.disable()
    try:
        watched = train_and_watch(backward, run_backward=run_backward)
        assert [ref() for ref in watched] == [None] * len(watched)
    finally:
        gc.enable()


def test_no_second_copy_of_the_layer_and_no_hooks_stay_behind() -> None:
    layer, x = Layer(), torch.randn(4, 5)
    before = set(layer.state_dict())
    z, _ = mdeq.fixed_point(lambda z: layer(z, x), torch.zeros(4, 5))
    z.sum().backward()
    assert set(layer.state_dict()) == before
    assert not z._backward_hooks
    assert not layer._forward_hooks
    assert not layer._backward_hooks
