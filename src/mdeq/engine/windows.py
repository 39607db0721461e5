"""Segmentation of large images in parts, for small memories."""

from collections.abc import Callable

import torch
from torch import Tensor

Window = tuple[int, int]  # height and width


def in_windows(segment: Callable[[Tensor], Tensor], images: Tensor, window: Window) -> Tensor:
    """The logits (B, K, H, W) of images, window by window; where they overlap, the mean.

    Windows overlap by about a third, and end where the image ends.
    """
    height, width = images.shape[2:]
    rows, columns = _starts(height, window[0]), _starts(width, window[1])
    total: Tensor | None = None
    seen = images.new_zeros(1, 1, height, width)
    for top in rows:
        for left in columns:
            part = (slice(top, top + window[0]), slice(left, left + window[1]))
            logits = segment(images[:, :, *part])
            if total is None:
                total = logits.new_zeros(*logits.shape[:2], height, width)
            total[:, :, *part] += logits
            seen[:, :, *part] += 1
    assert total is not None
    return total / seen


def _starts(length: int, window: int) -> list[int]:
    """Where windows begin, evenly spread; one is enough if it covers everything."""
    if window >= length:
        return [0]
    step = max(1, window * 2 // 3)
    count = -(-(length - window) // step) + 1
    return torch.linspace(0, length - window, count).round().int().tolist()
