"""The equilibrium as a differentiable function."""

from collections.abc import Callable, Mapping
from typing import Any

from mdeq.implicit.convergence import OnFailure
from mdeq.implicit.modes import Backward, resolve_backward
from mdeq.implicit.problem import BackwardSolve, Problem
from mdeq.solvers import Layout, S, Solution, SolverConfig, check_choice


def fixed_point(
    f: Callable[[S], S],
    z0: S,
    *,
    forward: SolverConfig | str | Mapping[str, Any] = "broyden",
    backward: Backward | str | Mapping[str, Any] = "implicit",
    on_failure: OnFailure = "warn",
    on_backward: Callable[[Solution[S]], None] | None = None,
    track_scales: bool = False,
) -> tuple[S, Solution[S]]:
    """Find z = f(z) from `z0`, differentiable in everything f closes over.

    How to solve and how to differentiate are separate choices. Each can be a name
    ("anderson"; "phantom"), a mapping as in a configuration file ({"solver":
    "anderson", "tol": 1e-4}; {"mode": "phantom", "steps": 3}), or a value
    (`SolverConfig(...)`; `Implicit(...)`, `Phantom(...)`, `OneStep()`, `Unrolled(...)`).

    Args:
        f: Maps the state to itself, and treats samples independently. Parameters and
            inputs reach it by closure: `lambda z: layer(z, x)`.
        z0: Where to start: a tensor (B, ...) or a list of them, one a scale.
        forward: How to solve.
        backward: How to differentiate.
        on_failure: What to do if the forward or the backward solve leaves samples that
            miss the tolerance: "warn", "raise" or "ignore". Only "ignore" avoids a
            synchronisation a solve.
        on_backward: Called with the solution of the backward solve, during backward; only
            "implicit" has one.
        track_scales: Also record how much every scale changes at every step.

    Returns:
        z with its graph, and the forward `Solution`, which has none. z is the
        solution's own ("implicit"), or what the recorded steps of the mode make of it.

    Example:
        >>> layer = torch.nn.Linear(8, 8)
        >>> x = torch.randn(4, 8)
        >>> z, solution = mdeq.fixed_point(lambda z: torch.tanh(layer(z) + x), torch.zeros(4, 8))
        >>> z.sum().backward()  # the exact gradient, from one recorded evaluation
    """
    check_choice("on_failure", on_failure, ("warn", "raise", "ignore"))
    if on_backward is not None and not callable(on_backward):
        raise ValueError(f"on_backward is {on_backward!r}; expected a function of a Solution")
    layout = Layout.of(z0)
    problem = Problem(
        f=layout.flatten(f),
        z0=layout.pack(z0),
        forward=_forward(forward),
        on_failure=on_failure,
        solve_backward=BackwardSolve(layout=layout, on_failure=on_failure, on_backward=on_backward),
        scale_sizes=layout.sizes if track_scales else None,
    )
    z, solution = resolve_backward(backward)(problem)
    return layout.release(z), solution.unpacked(layout)


def _forward(forward: object) -> SolverConfig:
    if isinstance(forward, SolverConfig):
        return forward
    if isinstance(forward, str):
        return SolverConfig(solver=forward)
    if isinstance(forward, Mapping):
        return SolverConfig.of(**forward)
    raise ValueError(
        f"forward is {forward!r}; expected a solver's name, a mapping such as "
        '{"solver": "anderson", "tol": 1e-4}, or a SolverConfig'
    )
