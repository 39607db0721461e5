"""Optimiser and schedule of a recipe."""

import torch
from timm.optim._param_groups import param_groups_weight_decay
from timm.optim.muon import Muon
from timm.scheduler.cosine_lr import CosineLRScheduler
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from mdeq.engine.sections import OptimiserConfig


def create_optimiser(model: nn.Module, config: OptimiserConfig) -> Optimizer:
    """The optimiser; norms, biases and the gains of normalised weights get no weight decay."""
    groups = param_groups_weight_decay(
        model, config.weight_decay, no_weight_decay_list=("*.weight_g",)
    )
    if config.name == "sgd":
        nesterov = config.momentum > 0
        return SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=nesterov)
    if config.name == "muon":
        return Muon(
            groups,
            lr=config.lr,
            momentum=config.momentum,
            nesterov=True,
            fallback_lr_scale=config.rest,
        )
    return (AdamW if config.name == "adamw" else Adam)(groups, lr=config.lr)


def create_schedule(optimiser: Optimizer, *, warmup: int, total: int) -> CosineLRScheduler:
    """A linear rise, then a cosine to zero; `step_update(step)` sets the rate, without state."""
    return CosineLRScheduler(
        optimiser,
        t_initial=max(2, total - warmup),
        warmup_t=warmup,
        warmup_lr_init=0.0,
        warmup_prefix=True,
        t_in_epochs=False,
    )


def gradient_norm(model: nn.Module, clip: float | None) -> torch.Tensor:
    """The norm of the gradient, which is scaled down to `clip` where it is larger."""
    return nn.utils.clip_grad_norm_(model.parameters(), torch.inf if clip is None else clip)
