"""The paper's tables and figures: what is measured is right, said in words, and found again."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

import mdeq
from mdeq.bench import Spread
from mdeq.cli.options import split_overrides
from mdeq.cli.train import read_recipe, train_parser
from mdeq.models import configure
from mdeq.reproduce import REPRODUCTIONS, TABLES, Outcome, Setting
from mdeq.reproduce.changes import NEVER, as_curve, evaluations_until, relative_changes
from mdeq.reproduce.convergence import longer, steadier
from mdeq.reproduce.dynamics import most_accurate
from mdeq.reproduce.efficiency import faster, saves, slower
from mdeq.reproduce.images import picture
from mdeq.reproduce.memory import flat
from mdeq.reproduce.multiscale import claims as scale_claims
from mdeq.reproduce.training import MODELS as COMPARED
from mdeq.reproduce.training import _recipe, trained
from mdeq.solvers import SolverConfig
from tests.commands import call
from tests.test_data import write_cifar10

LINES = [
    pytest.param(table, entry, id=f"{name}-{entry.name}")
    for name, table in TABLES.items()
    for entry in table.entries
    if entry.model is not None
]


@pytest.mark.parametrize(("table", "entry"), LINES)
def test_what_trains_a_network_is_a_command(table, entry) -> None:
    program, command, recipe, *options = shlex.split(table.command(entry))
    assert (program, command) == ("mdeq", "train")
    typed, overrides = split_overrides(options, ("model", "dataset", "tasks"))
    trained = read_recipe(train_parser(), recipe, typed, overrides)
    assert trained.model_config({}) == configure(entry.model)
    assert trained.dataset["name"] == table.dataset


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduced")
    assert call("reproduce", *TABLES, "--runs", folder, "--output", folder) == 0
    return folder / "quick"


@pytest.mark.parametrize("name", TABLES)
def test_sizes_are_the_papers_within_5_percent_or_explained(name: str, written: Path) -> None:
    figures = json.loads((written / f"{name}.json").read_text())["figures"]
    assert len(figures["entries"]) == len(TABLES[name].entries)
    for entry in figures["entries"]:
        if entry["parameters"] is not None:
            size = entry["parameters"] / 1e6
            assert size == pytest.approx(entry["size"], rel=0.05) or entry["note"], entry["name"]
    assert (written / f"{name}.png").stat().st_size > 10_000


def test_weights_that_ship_have_their_figure_in_the_table(written: Path) -> None:
    entries = json.loads((written / "cifar10.json").read_text())["figures"]["entries"]
    (ours,) = (entry for entry in entries if entry["ours"])
    assert ours["name"] == "MDEQ-small"
    assert ours["where"] == "ships as cifar10"
    assert ours["ours"] == [pytest.approx(84.95)]


@pytest.mark.filterwarnings("ignore:the files in")
def test_a_run_of_ones_own_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_cifar10(tmp_path / "data")
    short = ["--batch_size", 5, "--length", "2 steps", "--data", tmp_path / "data"]
    assert call("train", "cifar10-resnet", *short) == 0
    other = [
        "--model.channels",
        "[8, 8, 8, 8]",
        "--output",
        "runs/other",
    ]  # no ResNet-18 of table 1
    assert call("train", "cifar10-resnet", *short, *other) == 0
    capsys.readouterr()
    assert call("reproduce", "cifar10") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "runs/cifar10" in line)
    assert line.startswith("ResNet-18 ")
    assert "runs/cifar10-resnet (test, 2 steps)" in line
    assert (tmp_path / "reproduced" / "quick" / "cifar10.png").exists()


def test_names_are_listed_with_what_they_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", "--list") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [*TABLES, "dynamics", "efficiency", "convergence", "multiscale", "memory",
                     "qualitative"]  # fmt: skip


def test_changes_of_z_are_those_of_a_plain_loop() -> None:
    torch.manual_seed(0)
    model = mdeq.create_model("mdeq_cifar10_small").eval()
    images = torch.randn(2, 3, 32, 32)
    solver = SolverConfig(solver="picard", tol=NEVER, max_steps=6)
    whole = relative_changes(model, images, solver)
    scales = relative_changes(model, images, solver, by_scale=True)
    with torch.no_grad():
        x = model.injection(images)
        states = [model.f.start(x)]
        for _ in range(5):
            states.append(model.f.at(x)(states[-1]))
    for k in range(5):
        moved = [
            (after - before).flatten(1)
            for before, after in zip(states[k], states[k + 1], strict=True)
        ]
        now = [scale.flatten(1) for scale in states[k + 1]]
        expected = [m.norm(dim=1) / n.norm(dim=1) for m, n in zip(moved, now, strict=True)]
        torch.testing.assert_close(scales[k], torch.stack(expected, dim=1))
        of_all = torch.cat(moved, dim=1).norm(dim=1) / torch.cat(now, dim=1).norm(dim=1)
        torch.testing.assert_close(whole[k, :, 0], of_all)


def test_where_f_is_not_finite_there_is_no_change_to_report() -> None:
    torch.manual_seed(0)
    model = mdeq.create_model("mdeq_cifar10_small").eval()
    for parameter in model.f.parameters():
        parameter.data.fill_(torch.nan)
    solver = SolverConfig(solver="picard", tol=NEVER, max_steps=6)
    changes = relative_changes(model, torch.randn(1, 3, 32, 32), solver)
    assert changes.shape == (5, 1, 1)
    assert as_curve(changes[:, 0, 0]) == [None] * 5


@pytest.mark.parametrize(
    ("curve", "evaluations"),
    [
        ([0.5, 0.005, 0.001], 3),
        ([0.5, 0.005, 0.02, 0.001], 5),  # it had moved again
        ([0.5, 0.005, 0.02], None),
        ([0.5, None, None], None),
        ([0.001], 2),
    ],
)
def test_z_has_settled_when_it_no_longer_moves(
    curve: list[float | None], evaluations: int | None
) -> None:
    assert evaluations_until(curve) == evaluations


@pytest.mark.parametrize(
    ("needed", "holds"),
    [
        ((20, 20, 30), True),
        ((20, 30, None), True),
        ((30, 30, None), True),
        ((20, 20, 20), False),
        ((20, 40, 30), False),
        ((None, 50, 60), False),
        ((20, None, None), None),
    ],
)
def test_whether_larger_images_need_more_steps(needed, holds) -> None:
    found = longer({str(k): (n, 120) for k, n in enumerate(needed)})
    assert found.holds is holds


def test_a_size_whose_smaller_budget_ended_first_leaves_the_order_open() -> None:
    assert longer({"small": (20, 60), "middle": (None, 60), "large": (100, 120)}).holds is None
    assert longer({"small": (20, 60), "middle": (None, 60), "large": (50, 120)}).holds is False


@pytest.mark.parametrize(
    ("cases", "holds"),
    [
        ([(10, 20), (None, None)], True),
        ([(10, None)], True),
        ([(10, 20), (30, 20)], False),
        ([(None, None)], None),
    ],
)
def test_whether_broyden_is_steadier(cases, holds) -> None:
    assert steadier({str(case): (*case, 60) for case in cases}).holds is holds


@pytest.mark.parametrize(
    ("needed", "first", "faster_than_single"),
    [
        ((30, 20, 10, 40), True, True),
        ((30, 30, 10, 20), True, False),
        ((30, 30, 30, 30), False, False),
        ((None, 20, 10, None), True, None),
        ((None, None, 10, 20), None, False),
        ((10, None, None, 20), False, True),
    ],
)
def test_whether_coarse_scales_are_first(needed, first, faster_than_single) -> None:
    found = scale_claims(dict(zip("abcd", needed, strict=True)))
    assert [claim.holds for claim in found] == [first, faster_than_single]


@pytest.mark.parametrize(
    ("ours", "ode", "images", "holds"),
    [(60.0, 50.0, 1000, True), (60.0, 58.0, 300, None), (40.0, 60.0, 1000, False)],
)
def test_a_lead_that_chance_explains_decides_nothing(ours, ode, images, holds) -> None:
    final = dict.fromkeys(COMPARED.values(), (ode, images))
    final |= {"MDEQ-small": (ours, images), "ResNet-18": (99.0, images)}
    assert most_accurate(final).holds is holds


def test_a_lead_over_models_that_were_not_trained_decides_nothing() -> None:
    found = most_accurate({"MDEQ-small": (60.0, 1000), "single-stream DEQ": (50.0, 1000)})
    assert found.holds is None
    assert "augmented Neural ODE not trained" in found.seen


def test_what_efficiency_claims() -> None:
    peaks = {"mdeq_cifar10": 30.0, "fast:mdeq_cifar10": 35.0, "resnet101_cifar10": 100.0}
    peaks["resnet18_cifar10"] = 15.0
    assert saves({**peaks, "densenet121_cifar10": 100.0}).holds is True
    assert "needs 2.0 times that of ResNet-18" in saves({**peaks, "densenet121_cifar10": 60.0}).seen
    assert saves({**peaks, "densenet121_cifar10": 60.0}).holds is False
    mean = Spread(2.0, 1.5, 2.5)
    times = {"mdeq_cifar10_small": Spread(1, 0.9, 1.1), "fast:mdeq_cifar10_small": mean}
    assert faster({**times, "anode_cifar10": mean}).holds is True
    assert faster({**times, "anode_cifar10": Spread(1.05, 1.0, 1.2)}).holds is None
    assert faster({**times, "anode_cifar10": Spread(0.5, 0.4, 0.6)}).holds is False
    assert "torchdiffeq" in faster(times).seen
    for ours, holds in (
        (mean, True),
        (Spread(1.0, 0.9, 1.1), None),
        (Spread(0.5, 0.4, 0.6), False),
    ):
        assert slower({"mdeq_cifar10": ours, "fast:mdeq_cifar10": mean}).holds is holds


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("dynamics", {"MDEQ-small": {"epochs": [1, 2], "held_out": [10.0, 20.0]}}),
        ("efficiency", {"MDEQ": {"time": 1.6, "memory": 0.3}}),
        ("memory", {"depths": [5, 15], "equilibrium": [19, 23], "unrolled": [48, 126]}),
    ],
)
def test_pictures_name_what_their_axes_and_lines_are(name: str, figures: dict[str, Any]) -> None:
    outcome = Outcome(title="a figure", caption="", columns=[], rows=[], figures=figures)
    (axes,) = REPRODUCTIONS[name].draw(outcome).axes
    assert axes.get_xlabel()
    assert axes.get_ylabel() or "MDEQ" in [tick.get_text() for tick in axes.get_yticklabels()]
    assert axes.get_legend() is not None
    assert axes.get_title() == "a figure"


def test_what_memory_claims() -> None:
    unrolled = [10.0, 30, 60, 120, 240]
    assert flat([19.0, 23, 23, 23, 23], unrolled).holds is True
    assert flat([19.0, 23, 23, 24, 26], unrolled).holds is False


@pytest.mark.parametrize("model", COMPARED)
def test_in_full_every_model_has_the_papers_recipe(model: str) -> None:
    recipe = _recipe(model, Setting(budget="full"))
    assert (recipe.model["name"], recipe.length, recipe.batch_size) == (model, "50 epochs", 128)


def test_what_was_measured_is_shown_again_until_something_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("reproduce", "qualitative") == 0
    first = capsys.readouterr().out
    assert "pixels right" in first
    assert "measured before" not in first
    assert call("reproduce", "qualitative") == 0
    assert "measured before" in capsys.readouterr().out
    (tmp_path / "reproduced" / "quick" / "qualitative.json").write_text('{"claims": []}')
    assert call("reproduce", "qualitative") == 0  # what another version wrote
    assert "measured before" not in capsys.readouterr().out
    street = picture("camvid")
    assert call("reproduce", "qualitative", "--camvid", street) == 0
    assert "measured before" not in capsys.readouterr().out
    page = (tmp_path / "reproduced" / "quick" / "results.md").read_text()
    assert "![Street scenes, segmented (appendix)](qualitative.png)" in page
    assert "`mdeq reproduce qualitative --budget quick --camvid DIR`" in page


def test_models_are_trained_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("reproduce", "multiscale", "--minutes", "0.01") == 0
    assert "lower-resolution scales converge first" in capsys.readouterr().out
    outcome = json.loads((tmp_path / "reproduced" / "quick" / "multiscale.json").read_text())
    assert [len(curve) for curve in outcome["figures"].values()] == [59] * 4
    page = (tmp_path / "reproduced" / "quick" / "results.md").read_text()
    assert page.startswith("### The paper's claims")
    assert "[Convergence of every scale (appendix)](#convergence-of-every-scale-appendix)" in page
    runs = sorted((tmp_path / "reproduced" / "runs").iterdir())
    assert [run.name.split("-")[0] for run in runs] == ["deq_cifar10_small", "mdeq_cifar10_small"]


def test_a_model_is_trained_once_and_an_interrupted_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = Setting(output=tmp_path, minutes=0.01)
    first = trained("resnet18_cifar10_small", setting)
    assert first.epochs == sorted(first.epochs)
    assert len(first.held_out) == 4
    assert "steps, in" in capsys.readouterr().out
    assert trained("resnet18_cifar10_small", setting) == first
    assert capsys.readouterr().out == ""
    (Path(first.folder) / "learnt.json").unlink()  # as if it had been stopped before its end
    again = trained("resnet18_cifar10_small", setting)
    assert (again.steps, again.held_out) == (first.steps, first.held_out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected names of --list, or all"),
        (["cifar"], "did you mean 'cifar10'"),
        (["dynamics", "--minutes", "0"], "minutes is 0"),
        (["all", "--camvid", "nowhere"], "there is no data folder nowhere"),
        (["memory", "--minutes", "2"], "--minutes is for dynamics, multiscale"),
        (["cifar10", "--runs", "nowhere"], "there is no folder nowhere"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", *arguments) == 2
    assert message in capsys.readouterr().err
