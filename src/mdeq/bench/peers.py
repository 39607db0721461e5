"""The same models on torchdeq, with f written plainly: what to be faster than."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from mdeq.implicit import Implicit
from mdeq.models import MDEQ, MDEQConfig
from mdeq.nn import Transformation, one_pass


class PlainTransformation(nn.Module):
    """f with the weights of a `Transformation`, in the words of the paper and nothing else."""

    def __init__(self, f: Transformation) -> None:
        super().__init__()
        self.blocks, self.fusion = f.blocks, f.fusion

    def forward(self, z: list[Tensor], x: Tensor) -> list[Tensor]:
        """A residual block on every scale, then the fusion of all scales."""
        blocks: Any = self.blocks
        after = [
            self._block(block, scale, x if k == 0 else None)
            for k, (block, scale) in enumerate(zip(blocks, z, strict=True))
        ]
        fusion: Any = self.fusion
        mixed = []
        for j, into_j in enumerate(fusion.paths):
            total = after[j]
            for source, path in into_j.items():
                i = int(source)
                total = total + (path(after[i]) if i < j else path(after[i], total.shape[2:]))
            mixed.append(fusion.post[j](relu(total)))
        return mixed

    def _block(self, block: Any, z: Tensor, x: Tensor | None) -> Tensor:
        inner = block.dropout(block.conv2(relu(block.norm1(block.conv1(z)))))
        z_hat = block.norm2(inner if x is None else inner + x)
        out: Tensor = block.norm3(relu(z_hat + z))
        return out


class TorchDEQ(nn.Module):
    """An MDEQ whose equilibrium torchdeq finds and differentiates, at the same budgets."""

    def __init__(self, config: MDEQConfig) -> None:
        super().__init__()
        model = MDEQ(config)
        mode = model.backward
        if model.solver.solver != "broyden" or not isinstance(mode, Implicit):
            raise ValueError(
                "torchdeq is measured with Broyden's method and the implicit gradient; "
                "choose a model with these, such as official_cifar10_tiny"
            )
        self.stem, self.heads, self.start = model.stem, model.heads, model.f.start
        self.f = PlainTransformation(model.f)
        self.injection = model.injection
        # Its iterations are our evaluations of f, but for the first.
        self.deq = _torchdeq().get_deq(
            ift=True,
            f_solver=_broyden(model.solver.memory),
            f_max_iter=model.solver.max_steps - 1,
            f_tol=model.solver.tol,
            f_stop_mode="rel",
            b_solver=_broyden(mode.memory),
            b_max_iter=mode.max_steps - 1,
            b_tol=mode.tol,
            b_stop_mode="rel",
        )

    def forward(self, images: Tensor) -> Any:
        """Logits, as an MDEQ gives them."""
        x = self.injection(images)
        f = one_pass(self.f, x)
        found, _ = self.deq(lambda *z: f(list(z)), self.start(x))
        z = list(found[-1])
        size = (images.shape[2], images.shape[3])
        logits = {
            task: head(z, size) if task == "segmentation" else head(z)
            for task, head in self.heads.items()
        }
        return logits if len(logits) > 1 else next(iter(logits.values()))


def torchdeq_solvers() -> dict[str, Callable[..., Any]]:
    """Its solvers of flat states, by name."""
    _torchdeq()
    return {
        "broyden": importlib.import_module("torchdeq.solver.broyden").broyden_solver,
        "anderson": importlib.import_module("torchdeq.solver.anderson").anderson_solver,
    }


def _broyden(memory: int | None) -> str:
    """The name of its Broyden solver that keeps so many updates."""
    name = f"broyden-{memory}"
    solver = partial(torchdeq_solvers()["broyden"], LBFGS_thres=memory)
    importlib.import_module("torchdeq.solver").register_solver(name, solver)
    return name


def _torchdeq() -> Any:
    try:
        return importlib.import_module("torchdeq")
    except ImportError:
        raise ValueError(
            "torchdeq is not installed; say pip install torchdeq, or `make bench` once"
        ) from None


def plain_map(model: MDEQ, images: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """f(.; x) of a model as a plain map of flat states in NCHW order, and a start for it."""
    with torch.no_grad():
        x = model.injection(images).contiguous()
        f = one_pass(PlainTransformation(model.f), x)
        start = [scale.contiguous() for scale in model.f.start(x)]
    sizes = [scale[0].numel() for scale in start]

    def flat_f(flat: Tensor) -> Tensor:
        scales = [
            part.view(scale.shape)
            for part, scale in zip(flat.split(sizes, dim=1), start, strict=True)
        ]
        return torch.cat([scale.flatten(start_dim=1) for scale in f(scales)], dim=1)

    return flat_f, torch.cat([scale.flatten(start_dim=1) for scale in start], dim=1)
