"""Checkpoints of the authors' released code."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mdeq.models.config import MDEQConfig
from mdeq.models.mdeq import MDEQ
from mdeq.models.presets import PRESETS
from mdeq.models.weights import load_exactly
from mdeq.solvers import unknown

# The released code keeps up to three copies of the layer, and saves its loss with the model.
IGNORED = ("fullstage_copy.", "deq.func.", "deq.func_copy.", "loss.")

# Theirs on the left, ours on the right.
RENAMED = [
    (r"downsample\.0\.", "stem.conv1."),
    (r"downsample\.1\.", "stem.norm1."),
    (r"downsample\.3\.", "stem.conv2."),
    (r"downsample\.4\.", "stem.norm2."),
    (r"stage0\.0\.", "stem.conv3."),
    (r"stage0\.1\.", "stem.norm3."),
    (r"fullstage\.branches\.(\d+)\.blocks\.0\.conv(\d)\.", r"f.blocks.\1.conv\2."),
    (r"fullstage\.branches\.(\d+)\.blocks\.0\.gn(\d)\.", r"f.blocks.\1.norm\2."),
    (
        r"fullstage\.fuse_layers\.(\d+)\.(\d+)\.net\.(\d+)\.conv\.",
        r"f.fusion.paths.\1.\2.steps.\3.conv.",
    ),
    (
        r"fullstage\.fuse_layers\.(\d+)\.(\d+)\.net\.(\d+)\.gnorm\.",
        r"f.fusion.paths.\1.\2.steps.\3.norm.",
    ),
    (r"fullstage\.fuse_layers\.(\d+)\.(\d+)\.net\.conv\.", r"f.fusion.paths.\1.\2.matched.conv."),
    (r"fullstage\.fuse_layers\.(\d+)\.(\d+)\.net\.gnorm\.", r"f.fusion.paths.\1.\2.matched.norm."),
    (r"fullstage\.post_fuse_layers\.(\d+)\.conv\.", r"f.fusion.post.\1.conv."),
    (r"fullstage\.post_fuse_layers\.(\d+)\.gnorm\.", r"f.fusion.post.\1.norm."),
    (r"incre_modules\.(\d+)\.0\.conv(\d)\.", r"heads.classification.widen.\1.conv\2."),
    (r"incre_modules\.(\d+)\.0\.bn(\d)\.", r"heads.classification.widen.\1.norm\2."),
    (r"incre_modules\.(\d+)\.0\.downsample\.", r"heads.classification.widen.\1.shortcut."),
    (r"downsamp_modules\.", "heads.classification.halve."),
    (r"final_layer\.", "heads.classification.final."),
    (r"classifier\.", "heads.classification.classifier."),
    (r"last_layer\.3\.", "heads.segmentation.classifier."),
    (r"last_layer\.", "heads.segmentation.final."),
]


def import_official(source: str | Path | Mapping[str, Tensor], name: str) -> MDEQ:
    """Build the variant that the released code uses and load one of its checkpoints.

    Args:
        source: A file of the released weights, or its state dict.
        name: Which model it is, such as "official_cifar10_tiny". The released configurations
            disagree with one another, so widths, expansion, classes and the presence of
            optional parts are read off the checkpoint; the name gives the rest.
    """
    if name not in PRESETS or not name.startswith("official_"):
        raise ValueError(
            unknown("official model", name, [n for n in PRESETS if n.startswith("official_")])
        )
    where = "the state dict" if isinstance(source, Mapping) else str(source)
    state = _renamed(_read(source), where)
    model = MDEQ(_configuration(name, state, where))
    load_exactly(model, state, where)
    return model.eval()


def _read(source: str | Path | Mapping[str, Tensor]) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, (str, Path)):
        raise ValueError(f"source is {source!r}; expected a file or a state dict")
    file = Path(source)
    if not file.is_file():
        raise ValueError(f"there is no file {file}; expected a checkpoint of the released code")
    try:
        with torch.serialization.safe_globals(_numpy_scalars()):
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds, and advises to load unsafely
        raise ValueError(
            f"{file} cannot be read as a checkpoint of tensors alone ({type(error).__name__}); "
            "expected a file of the released code, saved by torch.save"
        ) from None
    if not isinstance(state, Mapping):
        raise ValueError(f"{file} holds a {type(state).__name__}; expected a state dict")
    return state


def _numpy_scalars() -> list[Any]:
    """What reads the scores that training checkpoints carry beside the weights."""
    try:
        import numpy as np
    except ImportError:
        return []
    scalar: Any = np.float64(0).__reduce__()[0]
    return [scalar, (scalar, "numpy.core.multiarray.scalar"), np.dtype, np.dtypes.Float64DType]


def _renamed(state: Mapping[str, Any], where: str) -> dict[str, Tensor]:
    # Training checkpoints wrap the weights.
    inner = state.get("state_dict", state)
    if not isinstance(inner, Mapping):
        raise ValueError(f"{where} has a {type(inner).__name__} as state_dict; expected a mapping")
    out: dict[str, Tensor] = {}
    strange = []
    for key, value in inner.items():
        name = re.sub(r"^(module\.)?(model\.)?", "", str(key))
        if name.startswith(IGNORED):
            continue
        for pattern, ours in RENAMED:
            renamed, found = re.subn(f"^{pattern}", ours, name)
            if found and isinstance(value, Tensor) and renamed not in out:
                out[renamed] = value
                break
        else:
            strange.append(str(key))
    if strange or not out:
        listed = ", ".join(strange[:3]) or "nothing at all"
        raise ValueError(
            f"{where} is not a checkpoint of the released code: {len(strange)} keys are not known "
            f"({listed}); expected downsample.*, fullstage.*, and a head, each once"
        )
    for name in list(out):  # files of old versions of torch have no counters
        counter = name.replace("running_mean", "num_batches_tracked")
        out.setdefault(counter, torch.tensor(0))
    return out


def _configuration(name: str, state: Mapping[str, Tensor], where: str) -> MDEQConfig:
    """The preset, with everything that shapes and keys tell."""
    preset = PRESETS[name]

    def shape(key: str, ndim: int = 4) -> torch.Size:
        if key not in state or state[key].ndim != ndim:
            raise ValueError(
                f"{where} does not fit {name}: {key} (in our naming) is missing, or no weight"
            )
        return state[key].shape

    blocks = sum(re.fullmatch(r"f\.blocks\.\d+\.conv1\.weight_v", key) is not None for key in state)
    inner = [shape(f"f.blocks.{i}.conv1.weight_v") for i in range(max(1, blocks))]
    changes: dict[str, Any] = {
        "channels": tuple(size[1] for size in inner),
        "expansion": inner[0][0] // inner[0][1],
        "post_affine": "f.fusion.post.0.norm.weight" in state,
        "in_channels": shape("stem.conv1.weight")[1],
        "stem_projection": "stem.conv3.weight" in state,
    }
    if "classification" in preset.tasks:
        head = "heads.classification"
        changes |= {
            "tasks": {"classification": shape(f"{head}.classifier.weight", 2)[0]},
            "head_channels": tuple(
                shape(f"{head}.widen.{i}.conv1.weight")[0] for i in range(len(inner))
            ),
            "head_width": shape(f"{head}.final.0.weight")[0],
        }
    else:
        changes["tasks"] = {"segmentation": shape("heads.segmentation.classifier.weight")[0]}
    return preset.override(**changes)
