"""Segmentation in windows."""

import pytest
import torch
from torch import Tensor

from mdeq.engine.windows import in_windows


def local(images: Tensor) -> Tensor:
    """Logits that depend on a pixel alone: the same in every window."""
    return torch.stack([images.sum(dim=1), images.prod(dim=1)], dim=1)


@pytest.mark.parametrize("window", [(5, 7), (9, 4), (1, 1), (20, 20), (10, 30)])
def test_windows_cover_every_pixel_and_agree_with_the_whole(window: tuple[int, int]) -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 3, 10, 13)
    torch.testing.assert_close(in_windows(local, images, window), local(images))


def test_no_part_is_larger_than_the_window_and_all_are_alike() -> None:
    shapes = set()

    def look(images: Tensor) -> Tensor:
        shapes.add(tuple(images.shape[2:]))
        return local(images)

    in_windows(look, torch.randn(1, 3, 100, 200), (64, 48))
    assert shapes == {(64, 48)}


def test_where_windows_overlap_the_mean_counts() -> None:
    calls = iter([1.0, 3.0])

    def constant(images: Tensor) -> Tensor:
        return torch.full((1, 1, *images.shape[2:]), next(calls))

    logits = in_windows(constant, torch.zeros(1, 3, 1, 6), (1, 4))
    assert logits[0, 0, 0].tolist() == [1, 1, 2, 2, 3, 3]
