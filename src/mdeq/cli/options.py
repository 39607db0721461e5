"""What the commands share: their parser, `--a.b.c value`, and `--json`."""

import json
import math
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, TextIO

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from mdeq.engine import read_yaml
from mdeq.models import SHIPPED
from mdeq.solvers import unknown

Override = tuple[tuple[str, ...], Any]  # the path to a field, and its value


MODEL_HELP = f"The folder of a run or of a model; or shipped weights: {', '.join(SHIPPED)}"


def create_parser(command: str, description: str, usage: str | None = None) -> ArgumentParser:
    """A parser for one command."""
    return ArgumentParser(
        prog=f"mdeq {command}",
        description=description,
        usage=usage,
        exit_on_error=False,
    )


def parse(parser: ArgumentParser, arguments: list[str]) -> Namespace:
    """Parse; an unknown option is an error that offers the nearest."""
    known = [name for action in parser._actions for name in action.option_strings]
    for argument in arguments:
        name = argument.split("=")[0]
        if name.startswith("--") and name not in known:
            raise ValueError(unknown("option", name, [k for k in known if k.startswith("--")]))
    try:
        return parser.parse_args(arguments)
    except ArgumentError as error:
        raise ValueError(plainly(error)) from None


def plainly(error: ArgumentError) -> str:
    """What the parser says, in one line and in our words."""
    text = " ".join(str(error).split())
    found = re.fullmatch(r'Parser key "(.+?)": Expected a (.+)\. Got value: (.*)', text)
    if not found:
        return text
    name, kind, value = found.groups()
    kind = re.sub(r"<class '(\w+)'>|typing\.", r"\1", kind)
    return f"{name} is {value!r}; expected {kind}"


def split_overrides(
    arguments: list[str], sections: Collection[str]
) -> tuple[list[str], list[Override]]:
    """Take `--section.a.b value` out of the arguments, as (("section", "a", "b"), value).

    The parser knows the fields of typed sections; these sections are mappings, whose fields
    depend on the name in them.
    """
    rest: list[str] = []
    overrides: list[Override] = []
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        option, given, value = argument.partition("=")
        path = tuple(option.removeprefix("--").split("."))
        if not option.startswith("--") or path[0] not in sections:
            rest.append(argument)
            continue
        if not given:
            if not queue:
                raise ValueError(f"{option} has no value; expected {option} VALUE")
            value = queue.pop(0)
        overrides.append((path, read_value(value)))
        if len(path) == 1 and not isinstance(overrides[-1][1], dict):
            raise ValueError(f"{option} is a section; say {option}.name {value}")
    return rest, overrides


def overridden(values: dict[str, Any], overrides: list[Override]) -> dict[str, Any]:
    """The mapping with the value at the end of every path replaced, others kept."""
    for (name, *deeper), value in overrides:
        if deeper:
            inside = values.get(name)
            level = inside if isinstance(inside, dict) else {}
            value = overridden(level, [(tuple(deeper), value)])
        values = {**values, name: value}
    return values


def read_value(text: str) -> Any:
    """A value as it would stand in a recipe."""
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return text


def report(text: str, file: TextIO | None = None) -> None:
    """Print; of several processes the first one speaks."""
    if is_main_process():
        print(text, file=file)


def is_main_process() -> bool:
    """Whether this is the first, or the only, process of a command."""
    return os.environ.get("RANK", "0") == "0"


def write_json(file: str | None, figures: dict[str, Any]) -> None:
    """Write what a command reports, if asked for."""
    if file is None or not is_main_process():
        return
    try:
        Path(file).write_text(json.dumps(_finite(figures), indent=2) + "\n")
    except OSError as error:
        raise ValueError(f"cannot write {file} ({error.strerror})") from None


def _finite(value: Any) -> Any:
    """JSON has no infinities, and no NaN: null stands for them."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def create_folder(folder: Path) -> None:
    """The folder for what a command draws, new or not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write to {folder} ({error.strerror}); choose another") from None


def check_json(file: str | None) -> None:
    """Find out before the work, not after it, that its figures cannot be written."""
    if file is None:
        return
    if not Path(file).resolve().parent.is_dir():
        raise ValueError(f"cannot write {file}: there is no folder {Path(file).resolve().parent}")
    if Path(file).is_dir():
        raise ValueError(f"cannot write {file}: it is a folder; expected a file")
