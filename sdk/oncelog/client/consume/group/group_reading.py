"""Carries out what a consumer's membership in its group says: which partitions are read, and which callback learns of a change.

Rule 1: a change is carried out at the beginning of a read. What earlier reads returned is processed by then, so a commit of
        the positions, by the caller's `on_revoked` or by auto-commit, loses nothing and repeats nothing.
Rule 2: partitions that stay assigned are not touched: neither their positions nor what is fetched of them.
Rule 3: lost partitions are no longer read from the moment in which this client knows it, also in the middle of a batch;
        `on_lost` is called at the beginning of the next read. Their offsets cannot be committed any more, and until the
        callback has returned nothing is: a membership that has begun meanwhile may own them, and has not read what the caller
        works on.
Rule 4: an exception of a callback is raised by the read in which it was called. The change is carried out all the same, and the
        other callbacks are called: the coordinator has decided it. A change is a task of its own, so a read that is cancelled
        does not leave it half done; the next read waits for it, and raises its exception.
Rule 5: while a callback runs the consumer may commit and seek, and may not read: the change is not carried out yet.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final

from oncelog import errors
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.following import Following
from oncelog.client.consume.group.auto_commit import AutoCommit
from oncelog.client.consume.group.group_member import GroupMember
from oncelog.client.consume.group.late_topics import LateTopics
from oncelog.client.consume.record_reader import RecordReader
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.config import ConsumerConfig
from oncelog.core.consume.consumer import Cursor
from oncelog.core.consume.membership import Change, Membership, Partitions, Subscription
from oncelog.types import PartitionId, TopicPartition

_log = logging.getLogger(__name__)

OnPartitions = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""A callback of `Consumer.subscribe`: a function or a coroutine function."""
_LEAVE_MS: Final = 5_000
"""How long closing waits for the coordinator's answer; without it the session time-out ends the membership."""
_CALLBACK: ContextVar[object | None] = ContextVar("oncelog_group_callback", default=None)
"""The callback that runs in this task, or in a thread that it waits for, or that has begun this task. Rule 5."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The functions to call after a change; None = there is none."""

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None


