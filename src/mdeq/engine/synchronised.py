"""BatchNorm over the batch of all processes, on any device: torch's own is for GPUs only."""

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce


class SynchronisedBatchNorm2d(nn.BatchNorm2d):
    """The statistics of a training batch are those of all processes together.

    Each process has as many images as the others. Without it, what a model learns would
    depend on the number of processes that its batch is dealt out to.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        if not self.training:
            return super().forward(input)
        parts = dist.get_world_size()
        channels = input.shape[1]
        mean = all_reduce(input.mean(dim=(0, 2, 3))) / parts
        centred = input - mean.view(1, channels, 1, 1)
        variance = all_reduce(centred.square().mean(dim=(0, 2, 3))) / parts
        self._track(mean.detach(), variance.detach(), parts * input.numel() // channels)
        output: Tensor = centred * (variance + self.eps).rsqrt().view(1, channels, 1, 1)
        if self.affine:
            output = output * self.weight.view(1, channels, 1, 1)
            output = output + self.bias.view(1, channels, 1, 1)
        return output

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        unbiased = variance * (count / (count - 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)


def synchronise_norms(model: nn.Module) -> None:
    """Make every BatchNorm of the model see the batch of all processes; weights stay."""
    for module in model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = SynchronisedBatchNorm2d
