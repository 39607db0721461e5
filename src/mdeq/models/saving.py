"""Models that are saved as a folder, and loaded whole or not at all."""

from pathlib import Path
from typing import Self

from huggingface_hub import PyTorchModelHubMixin
from torch import nn

from mdeq.models.weights import read_weights

MODEL_CARD = """---
{{ card_data }}
---

# An image model

Made with mdeq. Load it with `mdeq.load(folder)`; `config.json` says what it is.
"""


class Saved(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="mdeq",
    model_card_template=MODEL_CARD,
):
    """A module with `save_pretrained` and `from_pretrained`, which is strict."""

    @classmethod
    def _load_as_safetensor(  # type: ignore[override]
        cls, model: Self, model_file: str, map_location: str, strict: bool
    ) -> Self:
        """Load for `from_pretrained`, which by itself would let missing weights pass."""
        read_weights(model, Path(model_file))
        return model.to(map_location).eval()

    @classmethod
    def _load_as_pickle(  # type: ignore[override]
        cls, model: Self, model_file: str, map_location: str, strict: bool
    ) -> Self:
        """Refuse what `from_pretrained` falls back to where there is no safetensors file."""
        raise ValueError("there is no model.safetensors; other kinds of files are not read")
