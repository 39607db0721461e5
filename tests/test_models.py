"""Every preset builds, has the paper's size, and sits at the equilibrium it reports."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import timm
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, group_norm

import mdeq
from mdeq.models import NETWORKS, PRESETS, MDEQConfig
from tests.problems import contract

# The paper's sizes; None: reported against, not matched (docs/models.md).
SIZES: dict[str, int | None] = {
    "mdeq_cifar10_small": 170_000,
    "mdeq_cifar10": 10_000_000,
    "mdeq_imagenet_small": 18_000_000,
    "mdeq_imagenet_large": 63_000_000,
    "mdeq_imagenet_large_unrolled": 63_000_000,
    "mdeq_imagenet_xl": 81_000_000,
    "mdeq_cityscapes_small": None,
    "mdeq_cityscapes_large": None,
    "mdeq_cityscapes_xl": None,
    "mdeq_camvid": None,
    "deq_cifar10_small": 170_000,
    "deq_imagenet_small": 18_000_000,
}
# Of the released code, to the parameter.
EXACT_SIZES = {"official_cifar10_tiny": 158_890, "official_cifar10_large": 11_097_438}
SMALL = ["mdeq_cifar10_small", "deq_cifar10_small", "official_cifar10_tiny"]


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: str) -> None:
    config = PRESETS[name]
    with torch.device("meta"):
        model = mdeq.create_model(name)
    assert config.backward["mode"] in ("implicit", "unrolled")
    if name in EXACT_SIZES:
        assert parameters(model) == EXACT_SIZES[name]
    elif name in SIZES and SIZES[name] is not None:
        assert parameters(model) == pytest.approx(SIZES[name], rel=0.05)
    else:
        assert name.startswith("official_") or name in SIZES
    assert not any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.f.modules())


@pytest.mark.parametrize(
    ("name", "forward", "backward", "memory", "dropout", "groups"),
    [
        ("mdeq_cifar10_small", 15, 18, 12, 0.2, 4),
        ("mdeq_cifar10", 15, 18, 12, 0.25, 4),
        ("mdeq_imagenet_small", 22, 25, 18, 0.0, 4),
        ("mdeq_imagenet_large", 22, 25, 18, 0.0, 4),
        ("mdeq_cityscapes_small", 27, 30, 18, 0.03, 4),
        ("mdeq_cityscapes_large", 27, 30, 18, 0.05, 4),
        ("mdeq_cityscapes_xl", 27, 30, 18, 0.05, 4),
        ("official_cifar10_tiny", 18, 20, 12, 0.2, 8),
    ],
)
def test_presets_carry_the_papers_settings(
    name: str, forward: int, backward: int, memory: int, dropout: float, groups: int
) -> None:
    config = PRESETS[name]
    assert (config.solver.solver, config.solver.max_steps) == ("broyden", forward)
    assert config.backward["max_steps"] == backward
    assert config.solver.memory == config.backward["memory"] == memory
    assert (config.dropout, config.groups) == (dropout, groups)


@pytest.mark.parametrize("name", SMALL)
def test_small_presets_run_and_solve_what_they_say(name: str) -> None:
    model = mdeq.create_model(name, num_classes=7)
    images = torch.randn(2, 3, 32, 32)
    logits = model(images)
    assert logits.shape == (2, 7)
    logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
    model.eval()
    with torch.no_grad():
        equilibrium = model.equilibrium(images)
        fz = equilibrium.f(equilibrium.solution.z)
    distance = sum(
        (a - b).square().sum((1, 2, 3)) for a, b in zip(fz, equilibrium.solution.z, strict=True)
    )
    size = sum(scale.square().sum((1, 2, 3)) for scale in fz)
    torch.testing.assert_close(
        (distance / size).sqrt(), equilibrium.solution.residual, rtol=1e-3, atol=1e-6
    )


def tiny(**overrides: object) -> mdeq.MDEQ:
    """A tiny model of three scales."""
    settings = {"channels": (4, 8, 4), "groups": 2, "expansion": 2, "head_channels": (2, 2, 2)}
    return mdeq.create_model("mdeq_cifar10_small", head_width=8, **{**settings, **overrides})


def test_gradients_equal_those_of_400_unrolled_steps() -> None:
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    exact = {"tol": 1e-12, "max_steps": 400, "memory": None}
    model = contract(tiny(solver=exact, backward=exact, on_failure="raise", dropout=0.2)).double()
    gradients = []
    for backward in (None, {"mode": "unrolled", "steps": 400}):
        torch.manual_seed(5)  # the same dropout masks
        model.zero_grad()
        model(images, backward=backward).square().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-7, atol=1e-9, msg=name)


def test_a_batch_gives_what_its_images_give_one_by_one() -> None:
    model = contract(tiny(solver={"tol": 1e-10, "max_steps": 200})).double().eval()
    images = torch.randn(5, 3, 16, 16, dtype=torch.float64)
    together = model(images)
    for i in range(5):
        torch.testing.assert_close(model(images[i : i + 1])[0], together[i], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("size", [(32, 32), (30, 45), (33, 31), (5, 7), (1, 1)])
@pytest.mark.parametrize("downsamplings", [0, 1, 2])
def test_images_of_any_size(size: tuple[int, int], downsamplings: int) -> None:
    model = tiny(downsamplings=downsamplings, tasks={"classification": 5, "segmentation": 4}).eval()
    images = torch.randn(2, 3, *size)
    with torch.no_grad():
        logits = model(images)
        scales = model.features(images)
    assert logits["classification"].shape == (2, 5)
    assert logits["segmentation"].shape == (2, 4, *size)
    for k, scale in enumerate(scales):
        stride = 2 ** (downsamplings + k)
        assert scale.shape[2:] == (-(-size[0] // stride), -(-size[1] // stride))


@pytest.mark.parametrize("scales", ["finest", "all"])
def test_padding_is_at_the_bottom_and_on_the_right(scales: str) -> None:
    """An odd image is segmented like the same image padded by hand."""
    model = tiny(downsamplings=1, tasks={"segmentation": 3}, segmentation_scales=scales).eval()
    images = torch.randn(1, 3, 13, 21)
    padded = nn.functional.pad(images, (0, 3, 0, 3))
    torch.testing.assert_close(model(images), model(padded)[:, :, :13, :21])


def test_one_task_gives_a_tensor_and_several_a_mapping() -> None:
    images = torch.randn(2, 3, 8, 8)
    segmenting = tiny(tasks={"segmentation": 3}, segmentation_scales="all")
    assert segmenting(images).shape == (2, 3, 8, 8)
    both = tiny(tasks={"classification": 2, "segmentation": 3})
    logits = both(images)
    assert list(logits) == ["classification", "segmentation"]
    sum(value.sum() for value in logits.values()).backward()
    assert all(p.grad is not None for p in both.parameters())


def test_segmentation_from_the_finest_scale_sees_no_other() -> None:
    model = tiny(tasks={"segmentation": 3}).eval()
    head = model.heads["segmentation"]
    scales = [torch.randn(1, 4, 8, 8), torch.randn(1, 8, 4, 4), torch.randn(1, 4, 2, 2)]
    first = head(scales, (8, 8))
    scales[1], scales[2] = scales[1] + 1, scales[2] - 1
    assert torch.equal(head(scales, (8, 8)), first)


def test_only_the_finest_scale_receives_the_injection() -> None:
    model = tiny().eval()
    z = [torch.randn(1, 4, 8, 8), torch.randn(1, 8, 4, 4), torch.randn(1, 4, 2, 2)]
    blocks = model.f.blocks
    x, other = torch.randn(1, 4, 8, 8), torch.randn(1, 4, 8, 8)
    seen: list[Tensor] = []
    for block in blocks:
        block.register_forward_hook(lambda module, args, out: seen.append(out))
    model.f(z, x)
    model.f(z, other)
    assert not torch.equal(seen[0], seen[3])
    assert torch.equal(seen[1], seen[4])
    assert torch.equal(seen[2], seen[5])


def test_equation_five() -> None:
    """The residual block against the formula written out with torch's own functions."""
    model = tiny()
    block = model.f.blocks[0].double()
    z, x = torch.randn(2, 4, 6, 6).double(), torch.randn(2, 4, 6, 6).double()

    def weight(conv: nn.Module) -> Tensor:
        v, g = conv.weight_v, conv.weight_g
        return g * v / v.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1)

    def norm(layer: nn.GroupNorm, value: Tensor) -> Tensor:
        return group_norm(value, 2, layer.weight, layer.bias)

    block.eval()
    z_tilde = norm(block.norm1, conv2d(z, weight(block.conv1), padding=1))
    z_hat = norm(block.norm2, conv2d(z_tilde.relu(), weight(block.conv2), padding=1) + x)
    expected = norm(block.norm3, (z_hat + z).relu())
    torch.testing.assert_close(block(z, x), expected)


