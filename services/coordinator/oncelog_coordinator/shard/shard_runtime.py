"""Runs one shard in one epoch: a core, its log, and two loops (docs/internals/coordinator.md#a-life-of-a-shard).

    handlers -> inbox -> decide and apply all that waits -> ONE append -> (committed) -> answer, run effects

Rule 1: one task owns the core.  Handlers only put a command into the bounded inbox and wait: they may be cancelled at
        any time.
Rule 2: deciding continues while appends are in flight; answers are given in the order of the decisions, each when
        everything decided before it is committed, so no caller sees uncommitted state.
Rule 3: a failed append ends this life of the shard.  Waiting callers get a retriable error: the outcome is unknown to
        them, and every command is safe to repeat.
Rule 4: lazy records are applied at once and logged with the next append, or after a while: COMPLETE would otherwise
        cost a sync in front of the next transaction's first record.
Rule 5: no command is answered before the epoch record is committed and everything up to it is replayed.
Rule 6: the log stays short: the owner repeats what is old and needed, announces up to where nothing is needed, and has that
        deleted once the announcement is committed (`core.log_bound`, docs/internals/coordinator.md#a-log-that-stays-short).
Rule 7: deciding only reads. An unexpected exception there refuses its command with a named error, and the shard
        continues. One in applying leaves a core in an unknown state: its command is refused, and the life ends.

THEORY OF OPERATION

A life lasts from the epoch record of a shard to the first failure of its log. `shard.Shard` makes one `ShardLife` per
epoch: `load`, then `serve` until it raises, then `close`. `load` appends the epoch record first. From then on the
leader of the log refuses appends of every lower epoch, so the replay that follows sees all that earlier owners have
committed, and nothing can be added behind it (hole 1).

Commands come in by `submit` (a handler waits for the answer), `tell` (an effect reports its progress, and no caller
waits) and `look_at_clock` (which becomes a `Tick`). The decide loop takes all that wait, up to a bound, and has the
core decide and apply them one by one. It does so without an await, so each decision sees the state that the one before
has left, although none of it is committed yet. All records of the round go into one append, the newest per key: this is
group commit. While up to `appends_in_flight` appends are in flight, the next round is decided; above that, commands
wait in the inbox, which refuses more than `inbox_max`; vital ones (`Command.is_vital`) have some places of their own.

The answer loop takes the rounds in their order. When the append of a round is committed, its callers get their answers
and its effects start. A round that wrote nothing joins the last one in flight, since its answers may depend on that.

What can go wrong, and the rule that closes it:

- A handler is cancelled while it waits. The command is decided all the same, and its answer is dropped (rule 1).
- An append fails, or its outcome stays unknown. The core holds records that may not be in the log, so the core is
  thrown away and the next life replays (rule 3).
- Another process has taken the shard over, and this one has not noticed. Its appends are fenced, so no answer that
  waits for one is given. An answer that needs no record could still be false, so a definite refusal, or a decision with
  `confirm`, appends the epoch record (hole 6).
- A lazy record is lost with the life. That costs work, not correctness: markers whose COMPLETE is lost are sent again,
  and a number that was enrolled ahead is assumed to be open.
- More lazy records wait than fit one append. They go ahead in appends of their own, since each stands alone.
- The core has a bug. In `decide` it costs one command, in `apply` the life (rule 7). A failing `Tick` is tried again
  after a second, not in a loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from oncelog.errors import CoordinatorNotAvailableError, OncelogError, ResourceExhaustedError
from oncelog_coordinator.config import ShardConfig
from oncelog_coordinator.core.decision import Command, Decision, Effect, LogRecord, Note, Reply
from oncelog_coordinator.core.log_bound import LogBound, LogLimits, Written
from oncelog_coordinator.core.transactions.commands import Tick
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord
from oncelog_coordinator.shard.log_port import LogLostError, LogPort
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.shard_observer import Observed, ShardObserver

_TICK_AGAIN_MS = 1_000
"""A failed Tick is tried again after this long, not in a loop."""
_YIELD_EVERY = 500
"""Records applied in a replay before other tasks get a turn."""
_KEPT_FOR_VITAL = 1_000
"""Vital commands that may wait beyond the bound."""


_Answer = asyncio.Future[Any]
"""The answer to one command. Its type is that of the command's `Reply`, and differs from command to command."""
_Items = dict[str, "_Item"]
"""The content of one append, by key."""


