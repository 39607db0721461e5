"""One forward pass: what is computed once and then stays fixed for every evaluation of f."""

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mdeq.nn.convolution import WeightNormConv2d
from mdeq.nn.dropout import VariationalDropout2d

# `functional_call` puts the tensors of a pass into the module for the time of the call. Two
# threads in one model would see each other's.
_one_call_at_a_time = threading.RLock()


def one_pass(module: nn.Module, x: Tensor) -> "Pass":
    """f(.; x) for one pass: weights normalised, dropout masks drawn, for good."""
    weights, masks = {}, {}
    with torch.inference_mode(False):  # so that the function can be differentiated later
        for name, part in module.named_modules():
            if isinstance(part, WeightNormConv2d):
                weights[f"{name}.weight"] = part.normalised()
            elif isinstance(part, VariationalDropout2d) and part.active:
                masks[f"{name}.mask"] = part.draw(x)
    return Pass(module, x, weights, masks)


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """z -> module(z, x), with weights and masks that are the same at every call.

    It can be called any number of times, also after the pass; gradients reach the module's
    parameters, unless the pass was begun without gradients. The module itself is not changed.
    """

    module: nn.Module
    x: Tensor
    weights: dict[str, Tensor]
    masks: dict[str, Tensor]

    def __call__(self, z: Any) -> Any:
        """f(z; x)."""
        with _one_call_at_a_time:
            return functional_call(self.module, {**self.weights, **self.masks}, (z, self.x))

    def select(self, rows: Tensor) -> "Pass":
        """The same for some of the samples."""
        masks = {name: mask[rows] for name, mask in self.masks.items()}
        return Pass(self.module, self.x[rows], self.weights, masks)
