"""`mdeq reproduce`: the tables and figures of the paper."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from mdeq.cli.options import create_folder, create_parser, parse, report
from mdeq.data import create_source
from mdeq.engine import InterruptedRun
from mdeq.reproduce import REPRODUCTIONS, Setting, reproduce
from mdeq.solvers import check_choice, check_number

ALL = "all"
USAGE = """mdeq reproduce NAME [NAME ...] [--budget quick|full] [--cifar10 DIR] [--camvid DIR]
           [--minutes M] [--runs DIR] [--output DIR]
       mdeq reproduce --list"""
DESCRIPTION = """The tables and figures of the paper. Prints a table, with what became of the
paper's claims, and writes a picture and a JSON file of it. What was measured before, by the same
code with the same options, is shown again."""


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = create_parser("reproduce", DESCRIPTION, USAGE)
    parser.add_argument("names", nargs="*", default=[], help=f"Names of --list, or {ALL}")
    parser.add_argument("--list", action="store_true", help="List what can be reproduced")
    parser.add_argument(
        "--budget",
        choices=("quick", "full"),
        default="quick",
        help="quick: all in 10 minutes on two CPU cores; full: more, as docs/results.md says",
    )
    parser.add_argument(
        "--cifar10",
        type=str,
        metavar="DIR",
        help="Holds cifar-10-batches-py; without it, models are trained on drawings",
    )
    parser.add_argument(
        "--camvid", type=str, metavar="DIR", help="CamVid; without it, there is one street"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="dynamics and multiscale: how long each model is trained, in place of the budget's",
    )
    parser.add_argument("--runs", type=str, default="runs", help="Where your trained runs are")
    parser.add_argument("--output", type=str, default="reproduced", help="Folder to write into")
    options = parse(parser, arguments)
    if options.list:
        for name, reproduction in REPRODUCTIONS.items():
            print(f"{name:12} {reproduction.about}")
        return 0
    if not options.names:
        raise ValueError(f"expected names of --list, or {ALL}; see mdeq reproduce --help")
    for name in options.names:
        check_choice("reproduction", name, [*REPRODUCTIONS, ALL])
    if options.minutes is not None:
        check_number("minutes", options.minutes, above=0)
    names = list(REPRODUCTIONS) if ALL in options.names else options.names
    for option in ("cifar10", "camvid", "minutes"):
        users = [name for name, each in REPRODUCTIONS.items() if option in each.options]
        if getattr(options, option) is not None and not set(users) & set(names):
            raise ValueError(f"--{option} is for {', '.join(users)}; leave it out here")
    if options.runs != parser.get_default("runs") and not Path(options.runs).is_dir():
        raise ValueError(f"there is no folder {options.runs}; expected one of trained runs")
    for data in ("cifar10", "camvid"):  # what is wrong with a folder is better known at once
        if (folder := getattr(options, data)) is not None:
            create_source(name=data).samples("val" if data == "camvid" else "test", Path(folder))
    setting = Setting(
        budget=options.budget,
        output=Path(options.output),
        runs=Path(options.runs),
        cifar10=options.cifar10,
        camvid=options.camvid,
        minutes=options.minutes,
    )
    create_folder(setting.output)
    try:
        return _reproduce(names, setting)
    except InterruptedRun as stopped:
        report(f"{stopped}, or the same command again")
        return stopped.exit_status


def _reproduce(names: Iterable[str], setting: Setting) -> int:
    """One after the other; one that fails leaves the others their turn."""
    failed = 0
    for name in names:
        try:
            outcome, found = reproduce(name, setting)
        except (ValueError, OSError, RuntimeError) as error:  # also memory that is full
            if "MDEQ_TRACEBACK" in os.environ:
                raise
            report(f"mdeq reproduce {name}: {error}", file=sys.stderr)
            failed = 1
            continue
        file = setting.output / setting.budget / name
        earlier = "   measured before; remove it to measure anew" if found else ""
        print(f"{outcome.text()}\n\npicture  {file}.png\nfigures  {file}.json{earlier}\n")
    return failed