class BrokenCoreError(Exception):
    """A record was applied only in part, so the core cannot be used. The cause is the exception, which has been reported."""


class Table(Protocol):
    """The interface that both cores implement."""

    def decide(self, command: Command[object], now_ms: int) -> Decision:
        """Decides about a command; reads only, and refuses by raising."""
        ...

    def apply(self, record: LogRecord | Note) -> None:
        """Applies a record or note; the only writer."""
        ...

    def decode(self, key: str, value: bytes | None) -> LogRecord:
        """Decodes a record of the log. Raises `CorruptMessageError`."""
        ...

    def loaded(self, now_ms: int) -> None:
        """Called when the replay is complete."""
        ...

    def pending(self, now_ms: int) -> tuple[Effect, ...]:
        """Returns the effects to resume after a replay."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Returns when a `Tick` is due; None = never."""
        ...

    def check(self) -> None:
        """Asserts every invariant."""
        ...


@dataclass(slots=True)
class _Item:
    """A record and its bytes. A lazy record is encoded only when it is logged, since most of them are replaced."""

    record: LogRecord
    value: bytes | None = None
    is_encoded: bool = False

    def encoded(self) -> bytes | None:
        """Returns the value in the log; None is a tombstone."""
        if not self.is_encoded:
            self.value, self.is_encoded = self.record.encode(), True
        return self.value


@dataclass(frozen=True, slots=True)
class _Asked:
    command: Command[object]
    answer: _Answer | None
    seen: Observed = field(default_factory=Observed)


@dataclass(slots=True)
class _Step:
    """Decisions that share one append: answers and effects wait for it, if there is one."""

    committed: asyncio.Future[int] | None
    answers: list[tuple[_Answer, object]] = field(default_factory=list)
    effects: list[tuple[Effect, Observed]] = field(default_factory=list)
    """Each effect with the command that caused it."""
    observed: list[Observed] = field(default_factory=list)
    size: int = 0
    confirm: bool = False
    place: int = 0
    """The append's place in the log (`LogBound`)."""
    free_below: int = 0
    """The offset that the append announces to be free; 0 = none."""


class Watched(NamedTuple):
    """Name and observer of a shard runtime."""

    name: str = ""
    observer: ShardObserver = ShardObserver()


_UNWATCHED: Final = Watched()


