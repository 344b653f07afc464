"""An event loop with virtual time and a seeded scheduler: ordinary asyncio code runs on it unchanged.

Promise: the same seed and the same program give the same run, step for step, in any process (`digest` shows it).

Rule 1: the loop is our own, not a patched one: threads, sockets, signals and executors raise `NotImplementedError`.
Rule 2: ready callbacks run in a seeded random order; no code may rely on the order of wake-ups. Order between messages
        is a promise of the network, not of this loop.
Rule 3: time moves only when nothing is ready, straight to the next timer.
Rule 4: tasks and futures hash by creation number: `asyncio.TaskGroup` and `asyncio.wait` iterate sets, and hashes by
        memory address gave another order in each process.
Rule 5: every handle belongs to a `Life` (one simulated process, from its start to its end), through a context variable
        that tasks inherit, or to the world. The handles of a paused process wait; the timers of a dead one never fire.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import weakref
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, TypeVar
from zlib import crc32

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Work = Coroutine[object, None, T] | Generator[asyncio.Future[object] | None, None, T]
"""A coroutine, of either kind that asyncio takes."""

LIFE: Final[contextvars.ContextVar[Life | None]] = contextvars.ContextVar("sim_life", default=None)
"""The simulated process for which code runs; None = the world (network, etcd, the test)."""

_MASK: Final = (1 << 64) - 1
_AT_ONCE: Final = -1.0
_PRIME: Final = 0x100000001B3
_COLLECT_STEPS: Final = 100_000
_MAX_STEPS_IN_ONE_INSTANT: Final = 2_000_000
_MAX_STEPS_TO_CLOSE: Final = 100_000


class SimStuckError(AssertionError):
    """Nothing is ready and no timer is set, or time does not move: the program waits, or spins, forever."""


class SimTaskError(AssertionError):
    """Tasks ended with exceptions that were never retrieved."""


class Life:
    """One simulated process, as the scheduler sees it. A restart makes a new one."""

    __slots__ = ("_held", "_loop", "_tasks", "_watermark", "context", "dead", "halted", "name")

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.name = name
        self.halted = False
        self.dead = False
        self.context = contextvars.Context()
        self.context.run(LIFE.set, self)
        self._loop = loop
        self._held: list[SimHandle] = []
        self._tasks: list[weakref.ref[SimTask[object]]] = []
        self._watermark = 64

    def pause(self) -> None:
        """Freezes every task and timer."""
        self.halted = True

    def resume(self) -> None:
        """Continues; everything that became due in between runs now, in any order."""
        if self.dead:
            return
        self.halted = False
        held, self._held = self._held, []
        self._loop.make_ready(held)

    def kill(self) -> None:
        """Ends the process. The caller has already unplugged the ports: what a task does now has no effect outside."""
        self.dead = True
        self.halted = True
        held, self._held = self._held, []
        self._loop.make_ready([handle for handle in held if not handle.is_timer])
        for task in self.tasks():
            task.cancel()

    def tasks(self) -> list[SimTask[object]]:
        """Returns the tasks that are not done, oldest first."""
        found = (ref() for ref in self._tasks)
        return [task for task in found if task is not None and not task.done()]

    def adopt(self, task: SimTask[object]) -> None:
        """Called by the loop for each task that this process's code creates."""
        self._tasks.append(weakref.ref(task))
        if self.dead:
            task.cancel()
        if len(self._tasks) > self._watermark:
            self._tasks = [weakref.ref(live) for live in self.tasks()]
            self._watermark = 2 * len(self._tasks) + 64

    def hold(self, handle: SimHandle) -> bool:
        """True: the handle must not run now (kept until `resume`, or dropped)."""
        if self.dead:
            return handle.is_timer
        self._held.append(handle)
        return True


class SimHandle:
    """A scheduled callback. Cheaper than asyncio's own: it implements only what asyncio uses.

    `due`: virtual seconds; negative for a callback without a time.
    """

    __slots__ = ("args", "callback", "context", "due", "is_cancelled", "life", "number")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[object, ...],
        context: contextvars.Context,
        number: int,
        due: float = _AT_ONCE,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.number = number
        self.life = context.get(LIFE)
        self.is_cancelled = False
        self.due = due

    @property
    def is_timer(self) -> bool:
        """True when it has, or had, a time to wait for."""
        return self.due >= 0

    def cancel(self) -> None:
        """Prevents the callback from running."""
        self.is_cancelled = True
        self.callback = _nothing
        self.args = ()

    def cancelled(self) -> bool:
        """True after `cancel`."""
        return self.is_cancelled

    def when(self) -> float:
        """Returns virtual seconds; 0 for a callback without a time."""
        return max(0.0, self.due)

    def __repr__(self) -> str:
        return f"<SimHandle {self.number} {self.callback!r}>"


