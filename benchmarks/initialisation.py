"""Which initialisation of f trains most reliably: short runs on CIFAR-10, side by side.

.venv/bin/python benchmarks/initialisation.py DIR      (DIR holds cifar-10-batches-py)

The runs train on the first 45,000 training images; the loss is on 1,000 of the last 5,000. The
runs are short: read the residuals, and the loss only where it is below chance, ln 10 = 2.30.
"""

import pickle
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import mdeq

BATCH, SEEDS = 32, 3
PHANTOM = {
    "solver": {"max_steps": 8},
    "backward": {"mode": "phantom", "steps": 3, "tau": 0.7},
}
MODES: dict[str, tuple[int, dict[str, Any]]] = {
    "8 forward, 3 phantom steps": (100, PHANTOM),
    "paper: 15 forward, 18 backward, implicit": (30, {}),
}


def cifar10(root: Path) -> tuple[Tensor, Tensor]:
    """The training images, normalised, and their labels."""
    images, labels = [], []
    for k in range(1, 6):
        batch = pickle.loads((root / f"cifar-10-batches-py/data_batch_{k}").read_bytes())
        images.append(torch.from_numpy(batch["data"]).reshape(-1, 3, 32, 32))
        labels += batch["labels"]
    pixels = torch.cat(images).float() / 255
    mean, std = pixels.mean((0, 2, 3), keepdim=True), pixels.std((0, 2, 3), keepdim=True)
    return (pixels - mean) / std, torch.tensor(labels)


def train(
    images: Tensor, labels: Tensor, seed: int, steps: int, **settings: Any
) -> tuple[float, float, float]:
    """Loss on held-out images, and the forward residual at the start and at the end."""
    torch.manual_seed(seed)
    model = mdeq.create_model("mdeq_cifar10_small", **settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    residuals = []
    for _ in range(steps):
        chosen = torch.randint(45_000, (BATCH,))
        equilibrium = model.equilibrium(images[chosen])
        logits = model.heads["classification"](equilibrium.scales)
        residuals.append(equilibrium.solution.residual.median().item())
        loss = cross_entropy(logits, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    model.eval()
    held_out = slice(45_000, 46_000)
    with torch.inference_mode():
        loss = cross_entropy(model(images[held_out]), labels[held_out])
    return loss.item(), residuals[0], sum(residuals[-10:]) / 10


def main(root: str) -> None:
    """Print the table, for docs/models.md."""
    images, labels = cifar10(Path(root))
    print(f"mdeq_cifar10_small, Adam, batch {BATCH}, seeds 0 to {SEEDS - 1}\n")
    print("| mode | steps | initialisation | held-out loss | residual, first step | last steps |")
    print("| --- | --- | --- | --- | --- | --- |")
    for mode, (steps, settings) in MODES.items():
        for initialisation in ("fan_in", "paper"):
            runs = [
                train(images, labels, seed, steps, initialisation=initialisation, **settings)
                for seed in range(SEEDS)
            ]
            cells = [
                ", ".join(f"{value:.2f}" for value in column) for column in zip(*runs, strict=True)
            ]
            print(f"| {mode} | {steps} | {initialisation} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
