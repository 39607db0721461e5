"""Weights on disk: read whole or not at all."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

WEIGHTS = "model.safetensors"
CONFIG = "config.json"


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a saved model."""
    file = folder / CONFIG
    if not file.is_file():
        raise ValueError(f"{folder} has no {CONFIG}; expected a folder that save_pretrained wrote")
    try:
        values = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is not JSON ({error}); save the model again") from None
    if not isinstance(values, dict):
        raise ValueError(f"{file} holds a {type(values).__name__}; expected an object of fields")
    return values


def read_weights(model: nn.Module, file: Path) -> None:
    """Load a safetensors file into a model of exactly its keys and shapes."""
    if not file.is_file():
        raise ValueError(f"there is no file {file}; expected the weights of a saved model")
    try:
        state = safetensors.torch.load_file(file)
    except SafetensorError as error:
        raise ValueError(
            f"{file} is no safetensors file, or is cut short ({error}); save or copy it again"
        ) from None
    precisions = {value.dtype for value in state.values() if value.is_floating_point()}
    if len(precisions) == 1:
        model.to(precisions.pop())
    load_exactly(model, state, str(file))


def load_exactly(model: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load a state dict that has the model's keys and shapes, or change nothing and say why."""
    own = model.state_dict()
    problems = []
    for title, names in (
        ("missing", sorted(own.keys() - state.keys())),
        ("unexpected", sorted(state.keys() - own.keys())),
        (
            "of another kind of number",
            [
                f"{name} {state[name].dtype}"
                for name in sorted(own.keys() & state.keys())
                if own[name].is_floating_point() != state[name].is_floating_point()
            ],
        ),
        (
            "of another shape",
            [
                f"{name} {tuple(state[name].shape)} instead of {tuple(own[name].shape)}"
                for name in sorted(own.keys() & state.keys())
                if own[name].shape != state[name].shape
            ],
        ),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            problems.append(f"{len(names)} {title} ({', '.join(names[:3])}{more})")
    if problems:
        raise ValueError(f"{source} does not fit this model: {'; '.join(problems)}")
    model.load_state_dict(state)