def test_the_fusion() -> None:
    """Three scales mixed as section 3.2 says, written out with torch's own functions."""
    model = tiny().double().eval()
    fusion = model.f.fusion
    z = [torch.randn(2, c, s, s).double() for c, s in ((4, 8), (8, 4), (4, 2))]

    def conv_norm(step: nn.Module, value: Tensor, stride: int = 1) -> Tensor:
        v = step.conv.weight_v
        weight = step.conv.weight_g * v / v.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1)
        out = conv2d(value, weight, stride=stride, padding=v.shape[-1] // 2)
        return group_norm(out, 2, step.norm.weight, step.norm.bias)

    def up(target: int, source: int) -> Tensor:
        matched = conv_norm(fusion.paths[target][str(source)].matched, z[source])
        return nn.functional.interpolate(
            matched, scale_factor=2 ** (source - target), mode="bilinear", align_corners=False
        )

    def down(target: int, source: int) -> Tensor:
        steps = fusion.paths[target][str(source)].steps
        out = conv_norm(steps[0], z[source], stride=2)
        for step in steps[1:]:
            out = conv_norm(step, out.relu(), stride=2)
        return out

    sums = [
        z[0] + up(0, 1) + up(0, 2),
        down(1, 0) + z[1] + up(1, 2),
        down(2, 0) + down(2, 1) + z[2],
    ]
    assert [len(fusion.paths[2][i].steps) for i in "01"] == [2, 1]
    for ours, post, total in zip(fusion(z), fusion.post, sums, strict=True):
        torch.testing.assert_close(ours, conv_norm(post, total.relu()))


def test_dropout_keeps_the_mean() -> None:
    dropout = mdeq.nn.VariationalDropout2d(0.2, 1000)
    dropped = dropout(torch.ones(20, 1000, 2, 2))
    kept = dropped != 0
    assert kept.float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert dropped[kept].unique().tolist() == pytest.approx([1.25])
    assert (kept.all(dim=(2, 3)) | ~kept.any(dim=(2, 3))).all()  # whole channels


def test_masks_are_constant_within_a_step_and_new_at_the_next() -> None:
    model = tiny(dropout=0.5)
    masks: list[list[Tensor]] = []
    dropout = model.f.blocks[1].dropout
    dropout.register_forward_hook(lambda module, args, out: masks[-1].append(module.mask))
    images = torch.randn(6, 3, 8, 8)
    for _ in range(2):
        masks.append([])
        model(images).sum().backward()
    for step in masks:
        assert len(step) > 10
        assert all(torch.equal(mask, step[0]) for mask in step)
        assert step[0].shape == (6, 8, 1, 1)
        assert len({tuple(sample.flatten().tolist()) for sample in step[0]}) > 1
    assert not torch.equal(masks[0][0], masks[1][0])
    assert dropout.mask is None  # nothing stays behind


def test_dropout_is_off_in_evaluation() -> None:
    model = tiny(dropout=0.5).eval()
    images = torch.randn(2, 3, 8, 8)
    assert torch.equal(model(images), model(images))
    assert not torch.equal(model.train()(images), model(images))


def test_effective_weights_follow_an_optimiser_step() -> None:
    model = tiny()
    conv = model.f.blocks[0].conv1
    images = torch.randn(2, 3, 8, 8)
    before = conv.normalised().detach().clone()
    model(images).square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    seen: list[Tensor] = []
    conv.register_forward_hook(lambda module, args, out: seen.append(module.weight))
    model(images)
    v, g = conv.weight_v.detach(), conv.weight_g.detach()
    expected = g * v / v.flatten(1).norm(dim=1)[:, None, None, None]
    assert not torch.allclose(before, expected)
    torch.testing.assert_close(seen[-1].detach(), expected)


def test_weights_are_normalised_once_a_forward_pass() -> None:
    model = tiny()
    convs = [part for part in model.f.modules() if isinstance(part, mdeq.nn.WeightNormConv2d)]
    calls = []
    for conv in convs:
        original = conv.normalised
        conv.normalised = lambda original=original: calls.append(1) or original()
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert len(calls) == len(convs)
    plain = [part for part in model.f.modules() if isinstance(part, nn.Conv2d)]
    assert plain == []  # every weight of f is normalised


def test_softplus_is_a_switch() -> None:
    model = tiny().eval()
    images = torch.randn(2, 3, 8, 8)
    relu = model(images)
    model.set_softplus(5.0)
    smooth = model(images)
    model.set_softplus(1e6)
    nearly = model(images)
    model.set_softplus(None)
    assert not torch.allclose(smooth, relu, atol=1e-3)
    rectifiers = [part for part in model.modules() if isinstance(part, mdeq.nn.Rectifier)]
    assert len(rectifiers) == 3 + 3  # the last of every block, and of the fusion at every scale
    torch.testing.assert_close(nearly, relu, rtol=1e-2, atol=1e-2)
    assert torch.equal(model(images), relu)


@pytest.mark.parametrize("beta", [0, -1.0, float("nan"), "5"])
def test_softplus_needs_a_positive_beta(beta: object) -> None:
    with pytest.raises(ValueError, match="expected a number above 0"):
        tiny().set_softplus(beta)


def test_a_model_needs_a_configuration() -> None:
    with pytest.raises(ValueError, match=r"use mdeq\.create_model\(name\)"):
        mdeq.MDEQ("mdeq_cifar10_small")


def test_a_shallow_stack_per_call_or_for_good() -> None:
    model = tiny(dropout=0.0)
    images = torch.randn(2, 3, 8, 8)
    model.eval()
    per_call = model(images, backward={"mode": "unrolled", "steps": 5})
    model.backward = mdeq.Unrolled(steps=5)
    assert torch.equal(model(images), per_call)
    preset = mdeq.models.PRESETS["mdeq_imagenet_large_unrolled"]
    assert preset.backward == {"mode": "unrolled", "steps": 5}
    x = model.stem(images)
    z = model.f.start(x)
    for _ in range(5):
        z = model.f(z, x)
    for ours, scale in zip(model.features(images), z, strict=True):
        torch.testing.assert_close(ours, scale)


def test_the_papers_initialisation() -> None:
    model = mdeq.create_model("mdeq_cifar10_small", initialisation="paper")
    weights = [m.normalised().flatten() for m in model.f.modules() if hasattr(m, "normalised")]
    assert torch.cat(weights).std().item() == pytest.approx(0.01, rel=0.02)
    assert torch.cat(weights).mean().item() == pytest.approx(0.0, abs=2e-4)


def test_overrides() -> None:
    model = mdeq.create_model(
        "mdeq_cifar10_small",
        num_classes=3,
        in_channels=1,
        dropout=0.0,
        solver={"max_steps": 4},
        backward={"mode": "phantom", "steps": 2, "tau": 0.7},
    )
    assert model.config.solver.memory == 12  # what was not named stays
    assert model.backward == mdeq.Phantom(steps=2, tau=0.7)
    equilibrium = model.equilibrium(torch.randn(2, 1, 8, 8))
    assert equilibrium.solution.steps.tolist() == [4, 4]
    assert model(torch.randn(2, 1, 8, 8), solver={"max_steps": 2}).shape == (2, 3)
    unrolled = mdeq.create_model("mdeq_cifar10_small", backward=mdeq.Unrolled(steps=3))
    assert unrolled.config.backward == {"mode": "unrolled", "steps": 3}
    picard = mdeq.create_model("mdeq_cifar10_small", solver="picard")
    assert (picard.solver.solver, picard.solver.max_steps) == ("picard", 15)


def test_settings_are_changed_in_part_wherever_they_are_changed() -> None:
    model = mdeq.create_model("mdeq_cifar10_small")
    steps: list[int] = []

    def backward_steps(**how: object) -> int:
        steps.clear()
        images = torch.randn(1, 3, 8, 8)
        logits = model(images, on_backward=lambda s: steps.append(len(s.trace)), **how)
        logits.sum().backward()
        return steps[0]

    assert backward_steps() == 18
    assert backward_steps(backward={"memory": 5}) == 18
    assert backward_steps(backward="implicit") == 18
    assert backward_steps(backward={"max_steps": 4}) == 4
    model.backward = {"max_steps": 6}
    assert backward_steps() == 6
    assert model.backward.memory == 12
    model.backward = {"memory": 3}
    assert backward_steps() == 6  # what was set before stays
    model.backward = mdeq.Phantom(steps=2)
    model(torch.randn(1, 3, 8, 8), backward={"tau": 0.9})
    assert model.backward == mdeq.Phantom(steps=2)
    model.solver = {"max_steps": 5}
    assert (model.solver.max_steps, model.solver.memory) == (5, 12)


def test_the_equilibrium_of_a_training_pass_can_be_seen() -> None:
    """For logging, and for a penalty that reaches the weights in the same backward pass."""
    model = tiny(dropout=0.0).eval()
    images = torch.randn(2, 3, 8, 8)
    steps, gradients = [], []
    for weight in (0.0, 1.0):
        penalties: list[Tensor] = []

        def look(equilibrium: mdeq.Equilibrium, penalties: list[Tensor] = penalties) -> None:
            steps.append(equilibrium.solution.steps.tolist())
            penalties.append(mdeq.jacobian_norm(equilibrium.f, equilibrium.solution.z).mean())

        model.zero_grad()
        (model(images, on_equilibrium=look).sum() + weight * penalties[0]).backward()
        gradients.append(model.f.blocks[2].conv1.weight_v.grad.clone())
    assert steps == [[15, 15]] * 2
    assert not torch.allclose(*gradients)


def test_failure_to_converge_can_be_made_loud_per_call() -> None:
    with pytest.warns(mdeq.ConvergenceWarning, match="forward solve"):
        tiny()(torch.randn(2, 3, 8, 8), on_failure="warn")


def test_what_is_not_finite_stays_visible() -> None:
    """Budgets end unmet without a word; images that are not numbers must not."""
    model = tiny().eval()
    images = torch.randn(2, 3, 8, 8)
    images[1, 0, 0, 0] = torch.nan
    logits = model(images)
    assert logits[0].isfinite().all()
    assert logits[1].isnan().all()


def test_a_warm_start() -> None:
    exact = {"tol": 1e-8, "max_steps": 300, "memory": None}
    model = contract(tiny(solver=exact)).double().eval()
    images = torch.randn(2, 3, 9, 13).double()
    cold = model.equilibrium(images)
    warm = model.equilibrium(images, z0=cold.solution.z)
    assert warm.solution.steps.tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"z0 has shapes .* expected .*solution\.z"):
        model.equilibrium(images, z0=cold.scales)
    with pytest.raises(ValueError, match="z0 is a Tensor; expected a list of 3 scales"):
        model.equilibrium(images, z0=cold.scales[0])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"dropuot": 0.1}, "unknown field of the model 'dropuot'; did you mean 'dropout'?"),
        ({"dropout": 1.0}, r"dropout is 1\.0; expected a rate below 1"),
        ({"dropout": "0.1"}, r"dropout is '0\.1'; expected a number at least 0"),
        (
            {"channels": (6, 16, 32)},
            r"\(6, 16, 32\); expected multiples of the 4 groups",
        ),
        ({"channels": 8}, "channels is 8; expected a width for every scale"),
        ({"channels": (8, -16, 32)}, "a width in channels is -16; expected a whole number"),
        ({"expansion": 0}, "expansion is 0; expected a whole number, at least 1"),
        ({"solver": None}, "solver is None; expected a name, a mapping"),
        ({"backward": None}, "backward is None; expected a mapping"),
        ({"channels": ()}, "expected at least one scale"),
        ({"channels": (8, 16)}, "head_channels is .* expected one width for each of the 2 scales"),
        ({"downsamplings": 3}, "downsamplings is 3; expected 0, 1 or 2"),
        ({"tasks": {"detection": 3}}, "unknown task 'detection'"),
        ({"tasks": {}}, "tasks is {}; expected the classes of every task"),
        ({"num_classes": 0}, "number of classes for classification is 0; expected a whole number"),
        ({"num_classes": 3, "tasks": {"segmentation": 2}}, "to choose tasks, say tasks="),
        ({"solver": {"max_step": 3}}, "did you mean 'max_steps'?"),
        ({"backward": "newton"}, "unknown backward mode 'newton'"),
        ({"upsampling": "cubic"}, "unknown upsampling 'cubic'"),
    ],
)
def test_wrong_overrides(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mdeq.create_model("mdeq_cifar10_small", **overrides)


def test_weights_that_do_not_ship() -> None:
    with pytest.raises(ValueError, match="no weights ship for 'mdeq_cifar10', only for"):
        mdeq.create_model("mdeq_cifar10", pretrained=True)


def test_an_unknown_model_is_told_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'mdeq_cifar10_small'"):
        mdeq.create_model("mdeq_cifar_small")


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (
            torch.zeros(3, 8, 8),
            r"shape \(3, 8, 8\); expected a tensor \(batch, 3, height, width\)",
        ),
        (torch.zeros(2, 1, 8, 8), r"images have shape \(2, 1, 8, 8\); expected a tensor"),
        (torch.zeros(2, 3, 0, 8), r"images have shape \(2, 3, 0, 8\); expected a tensor"),
        (None, "images are a NoneType; expected a tensor"),
        (torch.zeros(2, 3, 8, 8).double(), "images are torch.float64, the model is torch.float32"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), "images are torch.uint8; expected floats"),
    ],
)
def test_wrong_images(images: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny()(images)


def test_names_can_be_listed_by_pattern() -> None:
    assert mdeq.list_models("deq_*") == ["deq_cifar10_small", "deq_imagenet_small"]
    assert set(mdeq.list_models()) == {*PRESETS, *NETWORKS}


def test_timm_knows_the_stride_of_the_stem() -> None:
    with torch.device("meta"):
        model = timm.create_model("mdeq_imagenet_small")
    assert [info["reduction"] for info in model.feature_info] == [4, 8, 16, 32]


def test_timm_without_classes_gives_features() -> None:
    model = timm.create_model("mdeq_cifar10_small", num_classes=0)
    assert model(torch.randn(2, 3, 8, 8)).shape == (2, 64)


def test_timm_creates_the_models() -> None:
    model = timm.create_model("mdeq_cifar10_small", num_classes=7, in_chans=1, dropout=0.0)
    assert isinstance(model, mdeq.MDEQ)
    assert model(torch.randn(1, 1, 32, 32)).shape == (1, 7)
    assert set(timm.list_models("mdeq_*")) == set(mdeq.list_models("mdeq_*"))


@pytest.mark.parametrize(("indices", "kept"), [(None, [0, 1, 2]), ((0, 2), [0, 2]), ((-1,), [2])])
def test_timm_extracts_features(indices: tuple[int, ...] | None, kept: list[int]) -> None:
    chosen = {} if indices is None else {"out_indices": indices}
    backbone = timm.create_model("mdeq_cifar10_small", features_only=True, **chosen).eval()
    scales = backbone(torch.randn(1, 3, 32, 32))
    assert backbone.feature_info.channels() == [(8, 16, 32)[k] for k in kept]
    assert backbone.feature_info.reduction() == [(1, 2, 4)[k] for k in kept]
    assert [scale.shape[1:] for scale in scales] == [(8 << k, 32 >> k, 32 >> k) for k in kept]
    assert not any("heads" in name for name, _ in backbone.named_parameters())
    with pytest.raises(ValueError, match="out_indices has 5; expected indices of 3 scales"):
        timm.create_model("mdeq_cifar10_small", features_only=True, out_indices=(0, 5))


def test_configurations_survive_plain_values() -> None:
    for config in PRESETS.values():
        assert MDEQConfig.from_dict(config.to_dict()) == config


def test_the_documented_sizes_are_true() -> None:
    page = (Path(__file__).parents[1] / "docs" / "models.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \| ([\d, ]+) \|", page, re.MULTILINE)
    assert {name for name, *_ in rows} == set(PRESETS) - {"mdeq_imagenet_large_unrolled"}
    for name, total, backbone, channels in rows:
        with torch.device("meta"):
            model = mdeq.create_model(name)
        assert f"{parameters(model):,}" == total
        assert f"{parameters(model.stem) + parameters(model.f):,}" == backbone
        assert ", ".join(map(str, model.config.channels)) == channels.strip()


def test_autocast_and_channels_last() -> None:
    model = contract(tiny(solver={"tol": 1e-4, "max_steps": 40}, dropout=0.0))
    images = torch.randn(2, 3, 16, 16)
    exact = model.features(images)
    model = model.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scales = model.features(images)
    assert scales[0].is_contiguous(memory_format=torch.channels_last)
    for ours, expected in zip(scales, exact, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - expected).norm() < 0.1 * expected.norm()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_of_other_precisions(dtype: torch.dtype) -> None:
    model = tiny().to(dtype)
    logits = model(torch.randn(2, 3, 8, 8, dtype=dtype))
    logits.sum().backward()
    assert logits.dtype == dtype


def test_the_function_of_a_pass_outlives_it() -> None:
    """With its own masks, and differentiable, even if the pass was made for inference."""
    model = tiny(dropout=0.5)
    equilibrium = model.equilibrium(torch.randn(2, 3, 8, 8))
    before = equilibrium.f(equilibrium.z)
    model.eval()
    model(torch.randn(2, 3, 8, 8))
    assert all(torch.equal(a, b) for a, b in zip(before, equilibrium.f(equilibrium.z), strict=True))
    with torch.inference_mode():
        seen = model.equilibrium(torch.randn(2, 3, 8, 8))
    assert (mdeq.spectral_radius(seen.f, seen.solution.z, steps=5) > 0).all()


def test_threads_do_not_see_each_others_weights() -> None:
    model = tiny(dropout=0.5)
    images = [torch.randn(batch, 3, 8, 8) for batch in (1, 2, 3, 4)]
    with ThreadPoolExecutor(4) as pool:
        shapes = [logits.shape for logits in pool.map(model, images * 5)]
    assert shapes == [(len(batch), 10) for batch in images * 5]
    assert all(conv.weight is None for conv in model.modules() if hasattr(conv, "normalised"))


def test_a_model_does_not_change_its_preset() -> None:
    model = mdeq.create_model("mdeq_cifar10_small")
    model.config.tasks["classification"] = 3
    model.config.backward["max_steps"] = 1
    assert PRESETS["mdeq_cifar10_small"].tasks == {"classification": 10}
    assert PRESETS["mdeq_cifar10_small"].backward["max_steps"] == 18


def test_the_change_of_every_scale_can_be_recorded() -> None:
    solution = tiny().equilibrium(torch.randn(2, 3, 8, 8), track_scales=True).solution
    assert solution.scale_changes.shape == (14, 2, 3)


def test_the_fast_mode_changes_the_budgets_and_nothing_else() -> None:
    own, fast = mdeq.models.configure("mdeq_cifar10"), mdeq.models.configure("fast:mdeq_cifar10")
    assert fast.override(solver=own.solver, backward=own.backward) == own
    assert (fast.solver.solver, fast.backward["mode"]) == ("anderson", "phantom")
    assert mdeq.create_model("fast:mdeq_cifar10_small", dropout=0.0).config.dropout == 0
