"""`mdeq train` as people use it: to its end, killed, interrupted, out of space, diverging."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mdeq
from mdeq.engine.checkpoint import (
    CheckpointError,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from mdeq.engine.learner import coarsened
from tests.commands import TINY, assert_same_weights, call, finish, records, start, state, train

EXACT = ["--workers", "2", "--ema", "0.9", "--save_minutes", "0"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return train(folder, "run", *EXACT, "--json", "figures.json")


class TestWhole:
    def test_leaves_everything_in_its_folder(self, whole: Path) -> None:
        left = {path.name for path in whole.iterdir() if not path.name.startswith(".")}
        assert left == {
            "best", "last", "last.ckpt", "previous.ckpt", "metrics.jsonl", "recipe.yaml", "samples",
            "summary.png", "tensorboard",
        }  # fmt: skip

    def test_reports_the_figures_of_both_tasks(self, whole: Path) -> None:
        figures = json.loads((whole.parent / "figures.json").read_text())
        assert set(figures["classification"]) == {"top1", "top5"}
        assert list(figures["segmentation"]["iou"])[:2] == ["ground", "circle"]
        weights = mdeq.load(whole / "last").parameters()
        assert figures["parameters"] == sum(weight.numel() for weight in weights)
        assert figures["seconds"] > 0

    def test_evaluate_finds_the_same_figures_at_any_batch_size(
        self, whole: Path, tmp_path: Path
    ) -> None:
        file = tmp_path / "figures.json"
        assert call("evaluate", whole, "--batch-size", 3, "--json", file) == 0
        first, again = (json.loads(f.read_text()) for f in (whole.parent / "figures.json", file))
        for task in ("classification", "segmentation"):
            assert again[task] == first[task]

    def test_records_hold_forward_and_scale_figures(self, whole: Path) -> None:
        trained = [record["train"] for record in records(whole) if "train" in record]
        assert {"loss", "residual", "evaluations", "change_of_scale_0", "change_of_scale_1"} <= set(
            trained[0]
        )
        assert [record["step"] for record in records(whole) if "val" in record] == [4, 8, 12]

    def test_the_resolved_recipe_gives_the_same_weights(self, whole: Path, tmp_path: Path) -> None:
        status, said = finish("train", whole / "recipe.yaml", "--output", "again", cwd=tmp_path)
        assert status == 0, said
        assert_same_weights(whole, tmp_path / "again")

    def test_resumed_after_its_end_it_stays_as_it_is(self, whole: Path, tmp_path: Path) -> None:
        before = (whole / "last.ckpt").read_bytes()
        assert call("train", "--resume", whole) == 0
        assert (whole / "last.ckpt").read_bytes() == before


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return
    pytest.fail("".join(seen))


def test_killed_and_resumed_a_run_ends_with_the_same_weights(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with start("train", "--output", "run", *TINY, *EXACT, cwd=tmp_path) as process:
        wait_for(process, "step 4/12")
        process.kill()
    assert not (run / "summary.png").exists()
    status, said = finish("train", "--resume", "run", cwd=tmp_path)
    assert status == 0, said
    assert_same_weights(whole, run)
    assert [r["step"] for r in records(run)] == [r["step"] for r in records(whole)]


def test_killed_before_its_first_checkpoint_a_run_can_be_resumed(
    whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(whole / "recipe.yaml", run)
    status, said = finish("train", "--resume", "run", cwd=tmp_path)
    assert status == 0, said
    assert_same_weights(whole, run)


def test_a_new_run_tells_of_one_that_has_not_come_to_its_end(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = tmp_path / "runs" / "shapes"
    first.mkdir(parents=True)
    shutil.copy(whole / "recipe.yaml", first)
    assert call("train", *TINY) == 0
    assert "train --resume runs/shapes" in capsys.readouterr().out
    assert call("train", *TINY) == 0  # the last one is runs/shapes-2, which is finished
    assert "--resume" not in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    options = ["--save_minutes", "60", "--length", "100000 steps", "--workers", "1"]
    train = ["train", "--output", "run", *TINY, *options]
    with start(*train, cwd=tmp_path, start_new_session=True) as process:
        wait_for(process, "step 4/")
        os.killpg(process.pid, number)  # a terminal sends Ctrl-C to the workers too
        assert process.stdout is not None
        said = process.stdout.read()
    assert process.returncode == 128 + number
    assert "to go on: mdeq train --resume run" in said
    assert "Traceback" not in said
    stopped = int(said.split("stopped at step ")[1].split()[0])
    assert state(tmp_path / "run")["progress"]["step"] == stopped


EXPLODING = [
    "--optimiser.name", "sgd", "--optimiser.lr", "1e30", "--optimiser.clip", "null",
    "--optimiser.warmup", "4 steps",
]  # fmt: skip


def test_a_run_that_diverges_stops_with_what_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    options = [*EXPLODING, "--evaluation.every", "100 steps", "--save_minutes", "0"]
    assert call("train", "--output", run, *TINY, *options) == 1
    said = capsys.readouterr().err
    for words in ("training diverged at step 3", "residual", "samples", "Try a lower optimiser.lr"):
        assert words in said
    assert read_checkpoint(run / "diverged.ckpt")["ids"]
    assert all(value.isfinite().all() for value in state(run)["model"].values())


def test_a_solver_that_gets_nowhere_stops_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = ["--model.solver", "{solver: broyden, max_steps: 3, alpha: 1000}"]
    assert call("train", "--output", tmp_path / "run", *TINY, *wild) == 1
    said = capsys.readouterr().err
    assert "training diverged at step 10" in said
    assert "residual of f 1." in said


def test_an_evaluation_that_diverges_is_not_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    options = [*EXPLODING, "--evaluation.every", "1 steps"]
    assert call("train", "--output", run, *TINY, *options) == 1
    assert "the val loss is not finite" in capsys.readouterr().err
    assert state(run)["progress"]["step"] == 1


def test_a_coarse_phase_sees_smaller_images_and_goes_on_exactly(tmp_path: Path) -> None:
    coarse = ["--coarse.share", "0.8", "--coarse.factor", "2"]  # 10 of 12 steps
    for name, options in {"full": [], "coarse": coarse, "stopped": coarse}.items():
        assert call("train", "--output", tmp_path / name, *TINY, *options) == 0
    (tmp_path / "stopped" / "last.ckpt").unlink()  # the one before is of step 8
    assert call("train", "--resume", tmp_path / "stopped") == 0
    assert_same_weights(tmp_path / "coarse", tmp_path / "stopped")
    weights = [state(tmp_path / name)["model"]["stem.conv1.weight"] for name in ("full", "coarse")]
    assert not torch.equal(*weights)


@pytest.mark.parametrize("size", [(6, 10), (7, 9)])
def test_masks_are_coarsened_with_their_images(size: tuple[int, int]) -> None:
    blocks = torch.arange(20).reshape(4, 5)  # a class, and a shade, for every 2x2 pixels
    mask = blocks.repeat_interleave(2, 0).repeat_interleave(2, 1)[None, : size[0], : size[1]]
    batch = {"image": mask[:, None].float(), "segmentation": mask, "id": torch.tensor([3])}
    assert coarsened(batch, 2, least=4) is batch
    smaller = coarsened(batch, 2, least=3)
    assert smaller["segmentation"].shape == (1, 1 + (size[0] - 1) // 2, 5)
    assert torch.equal(smaller["image"][:, 0].long(), smaller["segmentation"])
    assert smaller["id"] == 3


def test_the_phases_of_the_paper_follow_each_other(tmp_path: Path) -> None:
    status = call(
        "train", "--output", tmp_path / "run", *TINY, "--length", "20 steps",
        "--shallow.length", "10 steps", "--shallow.steps", "3", "--softplus.length", "5 steps",
        "--jacobian_penalty", "0.1", "--evaluation.every", "20 steps",
        "--model.backward", "{mode: implicit, max_steps: 6}",
    )  # fmt: skip
    assert status == 0
    first, second = (r["train"] for r in records(tmp_path / "run") if "train" in r)
    assert first["evaluations"] == 3
    assert second["evaluations"] == 4
    assert "backward_residual" not in first
    assert second["backward_evaluations"] <= 6
    assert second["jacobian"] > 0


@pytest.mark.parametrize(
    "switch", [["--precision", "bf16"], ["--channels_last", "false"], ["--accumulate", "2"]]
)
def test_switches_train(tmp_path: Path, switch: list[str]) -> None:
    assert call("train", "--output", tmp_path / "run", *TINY, *switch) == 0
    assert all(value.isfinite().all() for value in state(tmp_path / "run")["model"].values())


@pytest.mark.parametrize(
    ("workers", "message"), [(0, "File too large"), (1, "a process that loads data failed")]
)
def test_a_full_disk_ends_a_run_with_one_line(tmp_path: Path, workers: int, message: str) -> None:
    def no_space() -> None:  # a limit on the size of files stands for a disk without space
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    train = ["train", "--output", "run", *TINY, "--workers", workers]
    with start(*train, cwd=tmp_path, preexec_fn=no_space) as process:
        said, _ = process.communicate()
    assert process.returncode == 2, said
    assert said.splitlines()[-1].startswith("mdeq train: ")
    assert message in said.splitlines()[-1]
    assert "Traceback" not in said


class TestCheckpoints:
    @pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
    def test_one_cut_short_is_noticed_and_the_one_before_used(
        self, tmp_path: Path, share: float
    ) -> None:
        for step in (1, 2):
            save_checkpoint(tmp_path, {"step": step, "weights": torch.randn(1000)})
        last = tmp_path / "last.ckpt"
        last.write_bytes(last.read_bytes()[: int(share * last.stat().st_size)])
        said: list[str] = []
        assert load_checkpoint(tmp_path, said.append)["step"] == 1
        assert "last.ckpt is cut short" in said[0]
        assert "using the one before it" in said[0]

    def test_a_flipped_bit_is_noticed(self, tmp_path: Path) -> None:
        for step in (1, 2):
            save_checkpoint(tmp_path, {"step": step, "weights": torch.randn(1000)})
        whole = (tmp_path / "last.ckpt").read_bytes()
        for place in range(0, len(whole), 97):
            content = bytearray(whole)
            content[place] ^= 1
            (tmp_path / "last.ckpt").write_bytes(content)
            with pytest.raises(CheckpointError, match="is cut short or damaged"):
                read_checkpoint(tmp_path / "last.ckpt")

    def test_a_damaged_one_is_put_aside_and_never_kept_as_the_one_before(
        self, tmp_path: Path
    ) -> None:
        for step in (1, 2):
            save_checkpoint(tmp_path, {"step": step})
        (tmp_path / "last.ckpt").write_bytes(b"")
        load_checkpoint(tmp_path, lambda text: None)
        save_checkpoint(tmp_path, {"step": 3})
        assert read_checkpoint(tmp_path / "last.ckpt")["step"] == 3
        assert read_checkpoint(tmp_path / "previous.ckpt")["step"] == 1

    def test_nothing_whole_is_an_error(self, tmp_path: Path) -> None:
        assert load_checkpoint(tmp_path, print) is None
        (tmp_path / "last.ckpt").write_bytes(b"")
        with pytest.raises(CheckpointError, match="only damaged checkpoints"):
            load_checkpoint(tmp_path, lambda text: None)

    def test_a_full_disk_leaves_the_last_one_whole(self, tmp_path: Path) -> None:
        # A limit on the size of files stands for a disk without space.
        code = """
import resource, signal, sys, torch
from pathlib import Path
from mdeq.engine.checkpoint import save_checkpoint
folder = Path(sys.argv[1])
save_checkpoint(folder, {"step": 1})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    save_checkpoint(folder, {"step": 2, "weights": torch.randn(100_000)})
except OSError as error:
    print(error)
"""
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
        )
        assert "too large" in done.stdout
        assert load_checkpoint(tmp_path, print)["step"] == 1
        assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]
