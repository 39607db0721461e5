"""One image of 2048x1024 through a segmentation model in evaluation mode: memory and time.

.venv/bin/python benchmarks/megapixel.py mdeq_cityscapes_small
.venv/bin/python benchmarks/megapixel.py mdeq_cityscapes_xl
"""

import resource
import sys
import time

import torch

import mdeq


def main(name: str) -> None:
    """Print the process's peak memory, which includes weights, torch and the image."""
    torch.manual_seed(0)
    model = mdeq.create_model(name).eval()
    image = torch.randn(1, 3, 1024, 2048)
    start = time.perf_counter()
    with torch.inference_mode():
        logits = model(image)
    seconds = time.perf_counter() - start
    # Linux counts in KiB.
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    budget = model.config.solver.max_steps
    print(f"| {name} | {tuple(logits.shape)} | {budget} | {seconds:.0f} s | {gigabytes:.2f} GB |")


if __name__ == "__main__":
    main(*sys.argv[1:])
