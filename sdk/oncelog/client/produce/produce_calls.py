"""The Produce calls of one producer: which are in flight to which broker, and what came back.

Rule 1: the core decides how many calls to a broker may be under way; who waits is in `blocked` and is named when one ends.
Rule 2: calls to one broker begin in the order in which their requests were made.
Rule 3: every batch of a request gets exactly one answer, unless the call was cancelled by `cancel_all`.
Rule 4: with acks=0 a leader names only the batches that it refused before they were queued; where the others are is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.produce.observer import SendObserver
from oncelog.client.produce.ordered_start import Turns
from oncelog.core.consume.fetch_answer import MAX_OFFSET
from oncelog.core.produce.accumulator import Batch
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

Answered = Callable[[Batch, errors.OncelogError | None, int], None]
"""(batch, error or None, base offset)."""


class Lane:
    """The calls in flight to one broker."""

    __slots__ = ("address", "blocked", "in_flight", "turns")

    def __init__(self, address: str) -> None:
        self.address = address
        self.in_flight = 0
        self.turns = Turns()
        self.blocked: dict[PartitionId, None] = {}


class Request:
    """One Produce call: at most one batch per partition."""

    __slots__ = ("batches", "is_abandoned", "is_sent", "lane", "size", "started_ms", "task", "turn")

    def __init__(self, lane: Lane, started_ms: int) -> None:
        self.lane = lane
        self.batches: list[Batch] = []
        self.size = 0
        self.started_ms = started_ms
        self.turn = lane.turns.draw()
        self.is_abandoned = False
        self.is_sent = False  # it may have been: it was given to the transport
        self.task: asyncio.Task[None] | None = None

    def add(self, batch: Batch) -> None:
        """Another partition's batch."""
        self.batches.append(batch)
        self.size += len(batch.encoded)


class ProduceCalls:
    """See the module. `on_free` names partitions that waited for room in a lane; `on_crash` gets our own defects."""

    def __init__(
        self,
        context: Context,
        acks: int,
        on_answer: Answered,
        on_free: Callable[[Iterable[PartitionId]], None],
        on_crash: Callable[[BaseException], None],
        observer: SendObserver | None = None,
    ) -> None:
        self._context = context
        self._acks = acks
        self._on_answer = on_answer
        self._on_free = on_free
        self._on_crash = on_crash
        self._observer = observer or SendObserver()
        self._lanes: dict[str, Lane] = {}
        self._requests: dict[Request, None] = {}

    def lane(self, address: str) -> Lane:
        """The lane to a broker."""
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = Lane(address)
        return lane

    def prepare(self, lane: Lane) -> Request:
        """A request to fill and `start`; it holds its place in the lane."""
        lane.in_flight += 1
        return Request(lane, now_ms())

    def start(self, request: Request) -> None:
        """Makes the call."""
        self._requests[request] = None
        request.task = asyncio.get_running_loop().create_task(self._run(request), name="oncelog-produce")
        request.task.add_done_callback(partial(self._finish, request))

    def slow(self, older_than_ms: int) -> list[Request]:
        """Calls that have been under way for longer than this."""
        now = now_ms()
        return [request for request in self._requests if now - request.started_ms > older_than_ms]

    def abandon(self, request: Request) -> None:
        """Waits no longer; its batches are answered with `NetworkError`."""
        assert request.task is not None
        request.is_abandoned = True
        request.task.cancel()

    def cancel_all(self) -> None:
        """Ends every call; no batch is answered."""
        for request in self._requests:
            if request.task is not None:
                request.task.cancel()

    def _finish(self, request: Request, task: asyncio.Task[None]) -> None:
        """In a callback, since a task that is cancelled before its first step runs no `finally`."""
        lane = request.lane
        lane.turns.give_up(request.turn)
        lane.in_flight -= 1
        self._requests.pop(request, None)
        blocked, lane.blocked = lane.blocked, {}
        self._on_free(blocked)
        if task.cancelled():
            if request.is_abandoned:
                unsent = "false" if request.is_sent else "true"
                self._answer_all(request, errors.NetworkError("the partition has another leader now", unsent=unsent))
        elif (error := task.exception()) is not None:
            self._on_crash(error)

    async def _run(self, request: Request) -> None:
        try:
            reply = await request.lane.turns.run(request.turn, partial(self._call, request))
            if self._acks == 0:
                self._answer_refused(request, reply)
                return
            _check(request.batches, reply)
        except errors.OncelogError as error:
            self._answer_all(request, error)
            return
        for batch, item in zip(request.batches, reply.partitions, strict=True):
            self._on_answer(batch, from_detail(item.error) if item.HasField("error") else None, item.base_offset)

    def _answer_all(self, request: Request, error: errors.OncelogError | None) -> None:
        for batch in request.batches:
            self._on_answer(batch, error, -1)

    def _answer_refused(self, request: Request, reply: pb.ProduceReply) -> None:
        """Each batch with the error that the leader told of it, or as sent."""
        refused = {(item.topic_id, item.partition): item.error for item in reply.partitions if item.HasField("error")}
        for batch in request.batches:
            error = refused.get(batch.partition)
            self._on_answer(batch, None if error is None else from_detail(error), -1)

    async def _call(self, request: Request) -> pb.ProduceReply:
        left_ms = max(batch.deadline_ms for batch in request.batches) - now_ms()
        timeout_ms = max(1, min(self._context.config.request_timeout_ms, left_ms))
        message = pb.ProduceRequest(acks=self._acks, timeout_ms=timeout_ms)
        for batch in request.batches:
            message.partitions.add(
                topic_id=batch.partition.topic_id,
                partition=batch.partition.partition,
                length=len(batch.encoded),
                transactional_id=batch.identity.transactional_id,
                session_token=batch.identity.session_token,
            )
        encoded = [batch.encoded for batch in request.batches]
        payload = encoded[0] if len(encoded) == 1 else b"".join(encoded)
        address = request.lane.address
        self._observer.sent(request.batches)
        request.is_sent = True
        reply, _ = await methods.PRODUCE.call(self._context.transport, address, message, timeout_ms, payload)
        return reply


def _check(batches: list[Batch], reply: pb.ProduceReply) -> None:
    """Raises `InvalidResponseError`: then it is not known what was written, and the sender finds out."""
    asked = [batch.partition for batch in batches]
    if [(item.topic_id, item.partition) for item in reply.partitions] != asked:
        raise errors.InvalidResponseError("the leader answered for other batches than it was sent", sent=len(asked))
    for batch, item in zip(batches, reply.partitions, strict=True):
        if not -1 <= item.base_offset <= MAX_OFFSET - batch.record_count:
            raise errors.InvalidResponseError("the leader told an offset that cannot be", answered=item.base_offset)
