"""Mistakes of the caller's: each says what came, what was expected and what to do."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mdeq
from mdeq.implicit import backward_mode


def halve(z: Tensor) -> Tensor:
    return 0.5 * z + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "broyden2"}, "unknown solver 'broyden2'; did you mean 'broyden'?"),
        ({"solver": "newton-raphson"}, "unknown solver .* choices: anderson, broyden, picard"),
        ({"max_iters": 5}, "unknown option of 'broyden' 'max_iters'; did you mean 'max_steps'?"),
        ({"ridge": 1e-3}, "unknown option of 'broyden' 'ridge'; .*alpha"),
        ({"solver": "anderson", "alpha": 0.5}, "unknown option of 'anderson' 'alpha'"),
        ({"solver": "picard", "memory": 5}, "memory=5 does nothing for 'picard'"),
        ({"max_steps": 0}, "max_steps is 0; expected a whole number, at least 1"),
        ({"max_steps": 2.5}, r"max_steps is 2\.5; expected a whole number"),
        ({"max_steps": True}, "max_steps is True; expected a whole number"),
        ({"check_every": 0}, "check_every is 0; expected a whole number, at least 1"),
        ({"memory": 0}, "memory is 0; expected a whole number, at least 1"),
        ({"tol": 0.0}, r"tol is 0\.0; expected a number above 0"),
        ({"tol": -1e-3}, r"tol is -0\.001; expected a number above 0"),
        ({"tol": float("nan")}, "tol is nan; expected a number above 0"),
        ({"tol": "1e-3"}, "tol is '1e-3'; expected a number above 0"),
        ({"tol": True}, "tol is True; expected a number above 0"),
        ({"tolerance": 1e-3}, "unknown option of 'broyden' 'tolerance'; did you mean 'tol'?"),
        ({"alpha": "1"}, "alpha is '1'; expected a number above 0"),
        ({"solver": {"solver": "picard"}}, "unknown solver {'solver': 'picard'}"),
        ({"solver": "newton"}, "unknown solver 'newton'; choices: anderson, broyden, picard"),
        ({"options": ["alpha"]}, r"options is \['alpha'\]; expected a mapping"),
        ({"stop": "rel"}, "unknown stop 'rel'; did you mean 'relative'?"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mdeq.solve(halve, torch.zeros(2, 3), **settings)


@pytest.mark.parametrize(
    ("z0", "message"),
    [
        (torch.zeros(0, 3), r"z0 is empty, shape \(0, 3\); expected at least one sample"),
        (torch.zeros(2, 0), r"z0 is empty, shape \(2, 0\)"),
        (torch.zeros(2, 3, dtype=torch.int64), r"z0 is int64; expected a floating-point state"),
        (torch.zeros(2, 3, dtype=torch.complex64), "z0 is complex64; expected a floating"),
        (torch.tensor(1.0), "z0 has no batch dimension"),
        ([], "z0 is empty; expected at least one scale"),
        (3.0, "z0 is a float; expected a tensor"),
        ([torch.zeros(2), 1.0], "z0 is a list of Tensor, float; expected"),
        ([torch.zeros(2, 3), torch.zeros(3, 3)], "scale 1 of z0 has batch size 3, scale 0 has 2"),
        ([torch.zeros(2), torch.zeros(2).double()], "scale 1 of z0 is float64 .* float32"),
        ([torch.zeros(2), torch.zeros(2, 0)], "scale 1 of z0 is empty"),
    ],
)
def test_wrong_states(z0: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mdeq.solve(halve, z0)
    with pytest.raises(ValueError, match=message):
        mdeq.fixed_point(halve, z0)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda z: z[:, :2], r"changed the shape of the state from \(2, 3\) to \(2, 2\)"),
        (lambda z: z.double(), "changed the dtype of the state from float32 to float64"),
        (lambda z: [z], "was given a tensor and returned a list of 1 tensors"),
        (lambda z: None, "the result of f is a NoneType; expected a tensor"),
        (lambda z: z.mul_(0.5), "f modified its argument in place"),
    ],
)
def test_an_f_that_is_no_map_of_the_state(f: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mdeq.solve(f, torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda z: z[0], "was given a list of 2 tensors and returned a tensor"),
        (lambda z: z[:1], "was given a list of 2 tensors and returned a list of 1 tensors"),
        (lambda z: z[::-1], r"changed the shape of scale 0 from \(2, 3\) to \(2, 4\)"),
    ],
)
def test_an_f_that_is_no_map_of_the_scales(f: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mdeq.solve(f, [torch.zeros(2, 3), torch.zeros(2, 4)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backward": "implict"}, "unknown backward mode 'implict'; did you mean 'implicit'?"),
        ({"backward": {"mode": "phantom", "step": 3}}, "did you mean 'steps'?"),
        ({"backward": {"mode": "phantom", "steps": 0}}, "steps is 0; expected a whole number"),
        (
            {"backward": {"mode": "phantom", "tau": 1.5}},
            "expected a number above 0 and at most 1",
        ),
        ({"backward": {"mode": "unrolled", "steps": -1}}, "steps is -1"),
        ({"backward": {"mode": "one_step", "tau": 1.0}}, "unknown option of 'one_step' 'tau'"),
        ({"backward": {"max_step": 3}}, "did you mean 'max_steps'?"),
        ({"backward": {"mode": "one_step", "steps": 1}}, "'one_step' 'steps'; choices: none"),
        ({"backward": None}, "backward is None; expected a mode's name, a mapping"),
        ({"backward": mdeq.Phantom}, "backward is <class .* expected a mode's name"),
        ({"backward": mdeq.SolverConfig()}, "backward is SolverConfig.* expected a mode's name"),
        ({"forward": None}, "forward is None; expected a solver's name, a mapping"),
        ({"on_backward": []}, r"on_backward is \[\]; expected a function"),
        ({"forward": "andersen"}, "did you mean 'anderson'?"),
        ({"forward": {"tolerance": 3}}, "unknown option of 'broyden' 'tolerance'"),
        ({"on_failure": "warning"}, "unknown on_failure 'warning'; did you mean 'warn'?"),
    ],
)
def test_wrong_ways_to_differentiate(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mdeq.fixed_point(halve, torch.zeros(2, 3), **settings)


def test_a_mode_that_is_none_at_all() -> None:
    with pytest.raises(ValueError, match="unknown backward mode 'newton'; choices: implicit"):
        backward_mode("newton")


def test_an_f_that_is_no_function() -> None:
    with pytest.raises(ValueError, match="f is 3; expected a function"):
        mdeq.solve(3, torch.zeros(2, 3))


def test_a_solver_that_proposes_nonsense() -> None:
    mdeq.register_solver("test-nothing")(lambda z0, max_steps: lambda z, fz, r: None)
    mdeq.register_solver("test-shape")(lambda z0, max_steps: lambda z, fz, r: z[:, :1])
    with pytest.raises(ValueError, match=r"the solver proposed NoneType; expected a tensor \(2, 3"):
        mdeq.solve(halve, torch.zeros(2, 3), "test-nothing")
    with pytest.raises(ValueError, match=r"proposed torch.Size\(\[2, 1\]\); expected"):
        mdeq.solve(halve, torch.zeros(2, 3), "test-shape")


def test_registering_without_a_name() -> None:
    with pytest.raises(ValueError, match="say @register_solver"):
        mdeq.register_solver(lambda z0, max_steps: None)


def test_counts_of_numpy_are_counts() -> None:
    assert mdeq.solve(halve, torch.zeros(2, 3), max_steps=np.int64(30)).converged.all()


def test_the_jacobian_tools_name_their_own_argument() -> None:
    with pytest.raises(ValueError, match="z is a Solution; expected a tensor"):
        mdeq.spectral_radius(halve, mdeq.solve(halve, torch.zeros(2, 3)))
