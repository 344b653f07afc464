"""A broker that leads partitions of one topic, with channels: real logs, cores and shells; a coordinator of a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, cast

from oncelog.core.batch.batch import decode_batch, encode_batch, iter_batches
from oncelog.core.batch.header import BatchHeader, partition_tag, read_header
from oncelog.errors import FencedLeaderEpochError, InvalidRequestError, NetworkError, NotLeaderError, OncelogError
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import channel_pb2 as pb
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import AppendBatch, Written
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.channels.coordinator_calls import ChannelCoordinators
from oncelog_partition_leader.partition.channels.dead_letters import LetterWriter
from oncelog_partition_leader.partition.channels.doubts import Doubts
from oncelog_partition_leader.partition.channels.ephemeral import EphemeralChannels
from oncelog_partition_leader.partition.channels.host import ChannelHost
from oncelog_partition_leader.partition.channels.led_channel import LedChannel, Surroundings
from oncelog_partition_leader.partition.channels.reading.batch_cutting import Unpacked
from oncelog_partition_leader.partition.channels.wire_state import merged, settled_in
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.rpc.channels.channel_inspection import ChannelInspection
from oncelog_partition_leader.rpc.channels.channel_service import ChannelService
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.metadata.channel_values import START_EARLIEST, Channel, ChannelOptions
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Change, KeyValue, Listing
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.serving.admission import ADMISSION
from oncelog_runtime.serving.call_context import CALL
from oncelog_runtime.sim.world import SimWorld
from tests.unit.partition_leader.log_helpers import marker, write
from tests.unit.partition_leader.replica_host import ReplicaHost

TOPIC_ID = "0123456789abcdef0123456789abcdef"
LETTERS_ID = "f" * 32
ME = BrokerRef(1, 11)
NAME = "billing"
CHANNEL_ID = "c" * 32


class KeptState:
    """What the coordinator keeps of a channel on a partition."""

    def __init__(self) -> None:
        self.epoch = -1
        self.known = False
        self.write_no = 0
        self.settled_before = 0
        self.seeks = 0
        self.settled: set[int] = set()
        self.retried: dict[int, co.RetriedRecord] = {}
        self.pending: dict[tuple[int, int], set[int]] = {}
        self.written_epoch: int | None = None
        """None: the coordinator is of a version that does not note it."""

    def forgets(self, from_offset: int) -> None:
        self.settled_before = min(self.settled_before, from_offset)
        self.settled = {offset for offset in self.settled if offset < from_offset}
        self.retried = {offset: item for offset, item in self.retried.items() if offset < from_offset}
        self.pending = {name: {o for o in offsets if o < from_offset} for name, offsets in self.pending.items()}

    def settles(self, offsets: set[int]) -> None:
        self.settled |= offsets

    def is_settled(self, offset: int) -> bool:
        return offset < self.settled_before or offset in self.settled


class FakeCoordinator:
    """Keeps channels as the contract says, and remembers its calls. `plan`: what goes wrong with the next calls."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], KeptState] = {}
        self.calls: list[tuple[str, Any]] = []
        self.traces: list[str] = []
        """The context of each call."""
        self.before: list[OncelogError | None] = []
        """Errors of the next calls, which have done nothing."""
        self.after: list[OncelogError | None] = []
        """Errors of the next calls, which were carried out."""
        self.epoch = 7
        self.gate = asyncio.Event()
        self.gate.set()

    def of(self, partition: int = 0, channel_id: str = CHANNEL_ID) -> KeptState:
        return self.kept.setdefault((channel_id, partition), KeptState())

    def named(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def serve(self, method: str, request: Any) -> Any:
        self.calls.append((method, request))
        self.traces.append(TRACEPARENT.get())
        await self.gate.wait()
        if self.before and (error := self.before.pop(0)) is not None:
            raise error
        kept = self.of(request.partition, request.channel_id)
        if request.leader_epoch < kept.epoch:
            raise FencedLeaderEpochError(leader_epoch=request.leader_epoch, newest_epoch=kept.epoch)
        kept.epoch = request.leader_epoch
        reply = getattr(self, f"_{method}")(kept, request)
        if self.after and (error := self.after.pop(0)) is not None:
            raise error
        return reply

    def _open(self, kept: KeptState, request: co.OpenChannelPartitionRequest) -> co.OpenChannelPartitionReply:
        reply = co.OpenChannelPartitionReply(
            known=kept.known,
            settled_before=kept.settled_before,
            write_no=kept.write_no,
            seeks=kept.seeks,
            coordinator_epoch=self.epoch,
            written_epoch=kept.written_epoch,
        )
        for first in sorted({offset // 1024 * 1024 for offset in (*kept.settled, *kept.retried)}):
            if request.blocks and first not in request.blocks:
                continue
            bits = sum(1 << offset - first for offset in kept.settled if 0 <= offset - first < 1024)
            block = reply.blocks.add(first_offset=first, settled=bits.to_bytes(128, "little").rstrip(b"\0"))
            block.retried.extend(item for offset, item in sorted(kept.retried.items()) if 0 <= offset - first < 1024)
        for (producer_id, number), offsets in kept.pending.items():
            ranges = [co.OffsetRange(first_offset=offset, last_offset=offset) for offset in sorted(offsets)]
            reply.pending.add(txn_producer_id=producer_id, txn_no=number, acknowledged=ranges)
        return reply

    def _write(self, kept: KeptState, request: co.WriteChannelStateRequest) -> co.WriteChannelStateReply:
        if request.write_no > kept.write_no:
            if request.write_no != kept.write_no + 1:
                raise InvalidRequestError("a write is missing", write_no=request.write_no, known=kept.write_no)
            kept.known, kept.write_no = True, request.write_no
            if request.seek:
                kept.settled, kept.retried, kept.pending, kept.seeks = set(), {}, {}, kept.seeks + 1
            if request.HasField("forget_from") and kept.written_epoch is not None:
                kept.forgets(request.forget_from)
            else:
                kept.settled_before = max(request.settled_before, 0 if request.seek else kept.settled_before)
            if kept.written_epoch is not None:
                kept.written_epoch = request.leader_epoch
            kept.settles({o for item in request.settled for o in range(item.first_offset, item.last_offset + 1)})
            kept.retried |= {item.offset: item for item in request.retried}
        return co.WriteChannelStateReply(coordinator_epoch=self.epoch)

    def _acks(self, kept: KeptState, request: co.SendChannelAcksRequest) -> co.SendChannelAcksReply:
        if request.seeks != kept.seeks or not kept.known:
            raise InvalidRequestError("the channel was sought meanwhile, or nobody has said where it begins")
        name = request.name.txn_producer_id, request.name.txn_no
        offsets = {o for item in request.acknowledged for o in range(item.first_offset, item.last_offset + 1)}
        kept.pending.setdefault(name, set()).update(offsets)
        kept.known = True
        return co.SendChannelAcksReply(coordinator_epoch=self.epoch)

    def end(self, name: tuple[int, int], *, committed: bool, partition: int = 0) -> None:
        """The transaction's marker."""
        kept = self.of(partition)
        offsets = kept.pending.pop(name, set())
        if committed:
            kept.settles(offsets)


class FakeTransport:
    """Carries calls to the coordinator, and remembers those to brokers."""

    def __init__(self, coordinator: FakeCoordinator) -> None:
        self.coordinator = coordinator
        self.letters: list[tuple[BatchHeader, bytes]] = []
        self.produced: list[pa.ProduceRequest] = []
        self.refusals: list[OncelogError] = []
        self.answers: dict[str, Callable[[str, Any], Any]] = {}
        """Method -> what another broker answers to a request at an address."""
        self.asked: list[tuple[str, str, Any]] = []

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        await asyncio.sleep(0.001)
        if method == methods.PRODUCE.name:
            return self._produce(pa.ProduceRequest.FromString(header), bytes(payload)), b""
        if method in _COORDINATOR:
            name, kind = _COORDINATOR[method]
            reply = await self.coordinator.serve(name, kind.FromString(header))
            return reply.SerializeToString(), b""
        spec = next(spec for spec in (methods.DESCRIBE_CHANNEL, methods.DELETE_CHANNEL) if spec.name == method)
        request = spec.request.FromString(header)
        self.asked.append((address, method, request))
        if method not in self.answers:
            raise NetworkError("nobody is there")
        return self.answers[method](address, request).SerializeToString(), b""

    def _produce(self, request: pa.ProduceRequest, payload: bytes) -> bytes:
        if self.refusals:
            raise self.refusals.pop(0)
        self.produced.append(request)
        self.letters += [(header, bytes(data)) for header, data in iter_batches(payload)]
        item = request.partitions[0]
        reply = pa.ProduceReply()
        reply.partitions.add(topic_id=item.topic_id, partition=item.partition, base_offset=0)
        return reply.SerializeToString()

    async def close(self) -> None: ...


_COORDINATOR: dict[str, tuple[str, Any]] = {
    methods.OPEN_CHANNEL_PARTITION.name: ("open", co.OpenChannelPartitionRequest),
    methods.WRITE_CHANNEL_STATE.name: ("write", co.WriteChannelStateRequest),
    methods.SEND_CHANNEL_ACKS.name: ("acks", co.SendChannelAcksRequest),
}


class RoleHost(ReplicaHost):
    """The broker around the replicas: it tells the channels of roles."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world)
        self.role_changed: Callable[[PartitionId], None] = lambda _place: None

    def leadership_ended(self, leadership: Leadership) -> None:
        super().leadership_ended(leadership)
        self.role_changed(leadership.partition)


def channel(name: str = NAME, channel_id: str = CHANNEL_ID, *, start: int = START_EARLIEST, **options: Any) -> Channel:
    """A channel of the topic."""
    paused = options.pop("paused", False)
    return Channel(TOPIC_ID, name, channel_id, ChannelOptions(**options), paused, start)


class ChannelWorld:
    """See the module. `lead` begins a leadership; `put` makes or changes a channel."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.roles = RoleHost(world)
        self.clock = self.roles.clock
        self.coordinator = FakeCoordinator()
        self.transport = FakeTransport(self.coordinator)
        self.view = ClusterView()
        self.partitions: dict[PartitionId, LocalPartition] = {}
        self.faults: list[BaseException] = []
        self.is_cut_off = False
        self.tasks = TaskOwner(self.faults.append)
        bugs: Any = SimpleNamespace(met=lambda _where, error, _what="": self.faults.append(error))
        transport: Any = self.transport
        self.unpacked = Unpacked(self.roles.node.disk)
        self.around = Surroundings(
            self.clock,
            self.tasks,
            bugs,
            ChannelCoordinators(transport, self.view, 1_000),
            self.unpacked,
            LetterWriter(transport, self.view, self.clock, self.unpacked, 1_000),
            Doubts(self.clock, 1_000, lambda: self.is_cut_off),
        )
        self.ephemeral = EphemeralChannels(transport, self.view, self.around)
        self.host = ChannelHost(self.view, self.partitions, self.around, self.ephemeral)
        self.roles.role_changed = self.host.role_changed
        replicas: Any = SimpleNamespace(partitions=self.partitions, find=self.find)
        config = BrokerConfig(node_id=1)
        self.service = ChannelService(config, self.view, replicas, self.host)
        self.inspection = ChannelInspection(config, self.service, self.host)
        self._revision = 10
        self._list()

    def _list(self) -> None:
        owner = keys.ShardOwner("coordinator:1", "nonce", 7)
        broker = keys.Broker("broker-1:9092", "", "nonce")
        items = {
            keys.CLUSTER_KEY: keys.Cluster("cluster", 1, 1).encode(),
            f"{keys.TOPICS}orders": keys.Topic("orders", TOPIC_ID, 2, 1, {}).encode(),
            f"{keys.TOPICS}letters": keys.Topic("letters", LETTERS_ID, 1, 1, {}).encode(),
            keys.partition_key(LETTERS_ID, 0): keys.Partition("letters", (1,), BrokerRef(1, 5), 3, (ME,)).encode(),
            f"{keys.SHARDS}{keys.KIND_GROUP}/0/owner": owner.encode(),
            keys.broker_key(1): broker.encode(),
        }
        self.view.listed(Listing([KeyValue(key, value, 5) for key, value in items.items()], 5))

    def find(self, place: PartitionId) -> LocalPartition:
        if place not in self.partitions:
            raise NotLeaderError(partition=place.partition)
        return self.partitions[place]

    # ------------------------------------------------------------ what happens

    async def lead(self, partition: int = 0, epoch: int = 1, log: LogConfig | None = None) -> LocalPartition:
        """Opens a log if need be, and leads it alone."""
        place = PartitionId(TOPIC_ID, partition)
        found = self.partitions.get(place)
        if found is None:
            from oncelog_partition_leader.log.partition_log import PartitionLog

            directory = f"logs/orders-{TOPIC_ID}-{partition}"
            opened = await PartitionLog.open(self.roles.node.disk, directory, log or LogConfig())
            found = LocalPartition(cast(Any, self.roles), place, "orders", opened, TopicConfig(log=log or LogConfig()))
            self.partitions[place] = found
        found.lead(ME, keys.Partition("orders", (1,), ME, epoch, (ME,)), 5, 1)
        self.host.role_changed(place)
        return found

    def stop_leading(self, partition: int = 0) -> None:
        self.partitions[PartitionId(TOPIC_ID, partition)].stop_leading()

    def put(self, value: Channel) -> None:
        """Etcd says that there is this channel."""
        self._revision += 1
        self.view.change(Change(value.key, value.encode(), self._revision))

    def delete(self, value: Channel) -> None:
        self._revision += 1
        self.view.change(Change(value.key, None, self._revision))

    async def send(self, *values: bytes, partition: int = 0, keys_of: Sequence[bytes | None] | None = None) -> None:
        """Appends one batch, and returns when it is committed."""
        data = encode_batch(
            list(keys_of or [None] * len(values)),
            list(values),
            timestamps_ms=[self.clock.now_ms()] * len(values),
            topic_id=TOPIC_ID,
            partition=partition,
        )
        await self.append(data, partition)

    async def append(self, data: bytes, partition: int = 0) -> None:
        leadership = self.partitions[PartitionId(TOPIC_ID, partition)].leadership
        assert leadership is not None
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        deadline_ms = self.clock.monotonic_ms() + 1_000
        leadership.submit(AppendBatch(done, deadline_ms, -1, header=read_header(data), data=data, transactional_id=""))
        await done

    def write(self, *batches: bytes, partition: int = 0) -> None:
        """Writes into the log as a leader does, without judging; a later batch commits it."""
        found = self.partitions[PartitionId(TOPIC_ID, partition)]
        write(found.log, *batches, epoch=found.known_epoch)

    def led_partition(self, partition: int = 0) -> LocalPartition:
        return self.partitions[PartitionId(TOPIC_ID, partition)]

    @property
    def led(self) -> LedChannel:
        return self.host.shared[CHANNEL_ID].led[0]

    async def opened(self) -> LedChannel:
        await self.led.opened(10_000)
        return self.led

    # ------------------------------------------------------------ a worker

    async def receive(self, worker: str = "w1", **fields: Any) -> tuple[pb.ReceiveReply, bytes]:
        """One Receive of partition 0, unless `fields` say otherwise."""
        ADMISSION.set(None)
        CALL.set(None)
        asked: dict[str, Any] = {"partitions": [0], "max_in_flight": 10, "channel": NAME, **fields}
        request = pb.ReceiveRequest(topic_id=TOPIC_ID, worker_id=worker, **asked)
        reply, payload = await self.service.receive(request)
        return reply, bytes(payload)

    async def values(self, worker: str = "w1", **fields: Any) -> list[bytes | None]:
        """The values that one Receive brings."""
        return values_of(*await self.receive(worker, **fields))

    async def settle(self, worker: str, *items: pb.Settlement, **fields: Any) -> pb.SettleReply:
        request = pb.SettleRequest(topic_id=TOPIC_ID, channel=NAME, worker_id=worker, items=items, **fields)
        for item in request.items:  # one that names no epoch is about what the present leader delivered
            partition = self.partitions.get(PartitionId(TOPIC_ID, item.partition))
            item.leader_epoch = item.leader_epoch or (partition.known_epoch if partition is not None else 0)
        reply, _ = await self.service.settle(request)
        return reply


def said(
    first: int, last: int = -1, *, verdict: Any = pb.VERDICT_ACK, delivery: int = 1, **fields: Any
) -> pb.Settlement:
    """One settlement."""
    return pb.Settlement(first_offset=first, last_offset=max(first, last), delivery=delivery, verdict=verdict, **fields)


def records_of(reply: pb.ReceiveReply, payload: bytes) -> list[tuple[int, bytes | None]]:
    """(offset, value) of the worker's own records."""
    found, position, batch = [], 0, b""
    for item in reply.records:
        if item.length:
            batch, position = payload[position : position + item.length], position + item.length
        rows = decode_batch(batch)
        found += [(row.offset, row.value) for row in rows if item.first_offset <= row.offset <= item.last_offset]
    assert position == len(payload), "every byte belongs to a record"
    return found


def values_of(reply: pb.ReceiveReply, payload: bytes) -> list[bytes | None]:
    """The values of the worker's own records."""
    return [value for _, value in records_of(reply, payload)]


Scenario = Callable[[ChannelWorld], Coroutine[Any, Any, None]]


def play(scenario: Scenario, seed: int | str = 0) -> None:
    """Runs a scenario, and checks that nothing broke and every core is whole."""
    with SimWorld(seed) as world:

        async def main() -> None:
            channels = ChannelWorld(world)
            await scenario(channels)
            for shared in channels.host.shared.values():
                for led in shared.led.values():
                    if led.is_open:
                        led.delivery.check()
            assert channels.faults == []
            await channels.tasks.stop()

        world.run(main())


__all__ = ["marker", "merged", "partition_tag", "settled_in"]
