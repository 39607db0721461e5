"""What takes part in a comparison: a model, ready to train and to answer."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Adam

from mdeq.bench.peers import TorchDEQ
from mdeq.engine import by_task, task_loss
from mdeq.models import MDEQConfig, build, configure

PEER = "torchdeq:"


@dataclass(frozen=True, kw_only=True, eq=False)
class Contestant:
    """A model with data of its own size, and what it is measured at.

    Attributes:
        name: As it was asked for.
        model: In training mode.
        images: A batch.
        train: Takes a step of training.
        infer: Answers for the batch, without gradients.
    """

    name: str
    model: nn.Module
    images: Tensor
    train: Callable[[], None]
    infer: Callable[[], None]

    @property
    def parameters(self) -> int:
        """How many."""
        return sum(p.numel() for p in self.model.parameters())


def enter(
    name: str, *, batch_size: int, image_size: int, device: torch.device, channels_last: bool = True
) -> Contestant:
    """The contestant of a name: a model's, or torchdeq:NAME for the same model on torchdeq.

    Weights, images and labels depend on nothing but the sizes. torchdeq gets its tensors in
    PyTorch's own order, as its users have them.
    """
    peer = name.startswith(PEER)
    config = configure(name.removeprefix(PEER))
    torch.manual_seed(0)
    if peer and not isinstance(config, MDEQConfig):
        raise ValueError(
            f"{name.removeprefix(PEER)} has no equilibrium for torchdeq to find; leave {PEER} out"
        )
    model: nn.Module
    model = TorchDEQ(config) if peer and isinstance(config, MDEQConfig) else build(config)
    torch.manual_seed(0)
    images = torch.randn(batch_size, config.in_channels, image_size, image_size)
    if channels_last and not peer:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    targets = {
        task: torch.randint(
            classes, (batch_size, *([image_size] * 2 if task == "segmentation" else []))
        ).to(device)
        for task, classes in config.tasks.items()
    }
    model, images = model.to(device).train(), images.to(device)
    optimiser = Adam(model.parameters())

    def train() -> None:
        optimiser.zero_grad()
        with torch.profiler.record_function("bench.forward"):
            logits = by_task(model(images), targets)
            losses = [task_loss(task, logits[task], target) for task, target in targets.items()]
        with torch.profiler.record_function("bench.backward"):
            torch.stack(losses).sum().backward()
        with torch.profiler.record_function("bench.optimiser"):
            optimiser.step()

    def infer() -> None:
        model.eval()
        with torch.no_grad():
            model(images)
        model.train()

    return Contestant(name=name, model=model, images=images, train=train, infer=infer)
