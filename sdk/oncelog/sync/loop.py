"""The event loop behind the façade without `await` (see `oncelog.sync`, whose rules hold here).

One daemon thread with one loop per process; a forked child has none of it.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from oncelog.client.home.stays_here import StaysHere
from oncelog.client.produce.unclosed import EXIT_FLUSH_MS, rescue
from oncelog.errors import ForkedClientError

if TYPE_CHECKING:
    from oncelog.client.produce.producer import Producer

T = TypeVar("T")
R = TypeVar("R")
_POLL_S = 1.0
_EXIT_GRACE_S: Final = 1.0
"""For a loop that is busy with something else when the interpreter ends."""


class LoopThread:
    """The process's one event loop for blocking callers."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="oncelog-loop", daemon=True)
        self._thread.start()
        self.is_here = True
        """False in a forked child, which has no such thread. A field, since it is asked for each record."""
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()

    def rescue_at_exit(self, producer: Producer) -> None:
        """Sends what this producer has not sent when the interpreter ends: the loop still runs then."""
        if not self._producers:
            atexit.unregister(self._at_exit)  # as late as can be: handlers run in the opposite order
            atexit.register(self._at_exit)
        self._producers.add(producer)

    def _at_exit(self) -> None:
        if not self.is_here or not self._producers:
            return
        work = asyncio.run_coroutine_threadsafe(rescue(list(self._producers)), self._loop)
        try:
            work.result(EXIT_FLUSH_MS / 1000 + _EXIT_GRACE_S)
        except concurrent.futures.TimeoutError:
            work.cancel()  # the loop is stuck; `unclosed` tells what is lost

    def soon(self, function: Callable[[], object]) -> None:
        """Calls it on the loop, before any work that is given to `run` later."""
        self._loop.call_soon_threadsafe(function)

    def run(self, work: Coroutine[object, None, T]) -> T:
        """The work's result. A `KeyboardInterrupt` here cancels it there."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call inside the event loop would wait for itself: use the asyncio client")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            while True:
                try:
                    return future.result(_POLL_S)  # short waits, so that a signal is seen soon on every platform
                except concurrent.futures.TimeoutError:
                    if future.done():
                        return future.result()  # it ended meanwhile, maybe with a time-out of its own
        except BaseException:
            future.cancel()
            raise


_guard = threading.Lock()
_thread: LoopThread | None = None


def _forked() -> None:
    global _thread, _guard
    if _thread is not None:
        _thread.is_here = False
    _thread = None
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def shared_thread() -> LoopThread:
    """The process's own, made when it is first asked for."""
    global _thread
    with _guard:
        if _thread is None:
            _thread = LoopThread()
        return _thread


class Wrapper(StaysHere, Generic[T]):
    """Something asynchronous, and the loop on which it lives."""

    __slots__ = ("_inner", "_thread")

    def __init__(self, inner: T, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    def _check_process(self) -> None:
        """Raises `ForkedClientError` in a child of the process that made this."""
        if not self._thread.is_here:
            raise ForkedClientError.inherited()

    def _run(self, work: Coroutine[object, None, R]) -> R:
        try:
            self._check_process()
        except ForkedClientError:
            work.close()
            raise
        return self._thread.run(work)

    def _call(self, function: Callable[..., R], *args: object, **options: object) -> R:
        """Runs something that does not wait, but belongs to the loop's thread."""

        async def on_loop() -> R:
            return function(*args, **options)

        return self._run(on_loop())
