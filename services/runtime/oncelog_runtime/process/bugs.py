"""Handles unexpected exceptions (bugs): none of them ends a process or a queue, and none is ignored.

Rule 1: the code that catches one refuses the one command that caused it, counts it here, and continues with the next.
Rule 2: the first of its kind is reported with its traceback, later ones once in a while: a client that repeats a bad
        request all day fills a counter, not a disk.
Rule 3: a loop that must never end is restarted after a pause that grows (`keep_running`).
Rule 4: the report goes to the event loop's exception handler, which never ends a process for it (only a bare
        `AssertionError` does), and which a simulation counts as a violation.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from oncelog.errors import InternalServerError
from oncelog.ports import WallClock
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import NodeMetrics

_REPORT_EVERY_MS: Final = 60_000
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 10.0
WHERE: Final = ("decision", "append", "open", "task", "request")
"""The values of the metric's label."""
_KINDS_MAX: Final = 256
"""Kinds of bugs that are remembered; the oldest is forgotten first."""


class UnexpectedError(Exception):
    """Reports a bug that was contained; the original exception is its cause."""


class Bugs:
    """Counts and reports the bugs of one process."""

    def __init__(self, metrics: NodeMetrics, clock: WallClock) -> None:
        self._counters = {where: metrics.counter(names.INTERNAL_ERRORS, where) for where in WHERE}
        self._clock = clock
        self._reported_ms: OrderedDict[tuple[str, str, int], int] = OrderedDict()

    def met(self, where: str, error: BaseException, what: str = "") -> InternalServerError:
        """Counts `error` under `where`, one of `WHERE`; `what` adds detail to the report. Returns the error for callers."""
        self._counters[where].inc()
        if self._is_due(_kind_of(where, error)):
            message = (
                f"a fault in {where}{f' ({what})' if what else ''}: {error!r}; later ones like it are only counted"
            )
            report = UnexpectedError(message)
            report.__cause__ = error
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": report})
        return InternalServerError(reason=type(error).__name__, where=where)

    def _is_due(self, kind: tuple[str, str, int]) -> bool:
        now_ms = self._clock.monotonic_ms()
        known_ms = self._reported_ms.get(kind)
        if known_ms is not None and now_ms - known_ms < _REPORT_EVERY_MS:
            return False
        self._reported_ms[kind] = now_ms
        self._reported_ms.move_to_end(kind)
        if len(self._reported_ms) > _KINDS_MAX:
            self._reported_ms.popitem(last=False)
        return True


async def keep_running(bugs: Bugs, run: Callable[[], Awaitable[None]], name: str) -> None:
    """Runs until it ends by itself. After a bug it is restarted, with pauses that grow up to some seconds."""
    pause_s = _PAUSE_S
    while True:
        began_s = asyncio.get_running_loop().time()
        try:
            return await run()
        except Exception as error:
            bugs.met("task", error, name)
        if asyncio.get_running_loop().time() - began_s > _PAUSE_MAX_S:
            pause_s = _PAUSE_S
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _kind_of(where: str, error: BaseException) -> tuple[str, str, int]:
    """Returns where the bug was caught, its type, and the line that raised it."""
    traceback, line = error.__traceback__, 0
    while traceback is not None:
        line = traceback.tb_lineno
        traceback = traceback.tb_next
    return where, type(error).__name__, line
