"""`mdeq reproduce`: the paper's tables."""

from pathlib import Path

from mdeq.cli.options import create_folder, create_parser, parse
from mdeq.reproduce import TABLES, draw, look_up
from mdeq.solvers import check_choice

ALL = "all"
USAGE = """mdeq reproduce NAME [NAME ...] [--runs DIR] [--output DIR]
       mdeq reproduce --list"""
DESCRIPTION = """The tables of the paper: what was published, what was trained here, and the
command that trains the rest. Prints every table, and writes a picture and a JSON file of it."""


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = create_parser("reproduce", DESCRIPTION, USAGE)
    parser.add_argument("names", nargs="*", default=[], help=f"Names of --list, or {ALL}")
    parser.add_argument("--list", action="store_true", help="Print the names, one a line")
    parser.add_argument("--runs", type=str, default="runs", help="Where trained runs are")
    parser.add_argument("--output", type=str, default="reproduced", help="Folder to write into")
    options = parse(parser, arguments)
    if options.list:
        print("\n".join(TABLES))
        return 0
    if not options.names:
        raise ValueError(f"expected names of --list, or {ALL}; see mdeq reproduce --help")
    for name in options.names:
        check_choice("reproduction", name, [*TABLES, ALL])
    folder = Path(options.output)
    create_folder(folder)
    for name in TABLES if ALL in options.names else options.names:
        outcome = look_up(TABLES[name], Path(options.runs))
        outcome.save(folder / f"{name}.json", draw(outcome))
        print(f"{outcome.text()}\n\npicture  {folder / name}.png\nfigures  {folder / name}.json\n")
    return 0
