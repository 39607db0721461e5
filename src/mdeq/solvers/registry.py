"""The solvers by name, and a place for users' own."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from mdeq.solvers.checks import check_choice
from mdeq.solvers.loop import Propose

Solver = Callable[..., Propose]
"""Called once a solve as `solver(z0, max_steps, **options)`, z0 flat (B, D)."""

AnySolver = TypeVar("AnySolver", bound=Solver)

_solvers: dict[str, Solver] = {}

SOLVERS: Mapping[str, Solver] = MappingProxyType(_solvers)
"""Every registered solver; read-only."""


def register_solver(name: str) -> Callable[[AnySolver], AnySolver]:
    """Make a solver available under `name`, to `solve`, `fixed_point` and every model.

    A solver only proposes where to evaluate f next; the loop judges every sample,
    keeps the best iterates, counts and stops. It is called once a solve with the flat
    start (B, D) and the budget, and returns a function of z, f(z) and f(z) - z:

        @mdeq.register_solver("damped")
        def damped(z0, max_steps, *, tau=0.5):
            return lambda z, fz, r: z + tau * r

    Its keyword-only parameters are the options that users can set. To keep samples
    independent, it must treat every row by itself; and it must leave z, and what it proposed
    before, as they are. With a method `select(rows)`, which goes on with some rows, it can be
    used with `compact=True`.
    """

    if not isinstance(name, str):
        raise ValueError(f'the solver\'s name is {name!r}; say @register_solver("a name")')

    def register(solver: AnySolver) -> AnySolver:
        if name in _solvers:
            raise ValueError(f"there is a solver {name!r} already; choose another name")
        _solvers[name] = solver
        return solver

    return register


def solver_options(name: str) -> list[str]:
    """The options that the solver `name` takes."""
    check_choice("solver", name, _solvers)
    parameters = inspect.signature(_solvers[name]).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
