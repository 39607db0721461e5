"""One forward pass: what is computed once and then stays fixed for every evaluation of f."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mdeq.nn.convolution import WeightNormConv2d
from mdeq.nn.dropout import VariationalDropout2d

# `functional_call` puts the tensors of a pass into the module for the time of the call. Two
# threads in one model would see each other's.
_one_call_at_a_time = threading.RLock()


def one_pass(module: nn.Module, x: Tensor) -> Callable[..., Any]:
    """`module` as a function for one pass: weights normalised, dropout masks drawn, for good.

    The function can be called any number of times, also after the pass, and has the same
    weights and masks every time; gradients reach the module's parameters, unless the pass
    was begun without gradients. The module itself is not changed. `x` says for which samples
    masks are drawn.
    """
    fixed = {}
    with torch.inference_mode(False):  # so that the function can be differentiated later
        for name, part in module.named_modules():
            if isinstance(part, WeightNormConv2d):
                fixed[f"{name}.weight"] = part.normalised()
            elif isinstance(part, VariationalDropout2d) and part.active:
                fixed[f"{name}.mask"] = part.draw(x)
    return partial(_call, module, fixed)


def _call(module: nn.Module, fixed: dict[str, Tensor], *args: Any) -> Any:
    with _one_call_at_a_time:
        return functional_call(module, fixed, args)