class SimFuture(asyncio.Future[T]):
    """A future that hashes by its creation number."""

    def __init__(self, loop: SimLoop, number: int) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[T_co]):
    """A task that hashes by its creation number."""

    def __init__(
        self,
        coro: Work[T_co],
        loop: SimLoop,
        number: int,
        name: str,
        context: contextvars.Context | None,
    ) -> None:
        self.number = number  # before the base class: it puts the task in a set
        self.life = LIFE.get() if context is None else context.get(LIFE)
        super().__init__(coro, loop=loop, name=name, context=context)
        self._log_destroy_pending = False  # tasks of crashed nodes may never end

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.AbstractEventLoop):
    """See the module. `errors` collects exceptions of tasks and callbacks that were never retrieved; `check()` raises them.

    Its methods are those that asyncio asks of an event loop, and those by which a simulation is run and checked; its
    fields are what the two share.
    """

    def __init__(self, seed: int | str = 0) -> None:
        self.seed = seed
        self.world = contextvars.Context()
        self.errors: list[BaseException] = []
        self.steps = 0
        self.ran: Life | None = None
        """The process for which the last step ran; for step hooks."""
        self.injected: dict[str, int] = {}
        """How often each kind of fault was injected, by its name in `FaultPlan`."""
        self._draw = Random(f"{seed}:schedule").random
        self._now = 0.0
        self._ready: list[SimHandle] = []
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._numbers = 0
        self._digest = 0
        self._hooks: tuple[Callable[[], None], ...] = ()
        self._running = False
        self._closed = False
        self._instant = 0  # number of steps when time moved last
        self._tasks: list[weakref.ref[SimTask[object]]] = []
        self._tasks_watermark = 256

    # ------------------------------------------------------------ for tests

    @property
    def digest(self) -> str:
        """A running hash of the executed steps, their times, and every label given to `trace`."""
        return f"{self._digest:016x}"

    def now_ms(self) -> int:
        """Returns virtual milliseconds since the loop's creation."""
        return int(self._now * 1000)

    def trace(self, label: str) -> None:
        """Mixes an event into the digest (network and disk report their effects)."""
        self._digest = (self._digest * _PRIME ^ crc32(label.encode())) & _MASK

    def note_fault(self, name: str) -> None:
        """Counts an injected fault."""
        self.injected[name] = self.injected.get(name, 0) + 1

    def add_step_hook(self, hook: Callable[[], None]) -> None:
        """Adds a hook that is called after every step; an exception in it ends the run at once. For invariants."""
        self._hooks = (*self._hooks, hook)

    def run(self, coro: Coroutine[object, None, T]) -> T:
        """Runs until the coroutine ends, and returns its value; then raises errors of other tasks.

        Raises `SimStuckError` when nothing can happen any more.
        """
        task = self.create_task(coro, name="main", context=contextvars.Context())
        if not self._run(task.done, None):
            raise SimStuckError(f"nothing will ever happen again at {self.now_ms()} ms (seed {self.seed})")
        result = task.result()
        self.check()
        return result

    def run_until(self, condition: Callable[[], bool], within_ms: float) -> None:
        """Runs until the condition holds. Raises `TimeoutError` when it does not within this much virtual time."""
        if not self._run(condition, self._now + within_ms / 1000):
            raise TimeoutError(f"not within {within_ms} virtual ms (seed {self.seed})")

    def run_for(self, virtual_ms: float) -> None:
        """Runs everything that happens within this much virtual time."""
        self._run(_never, self._now + virtual_ms / 1000)

    def check(self) -> None:
        """Raises `SimTaskError` if a task or callback raised an exception that was never retrieved."""
        for task in self._live_tasks():
            if task.done() and not task.cancelled() and task._log_traceback:
                error = task.exception()
                if error is not None:
                    self._note(error, task)
        if self.errors:
            first = self.errors[0]
            raise SimTaskError(f"{len(self.errors)} untaken exceptions, first: {first!r} (seed {self.seed})") from first

    # ------------------------------------------------------------ running

    def _run(self, done: Callable[[], bool], limit: float | None) -> bool:
        with self._entered():
            step, ready = self._step, self._ready
            while not done():
                if not ready and not self._advance(limit):
                    return False
                step()
            return True

    def _step(self) -> None:
        ready = self._ready
        count = len(ready)
        handle = ready.pop()
        if count > 1:
            i = int(self._draw() * count)
            if i < count - 1:
                handle, ready[i] = ready[i], handle
        if handle.is_cancelled:
            return
        self.ran = life = handle.life
        if life is not None and life.halted and life.hold(handle):
            return
        self.steps += 1
        self._digest = (self._digest * _PRIME ^ handle.number) & _MASK
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if life is None or not life.dead:
                self.errors.append(error)
        for hook in self._hooks:
            hook()
        if not self.steps % _COLLECT_STEPS:
            self._tidy()

    def _advance(self, limit: float | None) -> bool:
        """Moves time to the next timer. False: there is none (before the limit, to which time then moves)."""
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
        if not timers or (limit is not None and timers[0][0] > limit):
            if limit is not None:
                self._now = max(self._now, limit)
            return False
        self._now = now = max(self._now, timers[0][0])
        self._digest = (self._digest * _PRIME ^ int(now * 1e6)) & _MASK
        while timers and timers[0][0] <= now:
            self._ready.append(heappop(timers)[2])
        self._instant = self.steps
        return True

    def _tidy(self) -> None:
        gc.collect(1)
        if self.steps - self._instant > _MAX_STEPS_IN_ONE_INSTANT:
            raise SimStuckError(f"{self.steps - self._instant} steps, and it is still {self.now_ms()} ms")

    @contextmanager
    def _entered(self) -> Generator[None, None, None]:
        """The loop is the running one; garbage is collected at fixed steps only (finalizers are part of the run)."""
        if self._running or events._get_running_loop() is not None:
            raise RuntimeError("a loop is already running in this thread")
        collects, hooks = gc.isenabled(), sys.get_asyncgen_hooks()
        gc.disable()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finish_generator)
        self._running = True
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)
            self._running = False
            sys.set_asyncgen_hooks(*hooks)
            if collects:
                gc.enable()

    def _finish_generator(self, generator: AsyncGenerator[object, None]) -> None:
        if not self._closed:
            self.create_task(generator.aclose(), name="aclose")

    # ------------------------------------------------------------ the interface of an event loop

    def time(self) -> float:
        """Returns virtual seconds."""
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> SimHandle:
        """Runs the callback in some later step of this instant."""
        self._numbers = number = self._numbers + 1
        handle = SimHandle(callback, args, contextvars.copy_context() if context is None else context, number)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> SimHandle:
        """Runs the callback at a virtual time in seconds."""
        self._numbers = number = self._numbers + 1
        context = contextvars.copy_context() if context is None else context
        handle = SimHandle(callback, args, context, number, max(0.0, when))
        heappush(self._timers, (when, number, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> SimHandle:
        """Runs the callback after a virtual delay in seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> SimFuture[Any]:
        """Creates a future of this loop."""
        self._numbers = number = self._numbers + 1
        return SimFuture(self, number)

    def create_task(
        self,
        coro: Work[T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> SimTask[T]:
        """Creates a task, which belongs to the process of its context."""
        self._numbers = number = self._numbers + 1
        task = SimTask(coro, self, number, name or f"task-{number}", context)
        if task.life is not None:
            task.life.adopt(task)
        self._tasks.append(weakref.ref(task))
        if len(self._tasks) > self._tasks_watermark:
            self._tasks = [weakref.ref(live) for live in self._live_tasks()]
            self._tasks_watermark = 2 * len(self._tasks) + 256
        return task

    def make_ready(self, handles: list[SimHandle]) -> None:
        """Makes handles ready that were held back."""
        self._ready.extend(handles)

    def run_until_complete(self, future: Coroutine[object, None, T]) -> T:  # type: ignore[override]
        """Does the same as `run`, for code that expects asyncio's name."""
        return self.run(future)

    def call_exception_handler(self, context: dict[str, object]) -> None:
        """Collects reports of asyncio: exceptions of tasks that were never awaited."""
        error = context.get("exception")
        if not isinstance(error, BaseException):
            error = RuntimeError(str(context.get("message")))
        self._note(error, context.get("task") or context.get("future"))

    def _note(self, error: BaseException, task: object) -> None:
        life = task.life if isinstance(task, SimTask) else None
        if life is None or not life.dead:  # exceptions of a dead process are ignored
            self.errors.append(error)

    def _live_tasks(self) -> list[SimTask[object]]:
        found = (ref() for ref in self._tasks)
        return [task for task in found if task is not None]

    def get_debug(self) -> bool:
        """Returns False: debug mode would slow every future down."""
        return False

    def is_running(self) -> bool:
        """True inside of a run."""
        return self._running

    def is_closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def close(self) -> None:
        """Cancels all tasks, lets them end without time passing, and drops the rest. Later errors are ignored."""
        if self._closed or self._running:
            return
        self._hooks = ()
        with self._entered():
            for task in self._live_tasks():
                if not task.done():
                    task.cancel()
            last = self.steps + _MAX_STEPS_TO_CLOSE
            while self._ready and self.steps < last:
                self._step()
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def __enter__(self) -> SimLoop:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _never() -> bool:
    return False


def _nothing(*_: object) -> None:
    return None
