"""The channels of the scripted cluster: small and strict. It refuses what a worker may not do, and keeps what it was told.

Rule: the leader here never lets a worker hold more than its `max_in_flight`, and `most_held` has the most records that a
        worker held of all brokers together, so a worker that asks for too much is caught.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from oncelog import errors
from oncelog.core.batch import header as hd
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import PartitionId
from oncelog.v1 import channel_pb2 as ch
from oncelog.wire.wire_errors import to_detail
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster

CHANNEL, CHANNEL_ID = "billing", "c1" * 16
DEFAULTS = ch.ChannelOptions(
    ack_wait_ms=30_000,
    max_deliveries=0,
    dead_letter_topic="",
    retry_backoff_ms=0,
    retry_backoff_max_ms=600_000,
    order_by_key=False,
    ephemeral=False,
    max_unsettled=100_000,
)


@dataclass(slots=True)
class Entry:
    """A record that was looked at and is not settled. `worker` empty: nobody has it."""

    worker: str = ""
    deliveries: int = 0
    deadline_s: float = 0.0
    not_before_s: float = 0.0
    delivered_s: float = 0.0
    txn_no: int = 0
    trouble: str = ""
    """It is dead, and this keeps its letter from being written."""


@dataclass(slots=True)
class Part:
    """One partition of the channel."""

    next_offset: int = 0
    entries: dict[int, Entry] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    dead: dict[int, str] = field(default_factory=dict)


class FakeChannels:
    """Answers for the channels of this cluster. There is one channel at most, `channel`."""

    def __init__(self, cluster: FakeCluster, is_there: bool = False, **options: Any) -> None:
        self.cluster = cluster
        self.channel: ch.Channel | None = None
        self.parts: dict[int, Part] = defaultdict(Part)
        self.settlements: list[ch.SettleRequest] = []
        self.traces: list[str] = []
        """The context in which each settlement was sent."""
        self.receives: list[tuple[str, ch.ReceiveRequest]] = []
        self.grants: dict[tuple[str, str], int] = {}  # (worker, broker) -> what it may hold there
        self.most_held = 0
        self.most_granted = 0
        self.left: list[str] = []
        self.unaware: set[str] = set()  # brokers that have not heard of the channel
        self.versions = 0
        self.letters = asyncio.Event()
        """Rejections are answered when it is set: as if their dead letters were written then."""
        self.letters.set()
        self.no_letters: errors.OncelogError | None = None
        """Why no dead letter can be written."""
        for method in (
            "CreateChannel",
            "AlterChannel",
            "DeleteChannel",
            "ListChannels",
            "Receive",
            "Settle",
            "Claim",
            "DescribeChannel",
            "SeekChannel",
        ):
            setattr(cluster, f"_{method}", getattr(self, f"_{method}"))
        if is_there:
            self.make(**options)

    # ------------------------------------------------------------ for tests

    def make(self, name: str = CHANNEL, **options: Any) -> None:
        """The channel is there."""
        self.versions += 1
        whole = ch.ChannelOptions()
        whole.CopyFrom(DEFAULTS)
        whole.MergeFrom(ch.ChannelOptions(**options))
        channel_id = f"{int(CHANNEL_ID, 16) + self.versions - 1:032x}"
        self.channel = ch.Channel(
            topic=TOPIC,
            topic_id=self.cluster.topic_id,
            channel=name,
            channel_id=channel_id,
            options=whole,
            start_timestamp_ms=-2,
            created_ms=5,
        )

    def settled(self, partition: int = 0) -> list[int]:
        """The offsets that are settled."""
        return sorted(self.parts[partition].settled)

    def in_flight(self, partition: int = 0) -> list[int]:
        """The offsets that a worker has."""
        return sorted(offset for offset, entry in self.parts[partition].entries.items() if entry.worker)

    def fail_over(self, partition: int, address: str | None) -> None:
        """Another broker leads: what was in flight is available again."""
        self.cluster.leaders[partition] = address
        self.cluster.epochs[partition] += 1
        self.cluster.revision += 1
        for entry in self.parts[partition].entries.values():
            entry.worker = ""

    def end_transaction(self, txn_no: int, is_committed: bool) -> None:
        """The marker of a transaction has come."""
        for part in self.parts.values():
            for offset, entry in [*part.entries.items()]:
                if entry.txn_no == txn_no:
                    entry.txn_no = 0
                    if is_committed:
                        self._settle_one(part, offset)

    # ------------------------------------------------------------ the channel itself

    async def _CreateChannel(self, address: str, request: ch.CreateChannelRequest, _: bytes) -> tuple[Any, bytes]:
        if self.channel is not None:
            if not request.if_not_exists:
                raise errors.ChannelExistsError()
            return ch.CreateChannelReply(channel=self.channel), b""
        given = {field.name: value for field, value in request.options.ListFields()}
        self.make(request.channel, **given)
        assert self.channel is not None
        self.channel.start_timestamp_ms = request.start_timestamp_ms
        return ch.CreateChannelReply(channel=self.channel, created=True), b""

    async def _AlterChannel(self, address: str, request: ch.AlterChannelRequest, _: bytes) -> tuple[Any, bytes]:
        channel = self._named(request.channel)
        before = channel.SerializeToString()
        channel.options.MergeFrom(request.options)
        if request.HasField("paused"):
            channel.paused = request.paused
        return ch.AlterChannelReply(channel=channel, changed=channel.SerializeToString() != before), b""

    async def _DeleteChannel(self, address: str, request: ch.DeleteChannelRequest, _: bytes) -> tuple[Any, bytes]:
        channel = self._named(request.channel)
        self.channel = None
        return ch.DeleteChannelReply(channel_id=channel.channel_id), b""

    async def _ListChannels(self, address: str, request: ch.ListChannelsRequest, _: bytes) -> tuple[Any, bytes]:
        is_wanted = not request.topics or TOPIC in request.topics
        channels = [self.channel] if self.channel is not None and is_wanted and address not in self.unaware else []
        return ch.ListChannelsReply(channels=channels), b""

    def _named(self, name: str, channel_id: str = "") -> ch.Channel:
        channel = self.channel
        if channel is None or channel.channel != name or channel_id not in ("", channel.channel_id):
            raise errors.UnknownChannelError()
        return channel

    # ------------------------------------------------------------ work

    async def _Receive(self, address: str, request: ch.ReceiveRequest, _: bytes) -> tuple[Any, bytes]:
        self.receives.append((address, request))
        now = asyncio.get_running_loop().time
        came_s = now()
        until_s = came_s + request.max_wait_ms / 1000
        self.grants[request.worker_id, address] = request.max_in_flight
        self._note_grants(request.worker_id)
        try:
            while True:
                if address in self.unaware:
                    raise errors.UnknownChannelError()
                reply, payload = self._give(address, request)
                if reply.records or reply.errors or now() >= until_s or self._is_replaced(address, request):
                    reply.waited_ms = int((now() - came_s) * 1000)
                    return reply, payload
                await asyncio.sleep(0.002)
        finally:
            self.grants.pop((request.worker_id, address), None)

    def _is_replaced(self, address: str, request: ch.ReceiveRequest) -> bool:
        """A newer request of the worker names one of the partitions."""
        at = next(i for i, (_, known) in enumerate(self.receives) if known is request)
        return any(
            broker == address
            and newer.worker_id == request.worker_id
            and not {*newer.partitions}.isdisjoint(request.partitions)
            for broker, newer in self.receives[at + 1 :]
        )

    def _note_grants(self, worker: str) -> None:
        brokers = {address for name, address in self.grants if name == worker} | {*self.cluster.leaders.values()}
        total = sum(
            max(self.grants.get((worker, broker), 0), self._held(worker, broker))
            for broker in brokers
            if broker is not None
        )
        self.most_granted = max(self.most_granted, total)

    def _held(self, worker: str, address: str) -> int:
        parts = [number for number, leader in self.cluster.leaders.items() if leader == address]
        return sum(e.worker == worker and not e.txn_no for n in parts for e in self.parts[n].entries.values())

    def _give(self, address: str, request: ch.ReceiveRequest) -> tuple[ch.ReceiveReply, bytes]:
        channel = self._named(request.channel, request.channel_id)
        reply, chosen = ch.ReceiveReply(), b""
        room = request.max_in_flight - self._held(request.worker_id, address)
        for number in request.partitions:
            if self.cluster.leaders[number] != address:
                refused = reply.errors.add(error=to_detail(errors.NotLeaderError()))
                refused.partition.topic_id, refused.partition.partition = request.topic_id, number
                continue
            offsets = [] if channel.paused else self._available(number)[: max(room, 0)]
            room -= len(offsets)
            chosen += self._deliver(number, offsets, request.worker_id, reply)
        held = sum(e.worker == request.worker_id for part in self.parts.values() for e in part.entries.values())
        self.most_held = max(self.most_held, held)
        return reply, chosen

    def _deliver(self, number: int, offsets: list[int], worker: str, reply: ch.ReceiveReply) -> bytes:
        assert self.channel is not None
        now_s, wait_ms = asyncio.get_running_loop().time(), self.channel.options.ack_wait_ms
        sent: list[bytes] = []
        for offset in offsets:
            entry = self.parts[number].entries[offset]
            entry.worker, entry.delivered_s, entry.deadline_s = worker, now_s, now_s + wait_ms / 1000
            entry.deliveries += 1
            batch = self._batch_of(number, offset)
            is_new = batch not in sent
            if is_new:
                sent.append(batch)
            last = reply.records[-1] if reply.records and not is_new else None
            if last is not None and (last.last_offset + 1, last.delivery) == (offset, entry.deliveries):
                last.last_offset = offset
                continue
            reply.records.add(
                partition=number,
                first_offset=offset,
                last_offset=offset,
                delivery=entry.deliveries,
                ack_wait_ms=wait_ms,
                length=len(batch) if is_new else 0,
                leader_epoch=self.cluster.epochs[number],
            )
        return b"".join(sent)

    def _batch_of(self, number: int, offset: int) -> bytes:
        log = self.cluster.logs[PartitionId(self.cluster.topic_id, number)]
        for batch in log.batches:
            header = hd.read_header(batch)
            if header.base_offset <= offset < header.next_offset:
                return batch
        raise AssertionError("no such record")

    def _available(self, number: int) -> list[int]:
        part, now_s = self.parts[number], asyncio.get_running_loop().time()
        end = self.cluster.logs[PartitionId(self.cluster.topic_id, number)].end
        for offset in range(part.next_offset, end):
            part.entries[offset] = Entry()
        part.next_offset = max(part.next_offset, end)
        for entry in part.entries.values():
            if entry.worker and entry.deadline_s <= now_s and not entry.txn_no:
                entry.worker = ""
        return [
            offset
            for offset, entry in sorted(part.entries.items())
            if not entry.worker and not entry.txn_no and entry.not_before_s <= now_s
        ]

    async def _Settle(self, address: str, request: ch.SettleRequest, _: bytes) -> tuple[Any, bytes]:
        self._named(request.channel, request.channel_id)
        self.settlements.append(request)
        self.traces.append(TRACEPARENT.get())
        if not request.items and not request.leaves:
            raise errors.InvalidRequestError("nothing to settle")
        reply = ch.SettleReply()
        if any(item.verdict == ch.VERDICT_REJECT for item in request.items):
            await self.letters.wait()
        if request.HasField("transaction"):
            self._enter(address, request, reply)
        else:
            for item in request.items:
                self._settle_item(address, request.worker_id, item, reply)
        if request.leaves:
            self.left.append(request.worker_id)
            self._leave(address, request.worker_id)
        return reply, b""

    def _leave(self, address: str, worker: str) -> None:
        for number, leader in self.cluster.leaders.items():
            for entry in self.parts[number].entries.values():
                if leader == address and entry.worker == worker and not entry.txn_no:
                    entry.worker, entry.deliveries = "", entry.deliveries - 1

    def _enter(self, address: str, request: ch.SettleRequest, reply: ch.SettleReply) -> None:
        """All or nothing."""
        for item in request.items:
            assert item.verdict == ch.VERDICT_ACK
            for offset in range(item.first_offset, item.last_offset + 1):
                self._refused(address, request.worker_id, item, offset, reply)
        for item in request.items if not reply.errors else ():
            for offset in range(item.first_offset, item.last_offset + 1):
                self.parts[item.partition].entries[offset].txn_no = request.transaction.txn_no

    def _refused(self, address: str, worker: str, item: ch.Settlement, offset: int, reply: ch.SettleReply) -> bool:
        part = self.parts[item.partition]
        error: errors.OncelogError | None = None
        entry = part.entries.get(offset)
        if self.cluster.leaders[item.partition] != address:
            error = errors.NotLeaderError()
        elif (
            entry is None
            or entry.worker != worker
            or (entry.deliveries, self.cluster.epochs[item.partition]) != (item.delivery, item.leader_epoch)
        ):
            error = errors.NotOwnerError()
        if error is not None:
            reply.errors.add(
                partition=item.partition,
                first_offset=offset,
                last_offset=offset,
                settled=offset in part.settled,
                error=to_detail(error),
            )
        return error is not None

    def _settle_item(self, address: str, worker: str, item: ch.Settlement, reply: ch.SettleReply) -> None:
        now_s, part = asyncio.get_running_loop().time(), self.parts[item.partition]
        for offset in range(item.first_offset, item.last_offset + 1):
            if self._refused(address, worker, item, offset, reply):
                continue
            entry = part.entries[offset]
            if item.verdict == ch.VERDICT_REJECT and self.no_letters is not None:
                refused = {"partition": item.partition, "first_offset": offset, "last_offset": offset}
                reply.errors.add(**refused, error=to_detail(self.no_letters))
            elif item.verdict == ch.VERDICT_TOUCH:
                assert self.channel is not None
                entry.deadline_s = now_s + self.channel.options.ack_wait_ms / 1000
            elif item.verdict in (ch.VERDICT_NACK, ch.VERDICT_RELEASE):
                entry.worker, entry.not_before_s = "", now_s + max(item.delay_ms, 0) / 1000
                entry.deliveries -= item.verdict == ch.VERDICT_RELEASE
            else:
                if item.verdict == ch.VERDICT_REJECT:
                    part.dead[offset] = item.reason
                self._settle_one(part, offset)

    @staticmethod
    def _settle_one(part: Part, offset: int) -> None:
        del part.entries[offset]
        part.settled.add(offset)

    async def _Claim(self, address: str, request: ch.ClaimRequest, _: bytes) -> tuple[Any, bytes]:
        self._named(request.channel, request.channel_id)
        now_s, part = asyncio.get_running_loop().time(), self.parts[request.partition]
        if self.cluster.leaders[request.partition] != address:
            raise errors.NotLeaderError()
        chosen: Iterable[int] = request.offsets or [o for o in sorted(part.entries) if o >= request.from_offset]
        offsets = [
            offset
            for offset in chosen
            if offset in part.entries
            and part.entries[offset].worker
            and (now_s - part.entries[offset].delivered_s) * 1000 >= request.min_idle_ms
        ]
        reply = ch.ReceiveReply()
        payload = self._deliver(request.partition, offsets[: request.max_records or 100], request.worker_id, reply)
        if request.names_only:
            for item in reply.records:
                item.length = 0
            return reply, b""
        return reply, payload

    # ------------------------------------------------------------ looking

    async def _DescribeChannel(self, address: str, request: ch.DescribeChannelRequest, _: bytes) -> tuple[Any, bytes]:
        self._named(request.channel)
        reply = ch.DescribeChannelReply()
        for number in request.partitions:
            found = reply.partitions.add(partition=number)
            if self.cluster.leaders[number] != address:
                found.error.CopyFrom(to_detail(errors.NotLeaderError()))
                continue
            self._describe(number, request, found)
        return reply, b""

    def _describe(self, number: int, request: ch.DescribeChannelRequest, found: ch.ChannelPartition) -> None:
        now_s, part = asyncio.get_running_loop().time(), self.parts[number]
        self._available(number)
        found.leader_epoch = self.cluster.epochs[number]
        found.settled_before = min(part.entries, default=part.next_offset)
        found.end_offset = part.next_offset
        found.depth = len(part.entries)
        held = {offset: entry for offset, entry in sorted(part.entries.items()) if entry.worker}
        found.in_flight = len(held)
        found.delivered = sum(entry.deliveries for entry in part.entries.values()) + len(part.settled)
        found.redelivered = sum(max(0, entry.deliveries - 1) for entry in part.entries.values())
        found.acknowledged, found.dead = len(part.settled) - len(part.dead), len(part.dead)
        for name in sorted({entry.worker for entry in held.values()}):
            found.workers.add(worker_id=name, client="here", in_flight=sum(e.worker == name for e in held.values()))
        for offset, entry in sorted(part.entries.items()):
            if not (entry.worker or entry.trouble):
                continue
            idle_ms = int((now_s - entry.delivered_s) * 1000)
            is_wanted = offset >= request.from_offset and request.worker_id in ("", entry.worker)
            if is_wanted and idle_ms >= request.min_idle_ms and len(found.pending) < request.max_pending:
                found.pending.add(
                    offset=offset,
                    worker_id=entry.worker,
                    idle_ms=idle_ms,
                    deliveries=entry.deliveries,
                    due_ms=int((entry.deadline_s - now_s) * 1000),
                    dead=bool(entry.trouble),
                    trouble=entry.trouble,
                )

    async def _SeekChannel(self, address: str, request: ch.SeekChannelRequest, _: bytes) -> tuple[Any, bytes]:
        self._named(request.channel, request.channel_id)
        if self.cluster.leaders[request.partition] != address:
            raise errors.NotLeaderError()
        end = self.cluster.logs[PartitionId(self.cluster.topic_id, request.partition)].end
        offset = {-1: end, -2: 0}.get(request.offset, request.offset)
        self.parts[request.partition] = Part(next_offset=offset, settled=set(range(offset)))
        return ch.SeekChannelReply(offset=offset), b""
