"""Recipes: every one that ships can be built, every field can be changed, nothing is guessed."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import yaml

from mdeq.cli.options import overridden, split_overrides
from mdeq.cli.train import read_recipe, train_parser
from mdeq.engine import Recipe, list_recipes, read_yaml, recipe_file
from mdeq.engine.optimisation import create_optimiser, create_schedule
from mdeq.engine.recipe import plain
from mdeq.models import build


def read(name: str, *arguments: str) -> Recipe:
    typed, overrides = split_overrides(list(arguments), ("model", "dataset", "tasks"))
    return read_recipe(train_parser(), name, typed, overrides)


@pytest.mark.parametrize("name", list_recipes())
class TestShipped:
    def test_has_a_model_that_can_be_built(self, name: str) -> None:
        recipe = read(name)
        with torch.device("meta"):
            build(recipe.model_config({}))
        assert recipe.description

    def test_resolved_and_written_it_is_the_same_run(self, name: str) -> None:
        recipe = read(name)
        classes = {task: ["a", "b"] for task in recipe.model_config({}).tasks}
        recipe = replace(recipe, tasks={})
        config = recipe.model_config(classes)
        resolved = recipe.resolved(config, classes)
        again = Recipe.of(yaml.safe_load(resolved.to_yaml()))
        assert plain(asdict(again)) == plain(asdict(resolved))
        assert again.model_config(classes) == config


@pytest.mark.parametrize(
    ("name", "epochs", "batch", "optimiser", "lr", "decay"),
    [
        ("cifar10-small", "50 epochs", 128, "adam", 0.001, 0),
        ("cifar10", "200 epochs", 128, "adam", 0.001, 0),
        ("imagenet-small", "100 epochs", 128, "sgd", 0.05, 5e-5),
        ("imagenet-large", "100 epochs", 128, "sgd", 0.05, 1e-4),
        ("cityscapes-small", "480 epochs", 12, "sgd", 0.01, 2e-4),
        ("cityscapes-large", "480 epochs", 12, "sgd", 0.01, 3e-4),
    ],
)
def test_the_papers_recipes_have_the_papers_numbers(
    name: str, epochs: str, batch: int, optimiser: str, lr: float, decay: float
) -> None:
    recipe = read(name)
    assert (recipe.length, recipe.batch_size) == (epochs, batch)
    assert recipe.optimiser.name == optimiser
    assert recipe.optimiser.lr == lr
    assert recipe.optimiser.weight_decay == decay


class TestOverrides:
    def test_every_kind_of_field_can_be_changed(self) -> None:
        recipe = read(
            "shapes", "--model.solver.max_steps", "9", "--model.dropout=0.1", "--optimiser.lr",
            "1e-2", "--length", "3 epochs", "--tasks.segmentation", "2", "--ema", "0.9",
            "--dataset.augment", "true", "--data", "somewhere", "--optimiser.clip", "null",
        )  # fmt: skip
        before = read("shapes")
        assert recipe.model["solver"] == {**before.model["solver"], "max_steps": 9}
        assert recipe.model["dropout"] == 0.1
        assert recipe.optimiser == replace(before.optimiser, lr=0.01, clip=None)
        assert (recipe.length, recipe.ema, recipe.data) == ("3 epochs", 0.9, "somewhere")
        assert recipe.tasks == {**before.tasks, "segmentation": 2}
        assert recipe.dataset["augment"] is True

    def test_a_recipe_of_ones_own(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.yaml"
        file.write_text("model: {name: mdeq_cifar10_small}\ndataset: {name: shapes}\nseed: 3\n")
        assert read(str(file), "--batch_size", "16").seed == 3

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("model: {name: mdeq_cifar10_small}\n", "names no dataset"),
            ("optimizer: {lr: 1}\n", "did you mean 'optimiser'"),
            ("optimiser: {rate: 1}\n", "unknown field in mine.yaml 'optimiser.rate'"),
            ("optimiser: 3\n", "optimiser"),
            ("length: soon\n", 'expected a duration such as "3 epochs"'),
            ("- a\n- b\n", "holds no recipe"),
            ("model: {name: [}\n", "is not YAML"),
        ],
    )
    def test_a_wrong_file_is_explained(self, tmp_path: Path, text: str, message: str) -> None:
        file = tmp_path / "mine.yaml"
        base = "" if "name" in text else "model: {name: mdeq_cifar10_small}\n"
        base += "" if text.startswith(("-", "model")) else "dataset: {name: shapes}\n"
        file.write_text((base if not text.startswith("-") else "") + text)
        with pytest.raises(ValueError, match=message):
            read(str(file))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--model.name", "mdeq_cifar10_smal"], "did you mean 'mdeq_cifar10_small'"),
            (["--model.dropuot", "0.1"], "did you mean 'dropout'"),
            (["--model.solver.max_step", "3"], "max_steps"),
            (["--dataset.name", "cifar"], "did you mean 'cifar10'"),
            (["--optimiser.lr", "fast"], "optimiser.lr"),
            (["--optimiser.lr", "-1"], "optimiser.lr is -1"),
            (["--optimiser.name", "adma"], "optimiser.name"),
            (["--batch_size", "0"], "batch_size is 0"),
            (["--precision", "fp8"], "precision"),
            (["--seed", "-1"], "seed is -1"),
            (["--tasks.segmentation", "0"], "tasks.segmentation is 0"),
        ],
    )
    def test_a_wrong_value_is_named(self, arguments: list[str], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            read("shapes", *arguments)

    def test_a_task_without_labels_is_refused(self) -> None:
        recipe = read("cifar10-small", "--tasks.segmentation", "1")
        with pytest.raises(ValueError, match="unknown task of this dataset 'segmentation'"):
            recipe.model_config({"classification": ["a"]})


def test_class_weights_can_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    shipped = recipe_file("cityscapes-small").read_text()
    file.write_text(shipped + "pixels: {class_weights: {pole: 4}}\n")
    assert read(str(file)).pixels.class_weights == {"pole": 4}


@pytest.mark.parametrize("drive", ["0016E5", "16E5", "1e-3", "0001TP"])
def test_a_name_that_looks_like_a_number_stays_a_name(drive: str) -> None:
    recipe = read("camvid", "--dataset.holdout", f"'{drive}'")
    assert recipe.source.holdout == drive
    assert Recipe.of(read_yaml(recipe.to_yaml())) == recipe


def test_the_name_of_a_drive_needs_no_quotes() -> None:
    assert read("camvid", "--dataset.holdout", "0016E5").source.holdout == "0016E5"


def test_an_unknown_recipe_offers_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'cifar10-small'"):
        recipe_file("cifar10-smal")


def test_a_path_changes_one_field_and_a_mapping_replaces_all() -> None:
    values = {"a": {"b": 1, "c": 2}, "d": 3}
    changes = [(("a", "c"), 4), (("e", "f"), 5)]
    assert overridden(values, changes) == {"a": {"b": 1, "c": 4}, "d": 3, "e": {"f": 5}}
    assert overridden(values, [(("a",), {"g": 6})]) == {"a": {"g": 6}, "d": 3}
    assert values == {"a": {"b": 1, "c": 2}, "d": 3}


class TestOptimisation:
    def test_the_rate_rises_then_falls_along_a_cosine(self) -> None:
        optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
        schedule = create_schedule(optimiser, warmup=4, total=12)
        rates = []
        for step in range(13):
            schedule.step_update(step)
            rates.append(optimiser.param_groups[0]["lr"])
        cosine = 1 + torch.cos(torch.linspace(0, torch.pi, 9))
        expected = torch.cat([torch.tensor([0, 0.5, 1, 1.5]), cosine])
        assert torch.allclose(torch.tensor(rates), expected, atol=1e-6)

    def test_norms_gains_and_biases_do_not_decay(self) -> None:
        recipe = read("imagenet-small")
        with torch.device("meta"):
            model = build(recipe.model_config({}))
        groups = create_optimiser(model, recipe.optimiser).param_groups
        decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
        for name, parameter in model.named_parameters():
            module = model.get_submodule(name.rpartition(".")[0])
            norm = isinstance(module, (torch.nn.GroupNorm, torch.nn.BatchNorm2d))
            spared = norm or name.endswith(("bias", "weight_g"))
            assert decay[id(parameter)] == (0 if spared else 5e-5), name

    def test_the_rest_of_muon_has_a_rate_of_its_own(self) -> None:
        layer = torch.nn.Linear(8, 8)
        config = replace(read("shapes").optimiser, lr=0.05, rest=0.1)
        optimiser = create_optimiser(layer, config)
        before = layer.bias.detach().clone()
        layer(torch.ones(1, 8)).sum().backward()
        optimiser.step()
        # The first step of NAdamW along a gradient of ones: a little less than twice the rate.
        step = (before - layer.bias).detach()
        assert torch.allclose(step, step[0].expand(8))
        assert 0.005 <= step[0] <= 0.01

    @pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "muon"])
    def test_every_optimiser_lowers_a_loss(self, name: str) -> None:
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 4)
        config = replace(read("shapes").optimiser, name=name, lr=0.05, weight_decay=0.0)
        optimiser = create_optimiser(layer, config)
        x = torch.randn(32, 4)
        losses = []
        for _ in range(50):
            loss = (layer(x) - x.flip(dims=(1,))).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < 0.1 * losses[0]
