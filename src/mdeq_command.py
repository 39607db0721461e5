"""The `mdeq` command: says what it can do at once, and loads the rest when it is needed.

It stands outside the package, because importing the package takes seconds.
"""

import difflib
import importlib
import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

COMMANDS = {
    "train": "train a model by a recipe; with nothing else, on shapes that need no download",
    "evaluate": "measure a trained model on data it has not seen",
    "predict": "classify and segment image files with a trained model",
    "models": "list the models, with their sizes",
    "bench": "measure models side by side: time, memory, and where they go",
    "reproduce": "the paper's tables and figures, beside what comes out here",
}

HELP = f"""usage: mdeq COMMAND ...

Multiscale deep equilibrium models: train, evaluate and use them.

commands:
{chr(10).join(f"  {name:10} {text}" for name, text in COMMANDS.items())}

first steps:
  mdeq train                          two minutes on two cores, no data needed
  mdeq predict cifar10 picture.png    weights that ship: one of ten kinds of things
  mdeq train --list                   the recipes
  mdeq train cifar10-small-cpu --data DIR
  mdeq COMMAND --help                 what a command takes
"""


def main() -> None:
    """Run the command line; exit with 0 for success and 2 for a mistake of the user's."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] == "--version":
        print(f"mdeq {version('mdeq')}")
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return _fail("mdeq", f"unknown command {command!r}; {hint}choices: {', '.join(COMMANDS)}")
    warnings.showwarning = _note
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler, which bench uses, is talkative
    try:
        return int(importlib.import_module(f"mdeq.cli.{command}").main(rest))
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError) as error:  # mistakes of the caller, and a full disk
        if "MDEQ_TRACEBACK" in os.environ:
            raise
        return _fail(f"mdeq {command}", " ".join(str(error).split()))
    except (RuntimeError, MemoryError) as error:
        if not _out_of_memory(error) or "MDEQ_TRACEBACK" in os.environ:
            raise
        advice = "try smaller batches, accumulate (train), or --window (segmentation)"
        return _fail(f"mdeq {command}", f"there is not enough memory for this; {advice}")
    except KeyboardInterrupt:
        print(f"mdeq {command}: interrupted", file=sys.stderr)
        return 130


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Our own warnings are notes to the user; where in the code they come from is no news."""
    if os.environ.get("RANK", "0") != "0":
        return
    own = Path(filename).is_relative_to(Path(__file__).parent / "mdeq")
    located = warnings.formatwarning(message, category, filename, lineno)
    sys.stderr.write(f"note: {message}\n" if own else located)


def _out_of_memory(error: Exception) -> bool:
    """NumPy's way to say it, that of PyTorch on GPUs, and that of PyTorch elsewhere."""
    kind = type(error).__name__
    return kind in ("MemoryError", "OutOfMemoryError") or "can't allocate memory" in str(error)


def _fail(command: str, message: str) -> int:
    process = os.environ.get("RANK", "0")
    where = "" if process == "0" else f" (process {process})"
    print(f"{command}{where}: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
