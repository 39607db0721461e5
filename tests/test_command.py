"""The command line: what it answers, and what it says when something is wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import mdeq
from tests.commands import TINY, call, finish, start

Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert call("train", "--output", folder, *TINY, "--length", "4 steps") == 0
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestAnswers:
    def test_help_loads_nothing_heavy(self) -> None:
        code = "import sys, mdeq_command as m; m.run(['--help']); sys.exit('torch' in sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        for name in ("train", "evaluate", "predict", "models"):
            assert name in done.stdout

    def test_models_are_listed_with_their_sizes(self, capsys: Said) -> None:
        assert call("models", "mdeq_cifar10*", "--json", "models.json") == 0
        assert "170,610" in capsys.readouterr().out
        listed = json.loads(Path("models.json").read_text())["models"]
        assert [row["name"] for row in listed] == mdeq.list_models("mdeq_cifar10*")

    def test_recipes_are_listed(self, capsys: Said) -> None:
        assert call("train", "--list") == 0
        names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
        assert {"shapes", "cifar10-small", "cifar10", "imagenet-small", "imagenet-xl"} <= {*names}

    @pytest.mark.parametrize("name", ["train", "evaluate", "predict", "models"])
    def test_every_command_has_help(self, capsys: Said, name: str) -> None:
        assert call(name, "--help") == 0
        assert f"usage: mdeq {name}" in capsys.readouterr().out

    def test_predict_names_classes_and_draws_overlays(self, run: Path) -> None:
        noise = np.random.default_rng(0).integers(0, 255, (40, 30), np.uint8)
        Image.fromarray(noise).save("grey.png")
        shutil.copy(run / "samples/0.png", "shape.png")
        Path("folder").mkdir()
        shutil.copy("shape.png", "folder/another.png")
        options = ["--json", "p.json", "--top", 2]
        assert call("predict", run, "grey.png", "shape.png", "folder", *options) == 0
        images = json.loads(Path("p.json").read_text())["images"]
        assert [i["file"] for i in images] == ["grey.png", "shape.png", "folder/another.png"]
        for image in images:
            assert len(image["classification"]) == 2
            assert sum(image["segmentation"]["share"].values()) == pytest.approx(1, abs=1e-5)
            with Image.open(image["segmentation"]["overlay"]) as overlay:
                assert min(overlay.size) > 100

    def test_evaluate_takes_solver_overrides_and_splits(self, run: Path) -> None:
        options = ["--solver.max_steps", 2, "--split", "val", "--json", "e.json"]
        assert call("evaluate", run, *options) == 0
        figures = json.loads(Path("e.json").read_text())
        assert figures["equilibrium"]["steps"] == 2
        assert figures["split"] == "val"
        assert figures["examples"] == 10

    def test_evaluate_shows_how_the_figures_depend_on_the_budget(
        self, run: Path, capsys: Said
    ) -> None:
        assert call("evaluate", run, "--budgets", "true", "--json", "e.json") == 0
        figures = json.loads(Path("e.json").read_text())
        assert [row["max_steps"] for row in figures["budgets"]] == [1, 2, 4, 8, 15, 30]
        trained_with = figures["budgets"][2]  # at most 4 evaluations
        for part in ("classification", "segmentation", "equilibrium"):
            assert trained_with[part] == figures[part]
        assert "2 more follow every solve" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("tolerance", "label"),
        [(1e-30, "not an equilibrium: no image reached 1e-30"), (10, "100 % of the images at an")],
    )
    def test_an_answer_away_from_the_equilibrium_is_labelled(
        self, run: Path, capsys: Said, tolerance: float, label: str
    ) -> None:
        assert call("evaluate", run, "--solver.tol", tolerance) == 0
        assert label in capsys.readouterr().out

    def test_a_run_is_a_model_for_python_too(self, run: Path) -> None:
        last, named = mdeq.load(run).state_dict(), mdeq.load(run / "last").state_dict()
        assert all(torch.equal(last[name], named[name]) for name in named)
        assert mdeq.load(run / "best").config.channels == (4, 8)

    def test_a_new_run_gets_a_folder_of_its_own(self) -> None:
        for folder in ("runs/shapes", "runs/shapes-2"):
            assert call("train", *TINY, "--length", "1 steps") == 0
            assert Path(folder, "summary.png").exists()


WRONG = {
    "no such command": (["trian"], "did you mean 'train'"),
    "no such recipe": (["train", "cifar-10"], "did you mean 'cifar10'"),
    "no such file": (["train", "mine.yaml"], "there is no recipe file mine.yaml"),
    "no such field": (["train", "--optimizer.lr", "1"], "did you mean 'optimiser'"),
    "no such option of train": (["train", "--ouput", "x"], "did you mean 'output'"),
    "no such weights": (["predict", "camvidd", "x.png"], "did you mean 'camvid'"),
    "a field without its section": (["train", "--lr", "1"], "did you mean 'optimiser.lr'"),
    "no number": (["train", "--optimiser.lr", "abc"], "optimiser.lr is 'abc'; expected float"),
    "no such subfield": (["train", "--optimiser.rl", "1"], "did you mean 'optimiser.lr'"),
    "no such model field": (["train", "--model.chanels", "[8]"], "did you mean 'channels'"),
    "no value": (["train", "--model.dropout"], "--model.dropout has no value"),
    "no data": (["train", "cifar10-small"], "needs --data DIR"),
    "no such data": (["train", "cifar10-small", "--data", "none"], "there is no data folder"),
    "empty data": (["train", "folder", "--data", "."], "expected train/CLASS"),
    "nothing to resume": (["train", "--resume", "none"], "holds no run"),
    "resume a recipe": (["train", "shapes", "--resume", "."], "'shapes' cannot be given"),
    "resume and change": (["train", "--resume", ".", "--seed", "1"], "--seed cannot be given"),
    "json nowhere": (["train", "--json", "no/where.json"], "there is no folder"),
    "no such run": (["evaluate", "none"], "there is no run or model none"),
    "not a run": (["evaluate", "."], "data.json"),
    "no such split": (["evaluate", ".", "--split", "dev"], "split"),
    "no such option": (["evaluate", ".", "--batchsize", "3"], "did you mean '--batch-size'"),
    "no arguments": (["evaluate"], "model"),
    "no image": (["predict", "RUN", "none.png"], "there is no file none.png"),
    "no images": (["predict", "RUN", "."], "the folder . has no images"),
    "broken image": (["predict", "RUN", "broken.png"], "broken.png cannot be read"),
    "model without its field": (["train", "--model", "mdeq_cifar10"], "--model.name mdeq_cifar10"),
    "json is a folder": (["models", "--json", "."], "it is a folder"),
    "nothing to do": (["train", "--length", "0 steps"], "at least one step"),
    "no such solver": (["evaluate", "RUN", "--solver.solver", "broydn"], "'broyden'"),
    "no second data": (["evaluate", "RUN", "--second-data", "x"], "for models of two datasets"),
    "no windows": (
        ["evaluate", "RUN", "--window", "[8, 8]"],
        "for data that have masks and nothing",
    ),
    "no windows in training": (
        ["train", "--evaluation.window", "[8, 8]"],
        "for data that have masks",
    ),
    "no memory": (["train", "--model.channels", "[4000000, 8, 8]"], "there is not enough memory"),
    "output over input": (
        ["predict", "RUN", "RUN/samples/0.png", "--output", "RUN/samples"],
        "say --output with another folder",
    ),
    "no such model": (["models", "resnet"], "unknown model 'resnet'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_exits_with_2_and_one_line(run: Path, capsys: Said, case: str) -> None:
    arguments, message = WRONG[case]
    if "broken" in case:
        Path("broken.png").write_bytes(b"no image")
    assert call(*(a.replace("RUN", str(run)) for a in arguments)) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("mdeq")
    assert len(said.splitlines()) == 1, said


@pytest.mark.parametrize("case", ["no such recipe", "no such subfield", "no such data"])
def test_so_does_the_process(tmp_path: Path, case: str) -> None:
    arguments, message = WRONG[case]
    status, said = finish(*arguments, cwd=tmp_path)
    assert status == 2
    assert message in said
    assert len(said.splitlines()) == 1, said


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: Said) -> None:
    tmp_path.chmod(0o555)
    assert call("train", "--output", tmp_path / "run") == 2
    assert "cannot write to" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["file", "file/run", "/proc/run"])
def test_an_output_that_cannot_be_a_folder_is_named(capsys: Said, output: str) -> None:
    Path("file").write_text("")
    assert call("train", "--output", output) == 2
    assert f"cannot write to {output}" in capsys.readouterr().err


def test_a_run_in_use_is_refused(tmp_path: Path, capsys: Said) -> None:
    endless = ["--output", "run", *TINY, "--length", "100000 steps"]
    with start("train", *endless, cwd=tmp_path) as first:
        assert first.stdout is not None
        first.stdout.readline()
        for second in (["--resume", "run"], ["--output", "run"]):
            assert call("train", *second) == 2
            assert "run is in use by another process" in capsys.readouterr().err
        first.kill()


def test_a_run_that_exists_is_not_overwritten(run: Path, capsys: Said) -> None:
    assert call("train", "--output", run) == 2
    assert f"mdeq train --resume {run}" in capsys.readouterr().err


def test_a_checkpoint_of_another_model_is_refused(run: Path, capsys: Said) -> None:
    shutil.copytree(run, "run")
    recipe = Path("run/recipe.yaml")
    recipe.write_text(recipe.read_text().replace("expansion: 2", "expansion: 3"))
    assert call("train", "--resume", "run") == 2
    said = capsys.readouterr().err
    assert "the checkpoint is of another run: its model is" in said
    assert len(said.splitlines()) == 1, said
