"""The boundary between what users hold (scales) and what solvers see (one flat tensor)."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.profiler import record_function

from mdeq.solvers.precision import ambient_autocast

S = TypeVar("S", Tensor, list[Tensor], tuple[Tensor, ...])
"""A state: a tensor (B, ...), or a list or tuple of such tensors, one a scale."""

FlatMap = Callable[[Tensor], Tensor]
"""A map of flat states, (B, D) -> (B, D)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the scales of one state lie side by side in a flat (B, D) tensor.

    The flat state is float32 or float64: half-precision states are solved for in
    float32. A scale that comes in channels-last order is laid out in it, so f sees every
    sample in the order that it was given.
    """

    structure: type
    shapes: tuple[torch.Size, ...]
    channels_last: tuple[bool, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, state: object, argument: str = "z0") -> "Layout":
        """Read the layout off a state, or say what is wrong with the argument."""
        structure, scales = _scales(state, argument)
        if not scales:
            raise ValueError(f"{argument} is empty; expected at least one scale, (B, ...)")
        first = scales[0]
        for index, scale in enumerate(scales):
            name = argument if structure is Tensor else f"scale {index} of {argument}"
            if scale.ndim == 0:
                raise ValueError(f"{name} has no batch dimension; expected a tensor (B, ...)")
            if not scale.dtype.is_floating_point:
                raise ValueError(
                    f"{name} is {_short(scale.dtype)}; expected a floating-point state, "
                    f"for example {argument}.float()"
                )
            if scale.numel() == 0:
                raise ValueError(
                    f"{name} is empty, shape {tuple(scale.shape)}; "
                    "expected at least one sample and one feature"
                )
            if scale.shape[0] != first.shape[0]:
                raise ValueError(
                    f"{name} has batch size {scale.shape[0]}, scale 0 has {first.shape[0]}; "
                    "all scales of a state describe the same samples"
                )
            if (scale.dtype, scale.device) != (first.dtype, first.device):
                raise ValueError(
                    f"{name} is {_short(scale.dtype)} on {scale.device}, scale 0 is "
                    f"{_short(first.dtype)} on {first.device}; move all scales to one of them"
                )
        return cls(
            structure,
            tuple(scale.shape for scale in scales),
            tuple(_is_channels_last(scale) for scale in scales),
            first.dtype,
            first.device,
        )

    @property
    def sizes(self) -> list[int]:
        """Features a sample of each scale."""
        return [shape[1:].numel() for shape in self.shapes]

    def pack(self, state: Tensor | Sequence[Tensor]) -> Tensor:
        """Lay a state of this layout out flat, (B, D)."""
        scales = [state] if isinstance(state, Tensor) else state
        rows = [
            (scale.permute(0, 2, 3, 1) if last else scale).reshape(len(scale), -1)
            for scale, last in zip(scales, self.channels_last, strict=True)
        ]
        flat = rows[0] if len(rows) == 1 else torch.cat(rows, dim=1)
        return flat.to(torch.promote_types(self.dtype, torch.float32))

    def unpack(self, flat: Tensor) -> Any:
        """Give a flat state its structure, shapes and dtype back; views where they can be."""
        scales = []
        rows = flat.to(self.dtype).split(self.sizes, dim=1)
        for row, shape, last in zip(rows, self.shapes, self.channels_last, strict=True):
            if last:
                batch, channels, height, width = shape
                scales.append(row.view(batch, height, width, channels).permute(0, 3, 1, 2))
            else:
                scales.append(row.view(shape))
        return scales[0] if self.structure is Tensor else self.structure(scales)

    def release(self, flat: Any) -> Any:
        """`unpack` for handing out: dense tensors that share memory with nothing."""
        state = self.unpack(flat)
        scales = [state] if self.structure is Tensor else state
        owned = [
            scale.clone(memory_format=torch.channels_last if last else torch.contiguous_format)
            for scale, last in zip(scales, self.channels_last, strict=True)
        ]
        return owned[0] if self.structure is Tensor else self.structure(owned)

    def flatten(self, f: Callable[[S], S]) -> "FlatFunction":
        """`f` as a map of flat states, which checks that f keeps to the layout.

        The map runs f under the autocast settings of this moment, whatever the
        settings around its later calls, and hands the result back in the flat dtype.
        """
        if not callable(f):
            raise ValueError(f"f is {f!r}; expected a function of the state")
        return FlatFunction(f, self, ambient_autocast(self.device))

    def resized(self, batch: int) -> "Layout":
        """The layout of another number of samples."""
        return replace(self, shapes=tuple(torch.Size((batch, *s[1:])) for s in self.shapes))

    def check(self, out: object, *, autocast: bool) -> None:
        """The result of f is a state of this layout."""
        structure, scales = _scales(out, "the result of f")
        if (structure is Tensor) != (self.structure is Tensor) or len(scales) != len(self.shapes):
            raise ValueError(
                f"f changed the structure of the state: it was given "
                f"{_describe(self.structure, len(self.shapes))} and returned "
                f"{_describe(structure, len(scales))}; f must map the state to itself"
            )
        for index, (scale, shape) in enumerate(zip(scales, self.shapes, strict=True)):
            where = "the state" if structure is Tensor else f"scale {index}"
            if scale.shape != shape:
                raise ValueError(
                    f"f changed the shape of {where} from {tuple(shape)} to "
                    f"{tuple(scale.shape)}; f must map the state to itself"
                )
            if scale.dtype != self.dtype and not (autocast and scale.dtype.is_floating_point):
                raise ValueError(
                    f"f changed the dtype of {where} from {_short(self.dtype)} to "
                    f"{_short(scale.dtype)}; start from a z0 of f's dtype, or use torch.autocast"
                )


@dataclass(frozen=True, slots=True)
class FlatFunction:
    """A function of states as a map of flat ones."""

    f: Callable[[Any], Any]
    layout: Layout
    autocast: Callable[[], AbstractContextManager[Any]] | None

    def __call__(self, flat: Tensor) -> Tensor:
        """f(z), flat."""
        with record_function("mdeq.packing"):
            state = self.layout.unpack(flat)
        version = None if flat.is_inference() else flat._version
        with record_function("mdeq.f"), self.autocast() if self.autocast else nullcontext():
            out = self.f(state)
        self.layout.check(out, autocast=self.autocast is not None)
        if version is not None and flat._version != version:
            raise ValueError(
                "f modified its argument in place; expected f to leave it alone: "
                "clone it first, or use the out-of-place operation"
            )
        with record_function("mdeq.packing"):
            return self.layout.pack(out)

    @property
    def selects(self) -> bool:
        """Whether f can be had for some of its samples."""
        return callable(getattr(self.f, "select", None))

    def select(self, rows: Tensor) -> "FlatFunction":
        """The map of some samples."""
        f = self.f.select(rows)  # type: ignore[attr-defined]
        return FlatFunction(f, self.layout.resized(len(rows)), self.autocast)


def _scales(state: object, name: str) -> tuple[type, Sequence[Tensor]]:
    if isinstance(state, Tensor):
        return Tensor, [state]
    if isinstance(state, (list, tuple)) and all(isinstance(scale, Tensor) for scale in state):
        return (list if isinstance(state, list) else tuple), state
    found = type(state).__name__
    if isinstance(state, (list, tuple)):
        found += " of " + ", ".join(sorted({type(scale).__name__ for scale in state}))
    raise ValueError(f"{name} is a {found}; expected a tensor (B, ...) or a list of them")


def _is_channels_last(scale: Tensor) -> bool:
    return (
        scale.ndim == 4
        and not scale.is_contiguous()
        and scale.is_contiguous(memory_format=torch.channels_last)
    )


def _describe(structure: type, scales: int) -> str:
    return "a tensor" if structure is Tensor else f"a {structure.__name__} of {scales} tensors"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
