"""Checks of what callers pass in: each error says what came and what was expected."""

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any


def check_count(name: str, value: Any, *, least: int = 1) -> None:
    """A whole number, large enough."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}; expected a whole number, at least {least}")


def check_number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf,
    most: float = math.inf,
) -> None:  # fmt: skip
    """A finite real number within bounds."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if real and math.isfinite(value) and value > above and least <= value <= most:
        return
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("above", above), ("at least", least), ("at most", most))
        if math.isfinite(bound)
    ]
    raise ValueError(f"{name} is {value!r}; expected a number {' and '.join(bounds)}")


def check_choice(kind: str, name: Any, choices: Iterable[str]) -> None:
    """One of the names, or an error that offers the nearest."""
    choices = list(choices)
    if not isinstance(name, str) or name not in choices:
        raise ValueError(unknown(kind, name, choices))


def unknown(kind: str, name: Any, choices: Iterable[str]) -> str:
    """A message for a name that is not among the choices, with the nearest that is."""
    choices = sorted(choices)
    text = str(name)
    near = difflib.get_close_matches(text, choices, n=1)
    near = near or [c for c in choices if text.startswith(c) or (text and c.startswith(text))]
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {kind} {name!r}; {hint}choices: {', '.join(choices) or 'none'}"
