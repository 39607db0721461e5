"""The paper's tables: every line can be trained, sizes are explained, our figures are found."""

import json
import shlex
from pathlib import Path

import pytest

from mdeq.cli.options import split_overrides
from mdeq.cli.train import read_recipe, train_parser
from mdeq.models import configure
from mdeq.reproduce import TABLES
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
    assert call("reproduce", "all", "--runs", folder / "none", "--output", folder) == 0
    return folder


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
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "runs/" in line)
    assert line.startswith("ResNet-18 ")
    assert "runs/cifar10-resnet (test, 2 steps)" in line
    assert (tmp_path / "reproduced" / "cifar10.png").exists()


def test_names_are_listed_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", "--list") == 0
    assert capsys.readouterr().out.split() == ["cifar10", "imagenet", "cityscapes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "expected names of --list, or all"), (["cifar"], "did you mean 'cifar10'")],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", *arguments) == 2
    assert message in capsys.readouterr().err
