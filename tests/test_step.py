"""The gradient of a step: its parts, its limit, its precision, its penalty."""

from dataclasses import replace

import pytest
import torch

from mdeq.data import batches, create_source, open_split
from mdeq.engine import Recipe, create_accelerator
from mdeq.engine.losses import training_losses
from mdeq.engine.step import compute_gradient
from mdeq.engine.supervision import Supervised
from mdeq.models import MDEQ

RECIPE = Recipe.of(
    {
        "model": {
            "name": "mdeq_cifar10_small", "channels": [4, 8], "head_channels": [2, 2],
            "head_width": 8, "groups": 2, "dropout": 0.0, "solver": {"max_steps": 8},
            "backward": {"mode": "phantom", "steps": 3},
        },
        "dataset": {"name": "shapes", "image_size": 16},
        "tasks": {"classification": 1.0, "segmentation": 2.0},
    }
)  # fmt: skip


def gradient(recipe: Recipe, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Of a batch of eight, all parameters in one vector."""
    torch.manual_seed(0)
    source = create_source(**recipe.dataset)
    classes = source.classes(None)
    # In evaluation mode, BatchNorm couples no samples: a batch is the mean of its parts.
    model = Supervised(MDEQ(recipe.model_config(classes)), {}).to(dtype).eval()
    examples = open_split(source, "train")
    batch = next(batches(examples, [[(0, k) for k in range(8)]], workers=0))
    batch["image"] = source.normalise(batch["image"], dtype)
    compute_gradient(
        model,
        batch,
        recipe,
        accelerator=create_accelerator(),
        losses=training_losses(recipe, classes),
        weights=recipe.tasks,
        track_scales=False,
    )
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_the_parts_of_a_batch_give_the_gradient_of_the_whole() -> None:
    whole, parts = (gradient(replace(RECIPE, accumulate=n)) for n in (1, 4))
    assert torch.allclose(whole, parts, rtol=1e-6, atol=1e-9)


def test_a_long_gradient_is_shortened_to_the_limit() -> None:
    whole = gradient(RECIPE)
    clipped = gradient(replace(RECIPE, optimiser=replace(RECIPE.optimiser, clip=0.01)))
    assert whole.norm() > 0.01
    assert clipped.norm() == pytest.approx(0.01, rel=1e-3)
    assert torch.allclose(clipped / clipped.norm(), whole / whole.norm(), atol=1e-9)


def test_bf16_is_close_to_and_not_the_same_as_float32() -> None:
    full, half = (
        gradient(replace(RECIPE, precision=p), torch.float32) for p in ("float32", "bf16")
    )
    assert not torch.equal(full, half)
    assert torch.cosine_similarity(full, half, dim=0) > 0.95


@pytest.mark.parametrize("field", ["label_smoothing", "jacobian_penalty"])
def test_every_part_of_the_loss_has_its_gradient(field: str) -> None:
    assert not torch.allclose(gradient(RECIPE), gradient(replace(RECIPE, **{field: 0.2})))


def test_tasks_count_by_their_weights() -> None:
    one, other, both = (
        gradient(replace(RECIPE, tasks=tasks))
        for tasks in (
            {"classification": 1.0, "segmentation": 1e-12},
            {"classification": 1e-12, "segmentation": 1.0},
            {"classification": 2.0, "segmentation": 3.0},
        )
    )
    assert torch.allclose(both, 2 * one + 3 * other, rtol=1e-5, atol=1e-7)
