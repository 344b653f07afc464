"""Keeps a consumer's membership alive: one heartbeat is in flight, whether the consumer reads or not.

Rule 1: `Membership` decides; this sends its heartbeats, lets time pass for it, and wakes the consumer when there is news.
Rule 2: lost partitions are reported at once, not with the next read: another member may read them already.
Rule 3: a heartbeat that says less than the next one is cancelled when the next one is sent.
Rule 4: the coordinator keeps no answer back for longer than half of `request_timeout_ms`: else the call would be given up
        before each answer, and the session would end although the coordinator has heard of the member.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.calls import Caller
from oncelog.core.causes import report_this
from oncelog.core.consume.membership import (
    EPOCH_JOIN,
    Heartbeat,
    HeartbeatAnswer,
    Membership,
    NewAssignment,
    Partitions,
    Subscription,
)
from oncelog.trace import tracing
from oncelog.types import PartitionId, TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods

_log = logging.getLogger(__name__)
_LEFT: Final = "a defect of ours has ended this consumer's membership in the group: the next read joins it again"
_FAILED: Final = "a defect of ours has ended this consumer's work in the group: close it, make a new one"
_ANSWER_MS: Final = 5_000
"""An answer that is not kept back comes within this time, or the coordinator is looked up and asked again."""


class GroupMember:
    """See the module. One per subscription. `lost` is called with lost partitions, `news` when the consumer should look."""

    def __init__(
        self,
        context: Context,
        caller: Caller,
        group_id: str,
        membership: Membership,
        *,
        lost: Callable[[Partitions], None],
        news: Callable[[], None],
    ) -> None:
        self.membership = membership
        self._context = context
        self._caller = caller
        self._group_id = group_id
        self._lost = lost
        self._news = news
        self._stirred = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._call: asyncio.Task[None] | None = None

    def read(self) -> None:
        """The consumer is asked for records: it joins, or shows that it is alive."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            if (defect := self._task.exception()) is not None:
                raise report_this(_FAILED, defect)
        self._let_time_pass()  # the event loop may have stood still for longer than a session
        was_outside = not self.membership.is_member
        self.membership.read(now_ms())
        if self._task is None:
            background = tracing.background(self._context.tracer)
            self._task = asyncio.get_running_loop().create_task(self._run(), name="oncelog-group", context=background)
            self._task.add_done_callback(lambda _: self._news())
        elif was_outside:
            self.stir()

    def stir(self) -> None:
        """The membership has changed: there may be something to send."""
        self._stirred.set()

    async def leave(self, *, for_now: bool, timeout_ms: int) -> None:
        """Tells the coordinator, and waits for its answer at most this long. Idempotent."""
        self.membership.leave(for_now=for_now)
        self.stir()
        task = self._task
        if task is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.wait((task,))
        await self._end(task)

    async def _end(self, task: asyncio.Task[None]) -> None:
        tasks = [one for one in (task, self._call) if one is not None]
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ the task

    async def _run(self) -> None:
        membership = self.membership
        while not membership.is_over:
            self._stirred.clear()
            self._let_time_pass()
            call = membership.next_call(now_ms())
            if call is not None:
                self._send(call)
            await self._wait(membership.wake_ms())

    def _let_time_pass(self) -> None:
        """Rule 2."""
        self.membership.tick(now_ms())
        if lost := self.membership.take_lost():
            self._lost(lost)

    async def _wait(self, wake_ms: int | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if wake_ms is None else max(1, wake_ms - now_ms()) / 1000):
                await self._stirred.wait()

    def _send(self, call: Heartbeat) -> None:
        """Rule 3."""
        if self._call is not None:
            self._call.cancel()
        self._call = asyncio.get_running_loop().create_task(self._ask(call), name="oncelog-heartbeat")

    async def _ask(self, call: Heartbeat) -> None:
        wait_ms = min(call.max_wait_ms, self._context.config.request_timeout_ms // 2)  # rule 4
        timeout_ms = wait_ms + _ANSWER_MS
        try:
            request = request_of(self._group_id, replace(call, max_wait_ms=wait_ms))
            reply = await self._caller.to_group_coordinator(
                self._group_id, methods.GROUP_HEARTBEAT, request, timeout_ms
            )
            self.membership.answered(call, answer_of(reply))
        except errors.OncelogError as error:
            if error.retriable and call.epoch >= EPOCH_JOIN:  # other errors are raised to the reader
                _log.warning("the coordinator of group %s is asked again for this member: %s", self._group_id, error)
            self.membership.failed(call, error, now_ms())
        except Exception as defect:  # else no heartbeat follows, and the reader waits for partitions that never come
            self.membership.crashed(call, report_this(_LEFT, defect), now_ms())
        self.stir()
        self._news()


def request_of(group_id: str, call: Heartbeat) -> co.GroupHeartbeatRequest:
    """Returns the heartbeat as it travels."""
    return co.GroupHeartbeatRequest(
        group_id=group_id,
        member_id=call.member_id,
        member_epoch=call.epoch,
        assignment_received=call.received,
        assignment_applied=call.applied,
        subscription=None if call.subscription is None else _subscription_of(call.version, call.subscription),
        max_wait_ms=call.max_wait_ms,
    )


def _subscription_of(version: int, subscription: Subscription) -> co.GroupSubscription:
    return co.GroupSubscription(
        version=version,
        topics=subscription.topics,
        pattern=subscription.pattern,
        assignor=subscription.assignor,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        instance_id=subscription.instance_id,
        rack=subscription.rack,
        client_id=subscription.client_id,
    )


def answer_of(reply: co.GroupHeartbeatReply) -> HeartbeatAnswer:
    """Reads an answer. Raises `InvalidResponseError` for one that cannot be."""
    if reply.heartbeat_interval_ms < 0 or reply.session_timeout_ms < 0:
        raise errors.InvalidResponseError("the coordinator named a time below 0")
    if not reply.HasField("assignment"):
        return HeartbeatAnswer(reply.member_epoch, reply.heartbeat_interval_ms, reply.session_timeout_ms)
    partitions: dict[PartitionId, TopicPartition] = {}
    for topic in reply.assignment.topics:
        for number in topic.partitions:
            if number < 0 or not topic.topic_id or not topic.topic:
                raise errors.InvalidResponseError(
                    "the coordinator assigned a partition that cannot be", partition=number
                )
            partitions[PartitionId(topic.topic_id, number)] = TopicPartition(topic.topic, number)
    assignment = NewAssignment(reply.assignment.number, partitions)
    return HeartbeatAnswer(reply.member_epoch, reply.heartbeat_interval_ms, reply.session_timeout_ms, assignment)
