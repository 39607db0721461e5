"""How long something lasts, as people write it: "50 epochs", "200 steps"."""

import re


def check_duration(name: str, text: object) -> None:
    """A whole number of epochs or steps."""
    if not isinstance(text, str) or not re.fullmatch(r"\d+ (epoch|step)s?", text):
        raise ValueError(
            f'{name} is {text!r}; expected a duration such as "3 epochs" or "200 steps"'
        )


def in_steps(text: str, steps_per_epoch: int) -> int:
    """A duration in steps of the optimiser."""
    count, unit = text.split()
    return int(count) * (steps_per_epoch if unit.startswith("epoch") else 1)
