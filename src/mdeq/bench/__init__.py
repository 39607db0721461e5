"""Measuring models side by side: time, memory, and where they go."""

from mdeq.bench.apart import Apart, apart
from mdeq.bench.contestants import PEER, Contestant, configuration
from mdeq.bench.parts import Part, convolution_ratio, parts_of_step
from mdeq.bench.peers import TorchDEQ, torchdeq_solvers
from mdeq.bench.solves import SolveResult, compare_solvers
from mdeq.bench.steps import StepResult, compare_steps
from mdeq.bench.timing import Spread, interleaved

__all__ = [
    "PEER",
    "Apart",
    "Contestant",
    "Part",
    "SolveResult",
    "Spread",
    "StepResult",
    "TorchDEQ",
    "apart",
    "compare_solvers",
    "compare_steps",
    "configuration",
    "convolution_ratio",
    "interleaved",
    "parts_of_step",
    "torchdeq_solvers",
]
