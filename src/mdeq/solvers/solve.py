"""Solving z = f(z) for a state of any structure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import torch
from torch import Tensor
from torch.profiler import record_function

from mdeq.solvers.checks import check_choice, check_count, check_number, unknown
from mdeq.solvers.loop import Stop, iterate
from mdeq.solvers.precision import without_autocast
from mdeq.solvers.registry import SOLVERS, solver_options
from mdeq.solvers.solution import Solution
from mdeq.solvers.state import FlatMap, Layout, S


@dataclass(frozen=True, kw_only=True)
class SolverConfig:
    """Which solver, how exact, and how long: the settings of `solve` as a value.

    Attributes:
        solver: "broyden", "anderson", "picard" or a name given to `register_solver`.
        tol: Residual at which a sample is finished.
        max_steps: Evaluations of f, the one at `z0` included.
        memory: Updates that the solver keeps; None keeps all.
        stop: Whether the residual is "relative", ||f(z) - z|| / ||f(z)||, or "absolute".
        check_every: Evaluations between two stop tests. A test waits for the device.
        compact: Whether finished samples leave the batch, as soon as they are half of it. f then
            needs a method `select(rows)`, which returns f for these samples; models have it.
        options: What only this solver takes: {"alpha": 0.5} for Broyden.
    """

    solver: str = "broyden"
    tol: float = 1e-3
    max_steps: int = 30
    memory: int | None = None
    stop: Stop = "relative"
    check_every: int = 1
    compact: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        own = solver_options(self.solver)
        if not isinstance(self.options, Mapping):
            raise ValueError(f"options is {self.options!r}; expected a mapping of names to values")
        for name in self.options:
            if name not in own or name == "memory":
                settings = {f.name for f in fields(SolverConfig)} - {"options", "memory"}
                raise ValueError(unknown(f"option of {self.solver!r}", name, settings | set(own)))
        check_number("tol", self.tol, above=0)
        check_count("max_steps", self.max_steps)
        check_count("check_every", self.check_every)
        check_choice("stop", self.stop, ("relative", "absolute"))
        if not isinstance(self.compact, bool):
            raise ValueError(f"compact is {self.compact!r}; expected True or False")
        if self.memory is not None:
            check_count("memory", self.memory)
            if "memory" not in own:
                raise ValueError(
                    f"memory={self.memory!r} does nothing for {self.solver!r}, which keeps no "
                    "updates; leave it out"
                )

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Build from flat settings: those that are no field are the solver's own options."""
        names = {f.name for f in fields(cls)}
        options = {name: settings.pop(name) for name in list(settings) if name not in names}
        if options:
            settings["options"] = {**settings.get("options", {}), **options}
        return cls(**settings)

    def override(self, change: "SolverConfig | str | Mapping[str, Any]") -> "SolverConfig":
        """These settings with some changed; a name changes the solver alone.

        Another solver starts without the options that only this one takes.
        """
        if isinstance(change, SolverConfig):
            return change
        if isinstance(change, str):
            change = {"solver": change}
        if not isinstance(change, Mapping):
            raise ValueError(
                f"solver is {change!r}; expected a name, a mapping such as "
                '{"solver": "anderson", "tol": 1e-4}, or a SolverConfig'
            )
        settings = {f.name: getattr(self, f.name) for f in fields(SolverConfig)}
        if change.get("solver", self.solver) != self.solver:
            settings["options"] = {}
            if "memory" not in solver_options(change["solver"]):
                settings["memory"] = None
        return SolverConfig.of(**{**settings, **change})

    def solve_flat(
        self, f: FlatMap, z0: Tensor, *, scale_sizes: list[int] | None = None
    ) -> Solution[Tensor]:
        """Solve for a flat state, in the flat state's own precision."""
        options = dict(self.options)
        if self.memory is not None:
            options["memory"] = self.memory
        propose = SOLVERS[self.solver](z0, self.max_steps, **options)
        if self.compact:
            if not getattr(f, "selects", False):
                raise ValueError(
                    "compact=True needs an f with a method select(rows), which returns f for these "
                    "samples: the f of a model, in a forward solve; otherwise leave compact out"
                )
            if not hasattr(propose, "select"):
                raise ValueError(
                    f"compact=True needs a solver with a method select(rows); {self.solver!r} has "
                    "none; leave compact out"
                )
        with without_autocast(z0.device), record_function("mdeq.solve"):
            return iterate(
                f,
                z0,
                propose,
                tol=self.tol,
                max_steps=self.max_steps,
                stop=self.stop,
                check_every=self.check_every,
                compact=self.compact,
                scale_sizes=scale_sizes,
            )


def solve(
    f: Callable[[S], S],
    z0: S,
    solver: str = "broyden",
    *,
    tol: float = 1e-3,
    max_steps: int = 30,
    memory: int | None = None,
    stop: Stop = "relative",
    check_every: int = 1,
    compact: bool = False,
    track_scales: bool = False,
    **options: Any,
) -> Solution[S]:
    """Find z = f(z) from `z0`, for every sample of the batch by itself.

    Args:
        f: Maps the state to itself; it must treat samples independently and leave
            its argument alone. Gradients are not recorded: see `fixed_point`.
        z0: Where to start: a tensor (B, ...) or a list of them, one a scale.
        solver: "broyden", "anderson", "picard" or a name given to `register_solver`.
        tol: Residual at which a sample is finished.
        max_steps: Evaluations of f, the one at `z0` included.
        memory: Updates that the solver keeps; None keeps all.
        stop: Whether the residual is "relative", ||f(z) - z|| / ||f(z)||, or "absolute".
        check_every: Evaluations between two stop tests. A test waits for the device.
        compact: Whether finished samples leave the batch, as soon as they are half of it. f then
            needs a method `select(rows)`, which returns f for these samples.
        track_scales: Also record how much every scale changes at every step.
        options: The solver's own: `alpha` (step size) for Broyden, `ridge` for Anderson.

    Example:
        >>> solution = mdeq.solve(torch.cos, torch.zeros(1, 1), tol=1e-6)
        >>> print(f"{solution.z.item():.4f} after {solution.steps.item()} evaluations")
        0.7391 after 6 evaluations
    """
    config = SolverConfig.of(
        solver=solver,
        tol=tol,
        max_steps=max_steps,
        memory=memory,
        stop=stop,
        check_every=check_every,
        compact=compact,
        **options,
    )
    layout = Layout.of(z0)
    with torch.no_grad():
        solution = config.solve_flat(
            layout.flatten(f), layout.pack(z0), scale_sizes=layout.sizes if track_scales else None
        )
        return solution.unpacked(layout)