class ShardLife:
    """Runs the shard in one epoch, from `load` to the first failure of its log. `on_effect` must not block and must not
    raise. Its methods and fields are many, since a command's whole way is here: queue, decision, append, answer.
    """

    def __init__(
        self,
        table: Table,
        log: LogPort,
        epoch: int,
        config: ShardConfig,
        clock: SteadyClock,
        on_effect: Callable[[Effect], None],
        watched: Watched = _UNWATCHED,
    ) -> None:
        self._name, self._observer = watched
        self.table = table
        self.epoch = epoch
        self.on_effect = on_effect
        self._log = log
        self._config = config
        self._clock = clock
        self._inbox: deque[_Asked] = deque()
        self._taken: list[_Asked] = []
        self._bound = self._new_bound()
        self.replayed = (0, 0)
        """Records and milliseconds of the replay."""
        self._lazy: _Items = {}
        self._lazy_since_ms = 0
        self._no_tick_before_ms = 0
        self._steps: deque[_Step] = deque()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._ended: OncelogError | None = None

    @property
    def waiting(self) -> int:
        """The number of commands that are not decided or not committed yet."""
        return len(self._inbox) + sum(len(step.answers) for step in self._steps)

    # ------------------------------------------------------------ begin

    async def load(self) -> None:
        """Commits the epoch record and replays up to it. Raises `LogLostError`, or `OncelogError` for an unreadable log."""
        assert not self._steps, "nothing is appended before the epoch record"
        epoch = EpochRecord(self.epoch)
        await self._log.append([(epoch.key, epoch.encode())])
        began_ms = self._clock.now_ms()
        for count, (key, value) in enumerate((await self._newest()).items()):
            record = self.table.decode(key, value)
            self.table.apply(record)
            self._bound.know(key, record)
            if count % _YIELD_EVERY == _YIELD_EVERY - 1:
                await asyncio.sleep(0)
        self._bound.loaded(self._log.free_below)
        if self._log.free_below:
            self._log.delete_before(self._log.free_below)  # an earlier owner may have stopped before it did that
        now_ms = self._clock.now_ms()
        self.replayed = (self._bound.records, now_ms - began_ms)
        self.table.loaded(now_ms)
        self.table.check()
        for effect in self.table.pending(now_ms):
            self.on_effect(effect)

    async def _newest(self) -> dict[str, bytes | None]:
        """Reads the log; returns the newest value of each key, in the order of the log."""
        newest: dict[str, bytes | None] = {}
        async for batches in self._log.replay():
            for batch in batches:
                if batch.is_first:
                    newest, self._bound = {}, self._new_bound()
                for key, value in batch.items:
                    newest.pop(key, None)
                    newest[key] = value
                if batch.items:
                    self._bound.replayed(batch.offset, [_written(key, None, value) for key, value in batch.items])
        return newest

    def _new_bound(self) -> LogBound:
        return LogBound(LogLimits(self._config.slack_records, self._config.slack_bytes))

    # ------------------------------------------------------------ callers

    def submit(self, command: Command[Reply]) -> asyncio.Future[Reply]:
        """Queues a command; the future is its answer. Raises `ResourceExhaustedError` when too many commands wait."""
        self._require_room(command)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        asked = _Asked(command, answer)
        self._observer.queued(asked.seen)
        self._inbox.append(asked)
        self._wake.set()
        return answer

    def tell(self, command: Command[object]) -> None:
        """Queues a command without a caller. It is never refused, since it reports something that has already happened."""
        if self._ended is None:
            self._inbox.append(_Asked(command, None))
            self._wake.set()

    def look_at_clock(self) -> None:
        """Wakes the decide loop when something is due; called by the ticker of the process."""
        if self._is_due():
            self._wake.set()

    def _require_room(self, command: Command[object]) -> None:
        if self._ended is not None:
            raise self._ended
        over = len(self._inbox) - self._config.inbox_max
        if over >= 0 and not (command.is_vital and over < _KEPT_FOR_VITAL):
            raise ResourceExhaustedError("too many commands wait for this shard", retry_after_ms=100)

    def _is_due(self) -> bool:
        return self._is_tick_due() or self._is_lazy_due() or self._is_log_long()

    def _is_log_long(self) -> bool:
        return self._bound.is_over or self._bound.to_announce() is not None

    def _is_tick_due(self) -> bool:
        due_ms = self.table.next_deadline_ms()
        return due_ms is not None and max(due_ms, self._no_tick_before_ms) <= self._clock.now_ms()

    def _is_lazy_due(self) -> bool:
        return bool(self._lazy) and self._clock.now_ms() - self._lazy_since_ms >= self._config.lazy_flush_ms

    # ------------------------------------------------------------ the two loops

    async def serve(self) -> None:
        """Serves until the log is lost (raises `LogLostError`) or a bug ends it (raises the bug)."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._decide_loop())
            group.create_task(self._answer_loop())

    async def _decide_loop(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._inbox or self._is_due():
                while len(self._steps) >= self._config.appends_in_flight:
                    self._changed.clear()
                    await self._changed.wait()
                self._step()
                if self._is_tick_due():  # one tick takes a part of what is overdue: others get their turn in between
                    await asyncio.sleep(0)

    def _step(self) -> None:
        """Decides all waiting commands, without an await, so no lock is needed; then makes one append for them."""
        now_ms = self._clock.now_ms()
        step = _Step(None)
        items: _Items = {}
        if self._is_tick_due():
            self._decide(_Asked(Tick(), None), now_ms, step, items)
        for _ in range(self._config.commands_per_append):
            if not self._inbox or step.size > self._config.append_bytes:
                break
            self._taken.append(self._inbox.popleft())
            self._decide(self._taken[-1], now_ms, step, items)
        self._shorten(step, items)
        if self._lazy and (items or step.confirm or self._is_lazy_due()):
            items = {**self._lazy_items(items), **items}
            self._lazy.clear()
        if step.confirm and not items:
            items[EPOCH_KEY] = _Item(EpochRecord(self.epoch))
        if self._config.check_invariants:
            self.table.check()
        self._append(step, items)
        self._taken.clear()

    def _shorten(self, step: _Step, items: _Items) -> None:
        """Adds old records that are still needed, and says up to where nothing is needed, when the log has become long."""
        repeats, left_bytes = self._repeats(items)
        if repeats and items and step.size > left_bytes:
            self._write(repeats)  # ahead: each stands alone, and a full append must not put them off
        else:
            items.update(repeats)
        free_below = self._bound.to_announce()
        if free_below is not None:
            items[EPOCH_KEY] = _Item(EpochRecord(self.epoch, free_below))
            self._bound.announced(free_below)
            step.free_below = free_below

    def _repeats(self, newer: _Items) -> tuple[_Items, int]:
        """Returns old records that are still needed, as many as one append takes, and how many bytes it has left."""
        found, left_bytes = _Items(), self._config.append_bytes
        for record in self._bound.repeats(len(newer)):
            if left_bytes > 0 and record.key not in newer:
                found[record.key] = item = self._lazy.pop(record.key, None) or _Item(record)
                left_bytes -= _size(record.key, item.encoded())
        return found, left_bytes

    def _lazy_items(self, newer: _Items) -> _Items:
        """Returns the lazy records for the next append. When they are too many bytes for one, most are appended ahead
        of it, since each stands alone. A newer record of the same key replaces a lazy one.
        """
        items: _Items = {}
        size = 0
        for key in [key for key in self._lazy if key not in newer]:
            items[key] = self._lazy[key]
            size += _size(key, items[key].encoded())
            if size > self._config.append_bytes:
                self._write(items)
                items, size = {}, 0
        return items

    def _decide(self, asked: _Asked, now_ms: int, step: _Step, items: _Items) -> None:
        """Decides and applies one command."""
        reply: object
        try:
            decision = self.table.decide(asked.command, now_ms)
        except OncelogError as error:
            reply = error
            self._observer.refused(error)
            # A deposed owner knows an old state: a definite refusal (fenced, ended, forgotten) from it would be false
            # about a healthy transaction, so it is answered only when an append of this epoch has shown that no other
            # process took over.
            step.confirm |= not error.retriable
        except Exception as error:
            reply = self._met(error, asked)
            if isinstance(asked.command, Tick):
                self._no_tick_before_ms = now_ms + _TICK_AGAIN_MS
        else:
            reply = decision.reply
            self._take(asked, decision, step, items)
            asked.seen.ended = decision.ended
        if asked.answer is not None:
            step.answers.append((asked.answer, reply))

    def _take(self, asked: _Asked, decision: Decision, step: _Step, items: _Items) -> None:
        """Applies a decision. An exception in the middle leaves a half-changed core, so it refuses the command and ends
        the life.
        """
        try:
            written = [_Item(record) for record in decision.records]
            if not decision.lazy:
                for item in written:
                    item.encoded()
            if decision.records or decision.confirm:
                self._observer.decided(asked.seen, self._name, asked.command)
            step.observed.append(asked.seen)
            self._apply(decision, written, step, items, asked.seen)
        except Exception as error:
            refusal = self._met(error, asked)
            if asked.answer is not None and not asked.answer.done():
                asked.answer.set_exception(refusal)
                asked.answer.exception()
            raise BrokenCoreError(f"{type(asked.command).__name__} could not be applied: {error!r}") from error

    def _met(self, error: Exception, asked: _Asked) -> OncelogError:
        """Reports an unexpected exception and returns the error for the caller."""
        return self._observer.bug(error, self._name, type(asked.command).__name__)

    def _apply(
        self,
        decision: Decision,
        written: Sequence[_Item],
        step: _Step,
        items: _Items,
        cause: Observed,
    ) -> None:
        """Applies the records and adds them to the append. The newest record of a key replaces older ones of the same
        append, since it holds all that they say.
        """
        for item in written:
            key = item.record.key
            self.table.apply(item.record)
            step.size += _size(key, item.value)
            if decision.lazy and key not in items:
                self._lazy_since_ms = self._lazy_since_ms if self._lazy else self._clock.now_ms()
                self._lazy[key] = item
            else:
                items.pop(key, None)
                items[key] = item
        for note in decision.notes:
            self.table.apply(note)
        for notice in decision.notices:
            self.on_effect(notice)
        step.effects.extend((effect, cause) for effect in decision.effects)
        step.confirm |= decision.confirm

    def _append(self, step: _Step, items: _Items) -> None:
        assert self._ended is None, "nothing is appended after the end of the life"
        assert items or not step.confirm, "a decision that needs a proof of ownership has an append"
        if items:
            self._observer.appending(step.observed, len(self._taken), len(items))
            step.place, step.committed = self._write(items)
            self._steps.append(step)
            self._changed.set()
        elif self._steps:
            # Nothing of its own to commit, but its answers may depend on records that are not committed yet.
            self._steps[-1].answers.extend(step.answers)
            self._steps[-1].effects.extend(step.effects)
            self._steps[-1].observed.extend(step.observed)
        else:
            self._finish(step)

    def _write(self, items: _Items) -> tuple[int, asyncio.Future[int]]:
        """Appends the items; returns the append's place, and its future."""
        encoded = [(key, item.encoded()) for key, item in items.items()]
        place = self._bound.appended(_written(key, items[key].record, value) for key, value in encoded)
        return place, self._log.append(encoded)

    async def _answer_loop(self) -> None:
        while True:
            while not self._steps:
                self._changed.clear()
                await self._changed.wait()
            committed = self._steps[0].committed
            assert committed is not None
            offset = await committed
            step = self._steps.popleft()
            assert step.committed is committed, "answers belong to the append that was committed"
            self._bound.committed(step.place, offset)
            if step.free_below:
                self._log.delete_before(step.free_below)
            self._finish(step)
            if self._is_log_long():
                self._wake.set()
            self._changed.set()

    def _finish(self, step: _Step) -> None:
        for answer, reply in step.answers:
            if answer.done():
                continue  # the caller has gone
            if isinstance(reply, OncelogError):
                answer.set_exception(reply)
                answer.exception()
            else:
                answer.set_result(reply)
        self._observer.committed(step.observed)
        for effect, cause in step.effects:
            self._observer.causes(cause)
            self.on_effect(effect)

    # ------------------------------------------------------------ end

    async def close(self, error: OncelogError | None = None) -> None:
        """Ends the life; every waiting caller gets `error`."""
        self._ended = error or CoordinatorNotAvailableError("the shard restarts", retry_after_ms=20)
        waiting = [asked.answer for asked in (*self._taken, *self._inbox)]
        waiting += [answer for step in self._steps for answer, _ in step.answers]
        for step in self._steps:
            self._observer.failed(step.observed, self._ended)
        self._taken.clear()
        self._inbox.clear()
        self._steps.clear()
        for answer in waiting:
            if answer is not None and not answer.done():
                answer.set_exception(self._ended)
                answer.exception()
        await self._log.close()


def _size(key: str, value: bytes | None) -> int:
    return len(key) + len(value or b"")


def _written(key: str, record: LogRecord | None, value: bytes | None) -> Written:
    return Written(key, record, _size(key, value), value is None)


def first_cause(error: BaseException) -> BaseException:
    """Returns the failure inside of an exception group; a lost log has precedence."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    causes = [first_cause(inner) for inner in error.exceptions]
    return next((cause for cause in causes if isinstance(cause, LogLostError)), causes[0])
