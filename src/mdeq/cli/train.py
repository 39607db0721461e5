"""`mdeq train`: train the model of a recipe."""

import sys
from collections.abc import Collection
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from mdeq.cli.options import (
    Override,
    check_json,
    create_parser,
    overridden,
    parse,
    plainly,
    report,
    split_overrides,
    write_json,
)
from mdeq.engine import (
    DivergedError,
    InterruptedRun,
    Recipe,
    list_recipes,
    read_yaml,
    recipe_file,
    resume_run,
    start_run,
)
from mdeq.solvers import unknown

DEFAULT = "shapes"
MOVABLE = ("--resume", "--data", "--second.data", "--json")
MAPPINGS = ("model", "dataset", "second", "tasks", "auxiliary")

USAGE = """mdeq train [RECIPE] [--data DIR] [--FIELD VALUE ...]
       mdeq train --list
       mdeq train --resume RUN"""
DESCRIPTION = """Train the model of a recipe, evaluate it, and write everything into a folder in
runs/. Every field of a recipe can be given as an option, as listed below."""


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = train_parser()
    _check_fields(arguments)
    typed, overrides = split_overrides(arguments, MAPPINGS)
    options = parse(parser, typed)
    if options.list:
        for name, description in list_recipes().items():
            print(f"{name:16} {description}")
        return 0
    check_json(options.json)
    try:
        if options.resume is not None:
            _check_alone(arguments, options.recipe)
            second = overridden({}, overrides).get("second", {})
            figures = resume_run(options.resume, data=options.data, second_data=second.get("data"))
        else:
            name = DEFAULT if options.recipe is None else options.recipe
            recipe = read_recipe(parser, name, typed, overrides)
            figures = start_run(recipe, name=recipe_file(name).stem, output=options.output)
    except InterruptedRun as stopped:
        report(str(stopped))
        return stopped.exit_status
    except DivergedError as error:
        report(f"mdeq train: {error}", file=sys.stderr)
        return 1
    write_json(options.json, figures)
    return 0


def train_parser() -> ArgumentParser:
    """The options of the command, and of every field of a recipe."""
    parser = create_parser("train", DESCRIPTION, USAGE)
    parser.add_argument(
        "recipe", nargs="?", help=f"A name of --list, or a YAML file; {DEFAULT} if left out"
    )
    parser.add_argument("--list", action="store_true", help="List the recipes")
    parser.add_argument("--output", type=str, help="Folder of the run; default: a new one in runs/")
    parser.add_argument("--resume", type=str, metavar="RUN", help="Go on with a run")
    parser.add_argument("--json", type=str, metavar="FILE", help="Also write the figures there")
    parser.add_class_arguments(Recipe, as_group=False)
    return parser


def read_recipe(
    parser: ArgumentParser, name: str, typed: list[str], overrides: list[Override]
) -> Recipe:
    """The recipe in a file, with what the command line changes."""
    file = recipe_file(name)
    try:
        written = read_yaml(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(written, dict):
        raise ValueError(f"{file} holds no recipe; expected fields such as model and dataset")
    for path in _paths(written):
        _check_field(path, f"field in {file.name}")
    try:
        parser.parse_object(written)
    except ArgumentError as error:
        raise ValueError(f"{file}: {plainly(error)}") from None
    parser.set_defaults(written)
    options = parse(parser, typed).as_dict()
    values = {f.name: options[f.name] for f in fields(Recipe)}
    return Recipe.of(overridden(values, overrides))


def _check_fields(arguments: list[str]) -> None:
    """Every option is one of the command's own or a field of a recipe."""
    own = ("help", "list", "output", "resume", "json")
    for argument in arguments:
        path = argument.split("=")[0].removeprefix("--")
        if argument.startswith("--") and path not in own:
            _check_field(path, "option or field of a recipe", own)


def _check_field(path: str, kind: str, others: Collection[str] = ()) -> None:
    """A path that leads to a field of a recipe; what mappings hold is not known here."""
    section: Any = Recipe
    trail: list[str] = []
    for name in path.split("."):
        if not is_dataclass(section):
            if section is not dict:
                raise ValueError(f"{'.'.join(trail)} is a single value; it has no {name!r}")
            return
        types = {
            f.name: f.type if f.default_factory is MISSING else f.default_factory
            for f in fields(section)
        }
        if name not in types:
            before = ".".join([*trail, ""])
            choices = [*(before + choice for choice in types), *(() if trail else others)]
            within = [f"{top}.{name}" for top, part in types.items() if name in _names(part)]
            if within:
                raise ValueError(f"unknown {kind} {path!r}; did you mean {within[0]!r}?")
            raise ValueError(unknown(kind, before + name, choices))
        section = types[name]
        trail.append(name)
    if is_dataclass(section):
        inside = ", ".join(f"{path}.{f.name}" for f in fields(section))
        raise ValueError(f"{path} is a section; expected its fields: {inside}")


def _names(section: Any) -> list[str]:
    return [f.name for f in fields(section)] if is_dataclass(section) else []


def _paths(written: dict[str, Any], before: str = "") -> list[str]:
    paths = []
    for name, value in written.items():
        path = f"{before}{name}"
        paths += _paths(value, f"{path}.") if isinstance(value, dict) else [path]
    return paths


def _check_alone(arguments: list[str], recipe: str | None) -> None:
    """A run goes on by its own recipe: only where its data lie may change."""
    if recipe is not None:
        raise ValueError(f"{recipe!r} cannot be given with --resume, which has a recipe of its own")
    for argument in arguments:
        name = argument.split("=")[0]
        if name.startswith("--") and name not in MOVABLE:
            raise ValueError(f"{name} cannot be given with --resume, which continues exactly")
