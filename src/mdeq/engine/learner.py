"""What learns: the model with its optimiser, its average and its phases."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from timm.utils.model_ema import ModelEmaV3
from torch.nn.functional import avg_pool2d

from mdeq.data import Batch, Source, derived_seed
from mdeq.engine.duration import in_steps
from mdeq.engine.losses import training_losses
from mdeq.engine.optimisation import create_optimiser, create_schedule
from mdeq.engine.recipe import Recipe
from mdeq.engine.step import Observed, compute_gradient
from mdeq.engine.supervision import Supervised
from mdeq.engine.synchronised import synchronise_norms
from mdeq.implicit import Unrolled
from mdeq.models import MDEQ, Config, Model, Transfer, build, load_exactly, transfer_backbone


def coarsened(batch: Batch, factor: int, least: int) -> Batch:
    """The batch with images, and masks with them, `factor` times smaller.

    As it is, if they were then below the `least` size that a model pads them to.
    """
    if min(batch["image"].shape[2:]) < factor * least:
        return batch
    smaller = {**batch, "image": avg_pool2d(batch["image"], factor, ceil_mode=True)}
    if "segmentation" in batch:
        smaller["segmentation"] = batch["segmentation"][:, ::factor, ::factor]
    return smaller


class Learner:
    """A model that follows the gradients of its recipe.

    Whatever is random in step k depends on the seed, k and the process alone, and the learning
    rate on k: there is no state but `state()`.
    """

    def __init__(
        self,
        recipe: Recipe,
        config: Config,
        classes: Mapping[str, list[str]],
        accelerator: Accelerator,
        *,
        total: int,
        steps_per_epoch: int,
    ) -> None:
        self.recipe, self.accelerator = recipe, accelerator
        self.total, self.steps_per_epoch = total, steps_per_epoch
        self.losses = training_losses(recipe, classes)
        set_seed(recipe.seed)
        dtype = torch.float64 if recipe.precision == "float64" else torch.float32
        model = build(config).to(dtype)
        if recipe.channels_last:
            model = model.to(memory_format=torch.channels_last)
        if accelerator.num_processes > 1:
            synchronise_norms(model)
            # Said of 1x1 kernels in channels-last order; there is nothing to do about it.
            warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        if recipe.compile:
            (model.f if isinstance(model, MDEQ) else model).compile()
        self.model = model.to(accelerator.device)
        self.ema = None if recipe.ema is None else ModelEmaV3(model, recipe.ema, use_warmup=True)
        supervised = Supervised(self.model, recipe.auxiliary)
        self.auxiliary = supervised.auxiliary.to(accelerator.device, dtype)
        self.wrapped = accelerator.prepare_model(supervised)
        self.optimiser = create_optimiser(supervised, recipe.optimiser)
        self.schedule = create_schedule(
            self.optimiser,
            warmup=in_steps(recipe.optimiser.warmup, steps_per_epoch),
            total=total,
        )

    @property
    def coarse_steps(self) -> int:
        """How long the phase on smaller images is."""
        return round(self.recipe.coarse.share * self.total)

    def effort(self, step: int) -> float:
        """About what the steps before `step` cost, in units of a step on images of full size."""
        coarse = min(step, self.coarse_steps)
        # Half the height and width is a quarter of the work, but 0.41 of the time on two cores.
        return float(step - coarse + coarse / self.recipe.coarse.factor**1.3)

    @property
    def judged(self) -> Model:
        """The model as it will be used: the averaged weights, outside of any phase."""
        if self.ema is not None:
            averaged: Model = self.ema.module
            return averaged
        if isinstance(self.model, MDEQ):
            self.model.backward = self.model.config.backward
            self.model.set_softplus(None)
        return self.model

    def look(self, step: int, batch: Batch, source: Source, *, track_scales: bool) -> Observed:
        """Compute the gradients of a step."""
        torch.manual_seed(derived_seed(self.recipe.seed, step, self.accelerator.process_index))
        self._enter_phase(step)
        self.schedule.step_update(step)
        self.optimiser.zero_grad()
        weight = next(self.model.parameters())
        batch = {name: value.to(weight.device, non_blocking=True) for name, value in batch.items()}
        batch["image"] = source.normalise(batch["image"], weight.dtype)
        if step < self.coarse_steps:
            least = self.model.config.size_divisor if isinstance(self.model, MDEQ) else 1
            batch = coarsened(batch, self.recipe.coarse.factor, least)
        if self.recipe.channels_last:
            batch["image"] = batch["image"].contiguous(memory_format=torch.channels_last)
        return compute_gradient(
            self.wrapped,
            batch,
            self.recipe,
            accelerator=self.accelerator,
            losses=self.losses,
            weights=self.recipe.tasks,
            track_scales=track_scales,
        )

    def begin_with(self, source: Model, name: str) -> Transfer:
        """Take over the backbone of another model."""
        if self.ema is not None:
            transfer_backbone(source, self.ema.module, name)
        return transfer_backbone(source, self.model, name)

    def move(self, step: int) -> None:
        """Follow the gradients."""
        self.optimiser.step()
        if self.ema is not None:
            self.ema.update(self.model, step=step + 1)

    def state(self) -> dict[str, Any]:
        """Everything that a step depends on, besides its number."""
        return {
            "model": self.model.state_dict(),
            "auxiliary": self.auxiliary.state_dict(),
            "ema": None if self.ema is None else self.ema.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        load_exactly(self.model, state["model"], "the checkpoint")
        load_exactly(self.auxiliary, state["auxiliary"], "the checkpoint")
        if self.ema is not None:
            self.ema.module.load_state_dict(state["ema"])
        self.optimiser.load_state_dict(state["optimiser"])

    def _enter_phase(self, step: int) -> None:
        """The paper's phases: a shallow stack of f first, softplus in its blocks at first."""
        if not isinstance(self.model, MDEQ):
            return
        shallow, softplus = self.recipe.shallow, self.recipe.softplus
        if step < in_steps(shallow.length, self.steps_per_epoch):
            self.model.backward = Unrolled(steps=shallow.steps)
        else:
            self.model.backward = self.model.config.backward
        smooth = step < in_steps(softplus.length, self.steps_per_epoch)
        self.model.set_softplus(softplus.beta if smooth else None)
