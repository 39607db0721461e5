"""What the commands share: their parser, `--a.b.c value`, and `--json`."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from mdeq.solvers import unknown


def create_parser(command: str, description: str, examples: str = "") -> ArgumentParser:
    """A parser for one command."""
    return ArgumentParser(
        prog=f"mdeq {command}",
        description=description,
        epilog=examples,
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
        raise ValueError(" ".join(str(error).split())) from None


def split_overrides(
    arguments: list[str], sections: Collection[str]
) -> tuple[list[str], dict[str, Any]]:
    """Take `--section.a.b value` out of the arguments, as {"section": {"a": {"b": value}}}.

    The parser knows the fields of typed sections; these sections are mappings, whose fields
    depend on the name in them.
    """
    rest: list[str] = []
    overrides: dict[str, Any] = {}
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        path, given, value = argument.partition("=")
        section, *fields = path.removeprefix("--").split(".")
        if not path.startswith("--") or section not in sections or not fields:
            rest.append(argument)
            continue
        if not given:
            if not queue:
                raise ValueError(f"{path} has no value; expected {path} VALUE")
            value = queue.pop(0)
        level = overrides.setdefault(section, {})
        for name in fields[:-1]:
            level = level.setdefault(name, {})
        level[fields[-1]] = read_value(value)
    return rest, overrides


def read_value(text: str) -> Any:
    """A value as it would stand in a YAML file; 1e-3 is a number too."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The mapping with some entries changed, at any depth."""
    result = dict(base)
    for name, change in changes.items():
        now = result.get(name)
        if isinstance(now, dict) and isinstance(change, dict):
            result[name] = merged(now, change)
        else:
            result[name] = change
    return result


def write_json(file: str | None, figures: dict[str, Any]) -> None:
    """Write what a command reports, if asked for."""
    if file is None:
        return
    try:
        Path(file).write_text(json.dumps(figures, indent=2) + "\n")
    except OSError as error:
        raise ValueError(f"cannot write {file} ({error.strerror})") from None


def check_json(file: str | None) -> None:
    """Find out before the work, not after it, that its figures cannot be written."""
    if file is not None and not Path(file).resolve().parent.is_dir():
        raise ValueError(f"cannot write {file}: there is no folder {Path(file).resolve().parent}")
