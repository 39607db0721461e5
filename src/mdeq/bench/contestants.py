"""What takes part in a comparison: a model, ready to train and to answer."""

import torch
from torch import nn
from torch.optim import Adam

from mdeq.bench.peers import TorchDEQ
from mdeq.bench.timing import seconds
from mdeq.engine import by_task, keep_freed_memory, task_loss
from mdeq.measure import peak_memory
from mdeq.models import Config, MDEQConfig, build, configure

PEER = "torchdeq:"


def configuration(name: str) -> Config:
    """What a contestant's name stands for."""
    config = configure(name.removeprefix(PEER))
    if name.startswith(PEER) and not isinstance(config, MDEQConfig):
        raise ValueError(
            f"{name.removeprefix(PEER)} has no equilibrium for torchdeq to find; leave {PEER} out"
        )
    return config


class Contestant:
    """A model with a batch of its own, as its users would run it.

    torchdeq:NAME is the model NAME on torchdeq: with tensors in PyTorch's own order, and memory
    as the C library manages it. Weights, images and labels depend on nothing but the sizes.
    """

    def __init__(
        self,
        name: str,
        *,
        batch_size: int,
        image_size: int,
        device: torch.device,
        channels_last: bool = True,
    ) -> None:
        config = configuration(name)
        peer = name.startswith(PEER)
        if not peer:
            keep_freed_memory()
        torch.manual_seed(0)
        model: nn.Module
        model = TorchDEQ(config) if peer and isinstance(config, MDEQConfig) else build(config)
        torch.manual_seed(0)
        images = torch.randn(batch_size, config.in_channels, image_size, image_size)
        if channels_last and not peer:
            model = model.to(memory_format=torch.channels_last)
            images = images.contiguous(memory_format=torch.channels_last)
        self.name, self.device = name, device
        self.targets = {
            task: torch.randint(
                classes, (batch_size, *([image_size] * 2 if task == "segmentation" else []))
            ).to(device)
            for task, classes in config.tasks.items()
        }
        self.model, self.images = model.to(device).train(), images.to(device)
        self.optimiser = Adam(self.model.parameters())

    def train(self) -> None:
        """Take a step of training."""
        self.optimiser.zero_grad()
        with torch.profiler.record_function("bench.forward"):
            logits = by_task(self.model(self.images), self.targets)
            losses = [task_loss(task, logits[task], y) for task, y in self.targets.items()]
        with torch.profiler.record_function("bench.backward"):
            torch.stack(losses).sum().backward()
        with torch.profiler.record_function("bench.optimiser"):
            self.optimiser.step()

    def infer(self) -> None:
        """Answer for the batch, without gradients."""
        self.model.eval()
        with torch.no_grad():
            self.model(self.images)
        self.model.train()

    def train_seconds(self) -> float:
        """Of a step of training."""
        return seconds(self.train, self.device)

    def infer_seconds(self) -> float:
        """Of an answer."""
        return seconds(self.infer, self.device)

    def train_bytes(self) -> int:
        """That a step holds at its peak, above weights and optimiser; gradients are its own."""
        self.model.zero_grad()
        return peak_memory(self.train, self.device)

    def infer_bytes(self) -> int:
        """That an answer holds at its peak, above the weights."""
        return peak_memory(self.infer, self.device)

    def parameters(self) -> int:
        """How many."""
        return sum(p.numel() for p in self.model.parameters())
