"""One forward pass: what is computed once and then stays fixed for every evaluation of f."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from mdeq.nn.convolution import WeightNormConv2d
from mdeq.nn.dropout import VariationalDropout2d


def one_pass(module: nn.Module, x: Tensor) -> Callable[..., Any]:
    """`module` as a function for one pass: weights normalised, dropout masks drawn, for good.

    The function is a value like any other. It can be called any number of times, also after
    the pass, and always is the same function; gradients reach the module's parameters.
    The module itself is not changed. `x` says for which samples masks are drawn.
    """
    fixed = {}
    for name, part in module.named_modules():
        if isinstance(part, WeightNormConv2d):
            fixed[f"{name}.weight"] = part.normalised()
        elif isinstance(part, VariationalDropout2d) and part.active:
            fixed[f"{name}.mask"] = part.draw(x)
    return partial(_call, module, fixed)


def _call(module: nn.Module, fixed: dict[str, Tensor], *args: Any) -> Any:
    return functional_call(module, fixed, args)
