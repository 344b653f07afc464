"""Work on channels: records go to workers, and their settlements come back (docs/internals/channels.md).

Rule 1: a handler checks the form of its request, then asks the core in one turn of the loop, and waits. It may be cancelled at
        any await: records that were taken for it and not sent are released, and whatever else was decided goes on without it.
Rule 2: one partition's error answers a request at once, and does not fail the other partitions.
Rule 3: a settlement is answered when it is durable, a REJECT when its dead letter is too. After `REQUEST_TIMED_OUT` it may be,
        or become so: the same request says. No request waits for another one's letters. A TOUCH writes nothing, so it waits for
        nothing, unless it is refused for a record that is settled: that has to be durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from oncelog.core.names import check_channel_name
from oncelog.errors import NotOwnerError, OncelogError, UnknownTopicError
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import channel_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import to_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.channels.settlement import Claim, Refused, Settlement, Taken, Verdict
from oncelog_partition_leader.partition.channels.answering import Answer, Given
from oncelog_partition_leader.partition.channels.host import ChannelHost
from oncelog_partition_leader.partition.channels.led_channel import LedChannel
from oncelog_partition_leader.partition.channels.shared_channel import SharedChannel, Standing
from oncelog_partition_leader.partition.channels.transaction_acks import Entered
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_partition_leader.rpc.channels import channel_requests as checked
from oncelog_partition_leader.rpc.get_metadata import require_listing
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.metadata.channel_values import Channel
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.call_context import CALL
from oncelog_runtime.serving.topic_access import TopicOperation, require_access

OPEN_MS: Final = 5_000
"""How long a request waits for the state of a channel whose leadership has just begun."""
SETTLE_MS: Final = 15_000
"""How long a settlement waits for the coordinator."""
Failed = list[tuple[Settlement | Refused, OncelogError]]


class ChannelService:
    """The handlers of Receive, Settle and Claim."""

    def __init__(self, config: BrokerConfig, view: ClusterView, replicas: ReplicaManager, host: ChannelHost) -> None:
        self._config = config
        self._view = view
        self._replicas = replicas
        self._host = host

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.RECEIVE, self.receive)
        register(server, methods.SETTLE, self.settle)
        register(server, methods.CLAIM, self.claim)

    # ------------------------------------------------------------ records go out

    async def receive(self, request: pb.ReceiveRequest, _payload: Buffer = b"") -> tuple[pb.ReceiveReply, Buffer]:
        """Answers as soon as there is a record for the worker and room, a partition has an error, or `max_wait_ms` has passed.

        Raises `InvalidRequestError`, `UnknownChannelError`, and `ResourceExhaustedError` for too many workers.
        """
        checked.check_receive(request, self._config.fetch_partitions_max)
        came_ms = self._now_ms()
        deadline_ms = came_ms + min(request.max_wait_ms, self._config.fetch_wait_max)
        channel = await self.find(request.topic_id, request.channel, request.channel_id, TopicOperation.READ)
        answer = self._answer(request.worker_id, request.max_bytes)
        while True:
            led = self._led(channel, request.partitions, answer)
            shared = self._host.shared_of(channel)
            if not led or shared is None:
                return answer.reply, b""
            left_ms = 0 if answer.reply.errors else deadline_ms - self._now_ms()
            over = await self._receive_once(request, shared, led, answer, came_ms, left_ms)
            if over or answer.reply.records or answer.is_broken or left_ms <= 0:
                if not answer.reply.records and not answer.is_broken:
                    self._add_errors(channel, request.partitions, answer)
                return answer.reply, answer.payload

    async def _receive_once(
        self,
        request: pb.ReceiveRequest,
        shared: SharedChannel,
        led: Iterable[LedChannel],
        answer: Answer,
        came_ms: int,
        left_ms: float,
    ) -> bool:
        """Stands in line once. Returns True when the request is not to go on, with or without records."""
        shared.heard(request.worker_id, _peer())
        standing = Standing(request.worker_id, led, request.max_in_flight, request.max_bytes or checked.DEFAULT_BYTES)
        given: list[Given] | None = None
        try:
            shared.stand(standing)
            given = await standing.wait(left_ms)
            if given:
                answer.reply.waited_ms = max(standing.given_ms - came_ms, 0)
                await answer.add_all(given)
        except asyncio.CancelledError:
            if given is None and standing.given:
                answer.release_all(standing.given)
            raise
        finally:
            shared.leave(standing)
        return given is not None and not given

    def _led(self, channel: Channel, partitions: Iterable[int], answer: Answer) -> list[LedChannel]:
        """Returns the partitions that are led here; the others have an error in the answer."""
        found = []
        for number in partitions:
            place = PartitionId(channel.topic_id, number)
            try:
                found.append(self._host.led(self._replicas.find(place), channel))
            except OncelogError as error:
                answer.refuse(place, error)
        return found

    def _add_errors(self, channel: Channel, partitions: Iterable[int], answer: Answer) -> None:
        """Names the partitions that have no records for a reason, as they are now."""
        del answer.reply.errors[:]
        for led in self._led(channel, partitions, answer):
            if led.loss is not None:
                answer.refuse(led.partition.id, led.loss)

    def _answer(self, worker_id: str, max_bytes: int) -> Answer:
        admission = ADMISSION.get() or Admission(Budget("receive", self._config.max_message_bytes))
        most = self._config.fetch_reply_bytes
        most = min(max_bytes or checked.DEFAULT_BYTES, most, admission.answer_bytes_max or most)
        return Answer(worker_id, most, self._host.around.unpacked, admission)

    async def claim(self, request: pb.ClaimRequest, _payload: Buffer = b"") -> tuple[pb.ReceiveReply, Buffer]:
        """Gives a worker records of others, as many as there is room for: the rest stay where they are.

        Raises the partition's error.
        """
        claim = checked.claim_of(request)
        channel = await self.find(request.topic_id, request.channel, request.channel_id, TopicOperation.READ)
        led = await self.open_one(channel, request.partition)
        shared = self._host.shared_of(channel)
        if shared is not None:
            shared.heard(request.worker_id, _peer())
        answer = self._answer(request.worker_id, 0)
        if request.names_only:
            answer.name_only(Given(led, self._claim(led, request.worker_id, claim)))
            return answer.reply, answer.payload
        led.skip_deleted()
        offsets = await answer.prepare(led, led.delivery.claimable(request.worker_id, claim, self._now_ms()))
        if not led.is_open:
            await led.opened(OPEN_MS)
        if offsets:
            answer.name_claimed(led, self._claim(led, request.worker_id, claim._replace(offsets=tuple(offsets))))
        return answer.reply, answer.payload

    def _claim(self, led: LedChannel, worker_id: str, claim: Claim) -> list[Taken]:
        taken = led.delivery.claim(worker_id, claim, self._now_ms())
        led.changed()
        return taken

    # ------------------------------------------------------------ settlements

    async def settle(self, request: pb.SettleRequest, _payload: Buffer = b"") -> tuple[pb.SettleReply, Buffer]:
        """Settles records; what failed is in the answer. With a transaction, everything or nothing.

        Raises `InvalidRequestError`, `UnknownChannelError`; with a transaction `NotOwnerError` and the coordinator's refusal.
        """
        items = checked.settlements_of(request)
        channel = await self.find(request.topic_id, request.channel, request.channel_id, TopicOperation.READ)
        shared = self._host.shared_of(channel)
        if shared is not None and shared.workers.get(request.worker_id) is not None:
            shared.heard(request.worker_id, _peer())
            if request.leaves:  # before it gives anything back: its own request must not take that
                shared.dismiss(request.worker_id)
        deadline_ms = self._now_ms() + SETTLE_MS
        reply = pb.SettleReply()
        if request.HasField("transaction"):
            await self._settle_in_transaction(request, channel, items, deadline_ms)
        else:
            outcomes = await asyncio.gather(
                *(self._settle_one(request.worker_id, channel, *item, deadline_ms) for item in items.items())
            )
            for partition, failed in zip(items, outcomes, strict=True):
                _add_failed(reply, partition, failed)
        shared = self._host.shared_of(channel)
        if request.leaves and shared is not None:
            shared.left(request.worker_id, released=True)
        return reply, b""

    async def _settle_one(
        self, worker_id: str, channel: Channel, partition: int, items: Sequence[Settlement], deadline_ms: int
    ) -> Failed:
        try:
            led = await self.open_one(channel, partition)
            told = [item.in_epoch(led.place.leader_epoch) for item in items]
            refused = [one for item in told for one in led.delivery.settle(worker_id, item, self._now_ms())]
            led.changed()
            assert led.writer is not None
            if any(item.verdict is not Verdict.TOUCH for item in told) or any(one.settled for one in refused):
                await led.writer.wait(deadline_ms - self._now_ms())
        except OncelogError as error:
            return [(item, error) for item in items]
        failed: Failed = [
            (one, NotOwnerError("the worker does not hold this record in this delivery")) for one in refused
        ]
        return failed + await self._letters_of(led, told, deadline_ms)

    async def _letters_of(self, led: LedChannel, told: Sequence[Settlement], deadline_ms: int) -> Failed:
        """Returns when the letters of all that was rejected are written and these records are settled durably, or why not."""
        rejected = [item for item in told if item.verdict is Verdict.REJECT]
        offsets = [
            offset
            for item in rejected
            for offset in range(item.first, item.last + 1)
            if led.delivery.is_burying(offset)
        ]
        if not offsets:
            return []
        try:
            await led.buried(offsets, deadline_ms - self._now_ms())
            assert led.writer is not None
            await led.writer.wait(deadline_ms - self._now_ms())
        except OncelogError as error:
            return [(item, error) for item in rejected]
        return []

    async def _settle_in_transaction(
        self,
        request: pb.SettleRequest,
        channel: Channel,
        items: Mapping[int, Sequence[Settlement]],
        deadline_ms: int,
    ) -> None:
        led = await asyncio.gather(*(self.open_one(channel, partition) for partition in items))
        entered = self._enter(request, led, items)
        for one, acks in zip(led, entered, strict=True):
            assert one.transactions is not None
            one.transactions.send(acks)
            one.changed()
        waits = [
            one.transactions.wait(acks, deadline_ms - self._now_ms())
            for one, acks in zip(led, entered, strict=True)
            if one.transactions is not None
        ]
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _enter(
        self, request: pb.SettleRequest, led: Sequence[LedChannel], items: Mapping[int, Sequence[Settlement]]
    ) -> list[Entered]:
        """Makes all records of all partitions IN_TXN, or none. Raises `NotOwnerError`, or why a leadership has ended."""
        entered: list[Entered] = []
        try:
            for one, settlements in zip(led, items.values(), strict=True):
                if one.ended is not None:
                    raise one.ended
                assert one.transactions is not None
                told = [item.in_epoch(one.place.leader_epoch) for item in settlements]
                entered.append(one.transactions.enter(request.worker_id, request.transaction, told))
        except OncelogError:
            for one, acks in zip(led, entered, strict=False):
                if one.ended is None and one.transactions is not None:
                    one.transactions.undo(acks)
                    one.changed()
            raise
        return entered

    # ------------------------------------------------------------ for all methods

    async def find(self, topic_id: str, name: str, channel_id: str, operation: TopicOperation) -> Channel:
        """Returns the channel that a request is about. Raises `UnknownTopicError`, `UnknownChannelError` and refusals, and
        `LeaderNotAvailableError` while this broker does not know the cluster's topics yet.
        """
        check_channel_name(name)
        require_listing(self._view)
        topic = self._view.topic_name(topic_id)
        if topic is None:
            raise UnknownTopicError("no such topic", topic_id=topic_id)
        require_access(topic, operation)
        return await self._host.find(topic_id, name, channel_id)

    async def open_one(self, channel: Channel, partition: int) -> LedChannel:
        """Returns the channel on one partition, once it is open. Raises the partition's error."""
        led = self._host.led(self._replicas.find(PartitionId(channel.topic_id, partition)), channel)
        if not led.is_open:
            await led.opened(OPEN_MS)
        return led

    def _now_ms(self) -> int:
        return self._host.around.clock.monotonic_ms()


def _add_failed(reply: pb.SettleReply, partition: int, failed: Failed) -> None:
    for item, error in failed:
        reply.errors.add(
            partition=partition,
            first_offset=item.first,
            last_offset=item.last,
            settled=isinstance(item, Refused) and item.settled,
            error=to_detail(error),
        )


def _peer() -> str:
    call = CALL.get()
    return call.peer if call is not None else ""
