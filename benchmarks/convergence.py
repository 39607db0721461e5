"""Draw the picture of the README: how the three solvers converge on one equilibrium.

.venv/bin/python benchmarks/convergence.py
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch

import mdeq

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "convergence.png"
COLOURS = {"picard": "#E69F00", "anderson": "#009E73", "broyden": "#0072B2"}
LABELS = {
    "picard": "plain iteration (picard)",
    "anderson": "Anderson acceleration",
    "broyden": "Broyden",
}


def main() -> None:
    """Solve with every solver and plot median and spread of the residual."""
    torch.manual_seed(0)
    weight = 1.7 * torch.randn(300, 300, dtype=torch.float64) / 300**0.5
    bias = torch.randn(64, 300, dtype=torch.float64)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for solver, colour in COLOURS.items():
        solution = mdeq.solve(
            lambda z: torch.tanh(z @ weight.T + bias),
            torch.zeros_like(bias),
            solver,
            tol=1e-30,
            max_steps=80,
        )
        evaluations = range(1, len(solution.trace) + 1)
        low, middle, high = solution.trace.quantile(
            torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), dim=1
        )
        axes.semilogy(evaluations, middle, color=colour, label=LABELS[solver], linewidth=2)
        axes.fill_between(evaluations, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("evaluations of f")
    axes.set_ylabel("relative residual  ‖f(z) − z‖ / ‖f(z)‖")
    axes.set_title("z = tanh(W z + b): 64 samples, 300 features; median and 10–90 % band")
    axes.set_xlim(1, 80)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    print(PICTURE)


if __name__ == "__main__":
    main()