class GroupReading:
    """See the module. One per consumer; it does nothing before `subscribe`.

    Its many methods are the questions of a consumer, its reads and its end, and the steps of one change.
    """

    def __init__(
        self,
        context: Context,
        metadata: Metadata,
        caller: Caller,
        config: ConsumerConfig,
        fetcher: Fetcher,
        following: Following,
        records: RecordReader,
        commits: AutoCommit,
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._caller = caller
        self._config = config
        self._fetcher = fetcher
        self._following = following
        self._records = records
        self._commits = commits
        self._callbacks = Callbacks()
        self._member: GroupMember | None = None
        self._late = LateTopics(context, self._look_up, self._owned, fetcher.wake)
        self._lost: list[TopicPartition] = []
        self._work: asyncio.Task[None] | None = None
        self._telling: object | None = None  # the callback that runs

    @property
    def is_active(self) -> bool:
        """True from `subscribe` on, until the consumer unsubscribes or closes."""
        return self._member is not None

    def check_inactive(self) -> None:
        """Raises `IllegalStateError` while the group assigns partitions."""
        if self.is_active:
            raise errors.IllegalStateError(
                "the group assigns partitions to this consumer: call unsubscribe() first, or make one that subscribes to"
                " nothing, as in client.consumer(group_id='billing')"
            )

    def check_not_lost(self) -> None:
        """Raises `UnknownMemberError` for a caller who does not know of a loss yet. Rule 3."""
        if self._lost:
            raise errors.UnknownMemberError(
                "partitions were lost since the last read: another member of the group may have gone on with them, and nothing"
                " was committed; read on"
            )

    @property
    def membership(self) -> Membership | None:
        """The membership, if there is one."""
        return None if self._member is None else self._member.membership

    def _owned(self) -> Partitions:
        return {} if self._member is None else self._member.membership.owned

    # ------------------------------------------------------------ begin and end

    def subscribe(self, topics: tuple[str, ...], pattern: str, callbacks: Callbacks) -> None:
        """Wants these topics from now on; the next read joins the group. Raises `ConfigError` without a group or a topic."""
        if self._config.group_id is None:
            raise errors.ConfigError("subscribe shares partitions among a group: give the consumer a group_id")
        if not topics and not pattern:
            raise errors.ConfigError("subscribe to what? name topics, or give a pattern")
        wanted = Subscription(
            tuple(dict.fromkeys(topics)),
            pattern,
            self._config.group_remote_assignor,
            self._config.max_poll_interval_ms,
            self._config.group_instance_id,
            self._config.client_rack,
            self._context.config.client_id,
        )
        self._callbacks = callbacks
        self._following.is_by_group = True
        if self._member is None:
            self._member = self._new_member(self._config.group_id, wanted)
        else:
            self._member.membership.resubscribe(wanted)
            self._member.stir()

    def _new_member(self, group_id: str, wanted: Subscription) -> GroupMember:
        membership = Membership(
            wanted,
            max_poll_interval_ms=self._config.max_poll_interval_ms,
            make_id=self._context.nonce,
            pause_ms=self._context.delay_ms,
        )
        return GroupMember(
            self._context, self._caller, group_id, membership, lost=self._stop_reading, news=self._fetcher.wake
        )

    async def leave(self, *, for_now: bool = False, timeout_ms: int | None = None) -> None:
        """Gives everything back and leaves the group. `for_now`: a static member keeps its partitions for the session time-out.

        All of it takes at most `timeout_ms` (None = as long as a commit and the callbacks take): half of that is for the
        commit, and the end for the leave. Raises what `on_revoked` raises, after the member has left. Idempotent.
        """
        member = self._member
        if member is None:
            return
        self.check_caller()
        leave_ms = _LEAVE_MS if timeout_ms is None else min(_LEAVE_MS, timeout_ms // 4)
        until_ms = None if timeout_ms is None else now_ms() + timeout_ms - leave_ms
        commit_ms = None if timeout_ms is None else timeout_ms // 2
        try:
            while (work := self._work) is not None:
                await self._join(work, until_ms)
        finally:
            work = asyncio.get_running_loop().create_task(self._give_back(member, commit_ms), name="oncelog-leave")
            self._work = work
            is_static = for_now and bool(self._config.group_instance_id)
            await self._end(member, work, until_ms, partial(member.leave, for_now=is_static, timeout_ms=leave_ms))

    async def _give_back(self, member: GroupMember, commit_ms: int | None) -> None:
        """Tells the caller, while the partitions are this member's still."""
        await self._tell_lost()
        owned = list(member.membership.owned.values())
        await self._commits.at_end(owned, commit_ms)
        if owned:
            await self._tell(self._callbacks.on_revoked, owned)

    async def _end(
        self,
        member: GroupMember,
        giving: asyncio.Task[None],
        until_ms: int | None,
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        try:
            await _wait(giving, until_ms)
        finally:
            giving.cancel()  # only when it is not waited for any more; else it has ended
            self._work = self._member = None
            self._lost = []  # the caller ends its reading, and knows that it gives all of it back
            self._following.is_by_group = False
            self._remove(member.membership.owned)
            try:
                await self._late.stop()
            finally:
                await leave()
        _result(giving)

    # ------------------------------------------------------------ each read

    async def look(self) -> None:
        """Carries out what there is, before a read looks for records. Raises a refusal of the coordinator, and rule 4."""
        member = self._member
        if member is None:
            return
        self.check_caller()
        membership = member.membership
        if (refusal := membership.take_refusal()) is not None:
            raise refusal
        member.read()
        if self._work is None and (membership.change is not None or self._lost):
            self._work = asyncio.get_running_loop().create_task(self._catch_up(member), name="oncelog-change")
        if self._work is not None:
            await self._join(self._work)
        for cursor in self._late.take():
            if cursor.partition not in self._fetcher.cursors:
                self._fetcher.add(cursor)

    def wait_ms(self, left_ms: int) -> int:
        """How long a reader may wait before it must `look` again: one that waits for records reads."""
        return max(1, min(left_ms, self._config.max_poll_interval_ms // 2)) if self.is_active else left_ms

    def check_caller(self) -> None:
        """Raises `IllegalStateError` in a callback, which would wait for itself. Rule 5."""
        if self._telling is not None and _CALLBACK.get() is self._telling:
            raise errors.IllegalStateError(
                "a callback of subscribe may commit and seek, and may not read or close: do so when it has returned"
            )

    async def _join(self, work: asyncio.Task[None], until_ms: int | None = None) -> None:
        """Waits for the task; a cancellation of the one who waits leaves it alone. The first of them raises its exception.

        At `until_ms` it is given up and cancelled, whatever waits for it.
        """
        await _wait(work, until_ms)
        if self._work is work:
            self._work = None
            work.cancel()
            _result(work)

    async def _catch_up(self, member: GroupMember) -> None:
        await self._tell_lost()
        while (change := member.membership.change) is not None:
            await self._carry_out(member, change)
            await self._tell_lost()  # before the next change gives some of them back

    async def _carry_out(self, member: GroupMember, change: Change) -> None:
        cursors = await self._look_up(change.added)  # before a callback runs: it may fail, and is repeated
        raised: Exception | None = None
        revoked = list(change.revoked.values())
        paused = self._pause(change.revoked)
        if revoked:
            await self._commits.now(revoked)
            raised = await self._told(self._callbacks.on_revoked, revoked)
        if member.membership.change != change:  # it was lost, or a newer one has come
            for cursor in paused:
                cursor.is_paused = False
        else:
            self._remove(change.revoked)
            for cursor in cursors:
                self._fetcher.add(cursor)
            shown = {cursor.id for cursor in cursors}
            self._late.expect({id_: name for id_, name in change.added.items() if id_ not in shown})
            member.membership.carried_out(change.number)
            member.stir()
            self._fetcher.kick()
            if change.added:
                second = await self._told(self._callbacks.on_assigned, list(change.added.values()))
                raised = raised or second
        if raised is not None:
            raise raised

    async def _told(self, callback: OnPartitions | None, partitions: list[TopicPartition]) -> Exception | None:
        """Returns what the callback raised."""
        try:
            await self._tell(callback, partitions)
        except Exception as error:
            return error
        return None

    def _pause(self, partitions: Partitions) -> list[Cursor]:
        """Lets no other task read these meanwhile. Returns those that the caller had not paused himself."""
        paused = [c for c in self._fetcher.cursors.values() if c.id in partitions and not c.is_paused]
        for cursor in paused:
            cursor.is_paused = True
        return paused

    async def _look_up(self, added: Partitions) -> list[Cursor]:
        """Returns a cursor for each partition, but for those whose topic no broker shows: it is late, or was deleted."""
        deadline_ms = self._context.deadline_ms()
        topics: dict[str, str] = {id_.topic_id: name.topic for id_, name in added.items()}
        known: set[str] = set()
        for topic_id, name in topics.items():
            try:
                topic = await self._metadata.topic_known_as(name, topic_id, deadline_ms)
                if topic.topic_id == topic_id:
                    known.add(topic_id)
            except errors.UnknownTopicError:
                continue
        return [Cursor(name, id_) for id_, name in added.items() if id_.topic_id in known]

    def _remove(self, partitions: Iterable[PartitionId] | Partitions) -> None:
        """Stops reading these, and only these: another topic may have the name by now."""
        ids = set(partitions)
        self._records.take_back()
        self._commits.forget(name for name, cursor in self._fetcher.cursors.items() if cursor.id in ids)
        for name, cursor in list(self._fetcher.cursors.items()):
            if cursor.id in ids:
                self._fetcher.remove(name)
        self._records.forget_outdated()

    def _stop_reading(self, lost: Partitions) -> None:
        """Rule 3."""
        self._remove(lost)
        if self._member is None:
            return  # it leaves
        self._lost += lost.values()
        _log.warning("partitions were lost: another member of the group may read them; %d of them", len(lost))
        self._fetcher.wake()

    async def _tell_lost(self) -> None:
        if lost := [*self._lost]:
            try:
                await self._tell(self._callbacks.on_lost or self._callbacks.on_revoked, lost)
            finally:
                del self._lost[: len(lost)]

    async def _tell(self, callback: OnPartitions | None, partitions: list[TopicPartition]) -> None:
        if callback is None:
            return
        self._telling = telling = object()
        marked = _CALLBACK.set(telling)
        try:
            waits = callback(sorted(partitions))
            if inspect.isawaitable(waits):
                await waits
        finally:
            self._telling = None
            _CALLBACK.reset(marked)


async def _wait(work: asyncio.Task[None], until_ms: int | None) -> None:
    """Returns when the task has ended, or at this time."""
    await asyncio.wait((work,), timeout=None if until_ms is None else max(0, until_ms - now_ms()) / 1000)


def _result(work: asyncio.Task[None]) -> None:
    """Raises what the task raised; one that was given up is logged."""
    if work.done() and not work.cancelled():
        work.result()
    else:
        _log.warning("the consumer closed before a callback of subscribe, or the commit before it, had ended")
