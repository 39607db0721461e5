"""How good a model is, on data that it has not seen."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import torch
from accelerate import Accelerator
from tqdm import tqdm

from mdeq.data import Examples, Once, batches
from mdeq.engine.devices import autocast
from mdeq.engine.tasks import Scores, by_task
from mdeq.engine.windows import Window, in_windows
from mdeq.models import MDEQ, Model
from mdeq.solvers import Solution


@torch.no_grad()
def evaluate(
    model: Model,
    examples: Examples,
    classes: Mapping[str, list[str]],
    *,
    accelerator: Accelerator,
    batch_size: int,
    workers: int = 0,
    weights: Mapping[str, float] | None = None,
    precision: str = "float32",
    window: Window | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, Any] | None:
    """The figures of every task, each example counted once among all processes.

    None if `stopped` says so before the end. With a `window` images are segmented in parts of
    that size, which takes less memory.
    """
    if window is not None and list(classes) != ["segmentation"]:
        raise ValueError("windows are for models that segment, and nothing else")
    began = time.perf_counter()
    was_training = model.training
    model.eval()
    scores = Scores(classes, accelerator.device, weights, solved=isinstance(model, MDEQ))
    order = Once(
        len(examples),
        batch_size,
        process=accelerator.process_index,
        processes=accelerator.num_processes,
    )
    weight = next(model.parameters())
    solutions: list[Solution[Any]] = []
    how: dict[str, Any] = {}
    if isinstance(model, MDEQ):
        how["tasks"] = list(classes)
        how["on_equilibrium"] = lambda equilibrium: solutions.append(equilibrium.solution)
    hidden = None if accelerator.is_main_process else True  # None: where there is no terminal
    with (
        closing(batches(examples, order, workers=workers)) as stream,
        tqdm(stream, examples.split, len(order), leave=False, disable=hidden) as bar,
    ):
        for batch in bar:
            if stopped():
                break
            batch = {key: value.to(weight.device) for key, value in batch.items()}
            images = examples.source.normalise(batch["image"], weight.dtype)
            with autocast(weight.device, precision):
                if window is None:
                    output = model(images, **how)
                else:
                    output = in_windows(lambda part: model(part, **how), images, window)
            scores.update(by_task(output, classes), batch, solutions)
            solutions.clear()
    model.train(was_training)
    if accelerator.reduce(torch.tensor(float(stopped()), device=accelerator.device)) > 0:
        return None
    figures = scores.compute()
    if isinstance(model, MDEQ):
        figures["equilibrium"]["tolerance"] = model.solver.tol
    return {
        **figures,
        "split": examples.split,
        "examples": len(examples),
        "seconds": time.perf_counter() - began,
    }


def together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a model that was evaluated on several datasets, as those of one."""
    whole: dict[str, Any] = {}
    for figures in parts:
        whole |= figures
    whole["split"] = " and ".join(dict.fromkeys(figures["split"] for figures in parts))
    for name in ("loss", "examples", "seconds"):
        whole[name] = sum(figures[name] for figures in parts)
    if "equilibrium" in whole:
        whole["equilibrium"] = {
            name: sum(figures["examples"] * figures["equilibrium"][name] for figures in parts)
            / whole["examples"]
            for name in whole["equilibrium"]
        }
    return whole
