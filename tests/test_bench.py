"""Measuring: the peer solves the same problem, the parts add up, the command says what it saw."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch

import mdeq
from mdeq.bench import Contestant, TorchDEQ, apart, compare_solvers, interleaved, parts_of_step
from mdeq.bench.peers import PlainTransformation
from mdeq.bench.timing import Spread, ratios
from mdeq.cli.bench import with_counterparts
from mdeq.models import MDEQConfig
from mdeq.solvers import SolverConfig
from tests.commands import call
from tests.problems import contract

CPU = torch.device("cpu")


def tiny(**overrides: object) -> MDEQConfig:
    """A tiny model of two scales, solved to the last digit."""
    settings = {
        "channels": (4, 8),
        "groups": 2,
        "head_channels": (2, 2),
        "head_width": 8,
        "solver": SolverConfig(max_steps=60, tol=1e-10),
        "backward": {"mode": "implicit", "max_steps": 60, "tol": 1e-10},
    }
    return MDEQConfig(**{**settings, **overrides})


def test_the_plain_f_is_the_same_function() -> None:
    torch.manual_seed(0)
    model = mdeq.MDEQ(tiny(initialisation="fan_in")).double()
    x = torch.randn(2, 4, 8, 8, dtype=torch.float64)
    z = [torch.randn_like(scale) for scale in model.f.start(x)]
    for ours, plain in zip(model.f(z, x), PlainTransformation(model.f)(z, x), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)


def test_torchdeq_finds_the_same_equilibrium_and_gradient() -> None:
    torch.manual_seed(0)
    ours = contract(mdeq.MDEQ(tiny())).double()
    torch.manual_seed(0)
    theirs = contract(TorchDEQ(tiny())).double()
    images = torch.randn(3, 3, 8, 8, dtype=torch.float64)
    for model in (ours, theirs):
        model(images).square().sum().backward()
    torch.testing.assert_close(theirs(images), ours(images), rtol=1e-6, atol=1e-8)
    own = ours.f.blocks[0].conv1.weight_v.grad
    peer = theirs.f.blocks[0].conv1.weight_v.grad
    torch.testing.assert_close(peer, own, rtol=1e-4, atol=1e-8)


def test_torchdeq_is_for_broyden_and_implicit_gradients() -> None:
    with pytest.raises(ValueError, match="measured with Broyden's method and the implicit"):
        TorchDEQ(tiny(backward={"mode": "phantom"}))


def test_every_work_comes_once_a_turn_and_first_in_turn() -> None:
    order: list[str] = []

    def work(name: str) -> float:
        order.append(name)
        return float(len(order))

    works = {name: partial(work, name) for name in "abc"}
    times = interleaved(works, turns=3, title="", warmups=0)
    assert order == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert times == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}


def test_ratios_are_taken_turn_by_turn() -> None:
    assert ratios([2.0, 20.0, 3.0], [1.0, 10.0, 1.0]) == Spread(2.0, 2.0, 2.5)
    assert f"{Spread(2.0, 1.5, 2.5):.1f}" == "2.0 (1.5 to 2.5)"


def test_the_parts_of_a_step_add_up_and_are_all_there() -> None:
    contestant = Contestant("official_cifar10_tiny", batch_size=2, image_size=8, device=CPU)
    parts = {part.name: part for part in parts_of_step(contestant, turns=1)}
    assert sum(part.share for part in parts.values()) == pytest.approx(1)
    assert all(part.seconds > 0 for part in parts.values())


def test_every_solver_reaches_the_residual_that_is_asked_for() -> None:
    torch.manual_seed(0)
    model = contract(mdeq.MDEQ(tiny()))
    results = compare_solvers(
        model, torch.randn(3, 3, 8, 8), tols=(1e-2,), turns=1, reference="anderson", device=CPU
    )
    assert [r.solver for r in results] == [
        "broyden", "anderson", "torchdeq broyden", "torchdeq anderson",
    ]  # fmt: skip
    assert all(r.residual <= 1.01e-2 for r in results)


def where(number: int) -> tuple[int, int]:
    """Which process this is, and what lives there."""
    return os.getpid(), number


def end(number: int) -> None:
    """End the process, as the system does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_is_apart_lives_in_a_process_of_its_own() -> None:
    with apart({"one": partial(int, "1"), "two": partial(int, "2")}) as things:
        (first, one), (second, two) = (thing.do(where) for thing in things.values())
        assert (one, two) == (1, 2)
        assert len({first, second, os.getpid()}) == 3
        with pytest.raises(OSError, match="the process of two was killed"):
            things["two"].do(end)


def test_a_peer_is_measured_beside_the_model_itself() -> None:
    assert with_counterparts(["torchdeq:a", "b"]) == ["torchdeq:a", "b", "a"]
    assert with_counterparts(["b", "torchdeq:a", "a"]) == ["b", "torchdeq:a", "a"]


def test_the_command_compares_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    names = ["fast:mdeq_cifar10_small", "resnet18_cifar10_small"]
    options = ["--batch-size", 2, "--image-size", 8, "--turns", 1, "--parts", "true"]
    assert call("bench", *names, *options, "--json", file) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in names)
    figures = json.loads(file.read_text())
    first, second = figures["rows"]
    assert [first["name"], second["name"]] == names
    assert first["seconds"] == first["train"]["seconds"]["median"] > 0
    assert first["peak_mb"] == first["train"]["bytes"] / 1e6
    assert second["train"]["seconds_ratio"]["median"] == 1
    assert first["train"]["bytes"] > first["infer"]["bytes"] > 0
    assert list(figures["parts"]) == names[:1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected names of models, or --solvers RUN"),
        (["mdeq_cifar10", "--solvers", "x"], "expected names of models, or --solvers RUN"),
        (["mdeq_cifar"], "did you mean 'mdeq_cifar10'"),
        (["torchdeq:resnet18_cifar10"], "no equilibrium for torchdeq to find"),
        (["mdeq_cifar10", "--turns", "0"], "--turns is 0; expected at least 1"),
        (["--solvers", "nowhere"], "there is no run or model nowhere"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bench", *arguments) == 2
    assert message in capsys.readouterr().err
