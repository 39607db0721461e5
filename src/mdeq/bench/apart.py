"""Things that live in processes of their own, so that measuring one cannot touch another."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class Apart(Generic[T]):
    """A thing in a process of its own, where functions of it are called."""

    def __init__(self, name: str, process: ProcessPoolExecutor) -> None:
        self._name, self._process = name, process

    def do(self, work: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """work(thing, ...), done there. Work and results have to be picklable."""
        return _result(self._name, self._process.submit(_do, work, args, kwargs))


@contextmanager
def apart(makers: Mapping[str, Callable[[], T]]) -> Iterator[dict[str, Apart[T]]]:
    """What the makers make, each in a new process; the processes end with the context."""
    with ExitStack() as processes:
        pools = {
            name: processes.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
            for name in makers
        }
        # All are begun before the first is waited for.
        made = {name: pools[name].submit(_make, make) for name, make in makers.items()}
        for name, each in made.items():
            _result(name, each)
        yield {name: Apart(name, pool) for name, pool in pools.items()}


def _result(name: str, future: Future[R]) -> R:
    try:
        return future.result()
    except BrokenProcessPool:
        raise OSError(
            f"the process of {name} was killed, most likely for want of memory; "
            "try a smaller batch, or fewer models at a time"
        ) from None


_thing: Any = None  # of this process


def _make(make: Callable[[], object]) -> None:
    global _thing
    _thing = make()


def _do(work: Callable[..., R], args: Any, kwargs: Any) -> R:
    return work(_thing, *args, **kwargs)
