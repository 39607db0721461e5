"""Ctrl-C and SIGTERM end a run at the next step, not in the middle of one."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self


class InterruptedRun(Exception):  # noqa: N818  -- nothing went wrong
    """The run was asked to stop, and has saved its state."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_status = 128 + number


class Interruption:
    """Remembers that a signal came. A second one acts as it would without us."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
