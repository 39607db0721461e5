"""One step of training: loss, gradient, and what there is to say about them."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from mdeq.data import Batch
from mdeq.engine.devices import autocast
from mdeq.engine.losses import Loss
from mdeq.engine.optimisation import gradient_norm
from mdeq.engine.recipe import Recipe
from mdeq.engine.supervision import auxiliary_name
from mdeq.engine.tasks import batch_accuracy
from mdeq.implicit import Unrolled, jacobian_norm
from mdeq.models import MDEQ, Equilibrium, Model
from mdeq.solvers import Solution


@dataclass
class Observed:
    """What a step of one process has seen: a tensor for every figure and part of the batch."""

    figures: dict[str, list[Tensor]] = field(default_factory=dict)
    residuals: list[Tensor] = field(default_factory=list)  # of every sample
    solved: bool = True  # by a solver with a chance to; not by a stack of f

    def add(self, name: str, value: Tensor) -> None:
        """Note a figure; the parts of a batch are averaged."""
        self.figures.setdefault(name, []).append(value.detach().mean().float())

    def forward(self, solution: Solution[Any]) -> None:
        """Note how the equilibrium was found."""
        self.residuals.append(solution.residual.detach())
        self.add("residual", solution.residual)
        self.add("evaluations", solution.steps.float())
        if solution.scale_changes is not None and len(solution.scale_changes):
            for k, change in enumerate(solution.scale_changes[-1].unbind(dim=1)):
                self.add(f"change_of_scale_{k}", change)

    def backward(self, solution: Solution[Any]) -> None:
        """Note how the gradient was found."""
        self.add("backward_residual", solution.residual)
        self.add("backward_evaluations", solution.steps.float())

    def reduced(self, accelerator: Accelerator, stop: bool) -> tuple[dict[str, float], bool, bool]:
        """The means over all processes; whether any diverged; whether any was told to stop.

        But for the stop tests of the solvers, the only place where a step waits for the device.
        """
        values = [torch.stack(parts).mean() for parts in self.figures.values()]
        own = torch.stack(values)
        seen = torch.cat([own, *self.residuals])
        broken = ~torch.isfinite(seen).all()
        flags = torch.stack([broken.float(), torch.full_like(own[0], float(stop))])
        *means, broken_anywhere, stop_anywhere = accelerator.reduce(
            torch.cat([own, flags]), reduction="mean"
        ).tolist()
        figures = dict(zip(self.figures, means, strict=True))
        return figures, broken_anywhere > 0, stop_anywhere > 0


def compute_gradient(
    model: nn.Module,
    batch: Batch,
    recipe: Recipe,
    *,
    accelerator: Accelerator,
    losses: Mapping[str, Loss],
    weights: Mapping[str, float],
    track_scales: bool,
) -> Observed:
    """Fill the gradients with those of the mean loss of the batch, over all processes.

    Args:
        model: A `Supervised` model, or that in a wrapper of the accelerator's.
        batch: Images, and the targets of some of the tasks.
        recipe: Of the run.
        accelerator: Of the run.
        losses: Of every task.
        weights: Of every task's loss.
        track_scales: Also note how the scales change.
    """
    own: Model = accelerator.unwrap_model(model).model
    observed = Observed(solved=_has_solver(own))
    present = {task: weight for task, weight in weights.items() if task in batch}
    size = len(batch["image"]) // recipe.accumulate
    for part in range(recipe.accumulate):
        piece = {name: value[part * size : (part + 1) * size] for name, value in batch.items()}
        last = part == recipe.accumulate - 1
        with nullcontext() if last else accelerator.no_sync(model):
            loss = _loss(model, piece, recipe, observed, losses, present, track_scales=track_scales)
            accelerator.backward(loss / recipe.accumulate)
    observed.add("gradient", gradient_norm(model, recipe.optimiser.clip))
    return observed


def _has_solver(model: Model) -> bool:
    if not isinstance(model, MDEQ):
        return False
    return not isinstance(model.backward, Unrolled) and model.solver.max_steps > 1


def _loss(
    model: nn.Module,
    batch: Batch,
    recipe: Recipe,
    observed: Observed,
    losses: Mapping[str, Loss],
    weights: Mapping[str, float],
    *,
    track_scales: bool,
) -> Tensor:
    """The losses of all tasks and the penalty, weighted."""
    penalties: list[Tensor] = []

    def look(found: Equilibrium) -> None:
        observed.forward(found.solution)
        if recipe.jacobian_penalty:
            # Here, inside the model's own forward pass, so in its precision and its graph.
            z = found.solution.z
            features = sum(scale[0].numel() for scale in z)
            penalties.append(jacobian_norm(found.f, z).mean() / features)

    with autocast(batch["image"].device, recipe.precision):
        logits = model(
            batch["image"],
            tasks=list(weights),
            on_equilibrium=look,
            on_backward=observed.backward,
            track_scales=track_scales,
        )
    total: Tensor = batch["image"].new_zeros(())
    for task, weight in weights.items():
        total = total + weight * losses[task](logits[task], batch[task])
        observed.add(f"{task}_accuracy", batch_accuracy(task, logits[task], batch[task]))
        for scale, auxiliary in recipe.auxiliary.get(task, {}).items():
            of_scale = losses[task](logits[auxiliary_name(task, scale)], batch[task])
            total = total + weight * auxiliary * of_scale
            observed.add(f"{task}_loss_of_scale_{scale}", of_scale)
    for penalty in penalties:
        total = total + recipe.jacobian_penalty * penalty
        observed.add("jacobian", penalty)
    observed.add("loss", total)
    return total
