"""A model in training: with auxiliary losses on scales of its equilibrium."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import interpolate

from mdeq.engine.tasks import by_task
from mdeq.models import MDEQ, Equilibrium, Model


class Supervised(nn.Module):
    """The model, and a linear head for every scale that an auxiliary loss is put on.

    The heads help in training alone: they are no part of the model that is saved.
    """

    def __init__(self, model: Model, auxiliary: Mapping[str, Mapping[int, float]]) -> None:
        super().__init__()
        self.model = model
        self.auxiliary = nn.ModuleDict()
        for task, scales in auxiliary.items():
            for scale in scales:
                self.auxiliary[auxiliary_name(task, scale)] = _head(model, task, scale)

    def forward(
        self,
        images: Tensor,
        *,
        tasks: Collection[str],
        on_equilibrium: Callable[[Equilibrium], None],
        **how: Any,
    ) -> dict[str, Tensor]:
        """The logits of the tasks, and of their auxiliary heads under names of their own."""
        if not isinstance(self.model, MDEQ):
            return by_task(self.model(images), tasks)
        found: list[Equilibrium] = []

        def look(equilibrium: Equilibrium) -> None:
            found.append(equilibrium)
            on_equilibrium(equilibrium)

        output = self.model(images, tasks=tasks, on_equilibrium=look, **how)
        size = images.shape[2:]
        auxiliary = {
            # Not cropped for segmentation, as in its head: else the pixels of scales do not align.
            name: head((found[0].z if head.dense else found[0].scales)[head.scale], size)
            for name, head in self.auxiliary.items()
            if isinstance(head, ScaleHead) and head.task in tasks
        }
        return by_task(output, tasks) | by_task(auxiliary, auxiliary)


def auxiliary_name(task: str, scale: int) -> str:
    """Of the head of a task on a scale."""
    return f"{task}_of_scale_{scale}"


class ScaleHead(nn.Module):
    """One scale, linearly: the class of an image from its mean, that of a pixel from the pixel."""

    def __init__(self, channels: int, classes: int, task: str, scale: int, stride: int) -> None:
        super().__init__()
        self.task, self.scale = task, scale
        self.dense = task == "segmentation"
        self.stride = stride  # pixels of the image to one of the scale
        self.classifier = nn.Conv2d(channels, classes, 1)

    def forward(self, z: Tensor, size: tuple[int, int]) -> Tensor:
        """Logits (B, K), or (B, K, H, W) at the size of the image."""
        if not self.dense:
            logits: Tensor = self.classifier(z.mean(dim=(2, 3), keepdim=True))[:, :, 0, 0]
            return logits
        logits = interpolate(self.classifier(z), scale_factor=float(self.stride), mode="bilinear")
        return logits[:, :, : size[0], : size[1]]


def _head(model: Model, task: str, scale: int) -> ScaleHead:
    if not isinstance(model, MDEQ):
        raise ValueError("auxiliary losses are for equilibrium models; leave them out")
    channels = model.config.channels
    if task not in model.config.tasks:
        raise ValueError(f"auxiliary.{task} is of no task of the run: {list(model.config.tasks)}")
    if not 0 <= scale < len(channels):
        raise ValueError(
            f"auxiliary.{task} names scale {scale}; expected 0 (the finest) to {len(channels) - 1}"
        )
    stride = 1 << (model.config.downsamplings + scale)
    return ScaleHead(channels[scale], model.config.tasks[task], task, scale, stride)
