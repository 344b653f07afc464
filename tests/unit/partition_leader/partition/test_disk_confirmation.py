"""A log is shown to be on disk at every in-sync replica, or the asker hears to come again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.core.batch.header import read_header
from oncelog.errors import (
    FencedLeaderEpochError,
    InvalidRequestError,
    LeaderNotAvailableError,
    OncelogError,
    StaleBrokerEpochError,
    StorageError,
    UnknownTopicError,
)
from oncelog.types import BrokerRef, Buffer
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail, to_detail
from oncelog_partition_leader.partition.disk_confirmation import DiskConfirmation, sync_replica
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import Partition
from oncelog_runtime.process.tasks import TaskOwner
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import FakeTransport
from tests.unit.partition_leader.log_helpers import NOW_MS, batch
from tests.unit.partition_leader.replica_host import ME, PLACE, ReplicaHost


def test_a_fault_in_a_question_to_a_follower_keeps_nobody_waiting() -> None:
    async def scenario() -> None:
        met: list[BaseException] = []
        view: Any = SimpleNamespace(address_of=lambda _broker_id: 1 // 0)
        no_transport: Any = None
        disks = DiskConfirmation(no_transport, view, lambda: BrokerRef(0, 1), TaskOwner(met.append), 100)
        for _ in range(2):
            with pytest.raises(LeaderNotAvailableError):
                await disks._ask(BrokerRef(1, 1), pb.SyncPartition())
        await asyncio.sleep(0)
        assert len(met) == 2, "the owner of the task hears of each"

    asyncio.run(asyncio.wait_for(scenario(), 5))


class Leading:
    """A leader with followers 2 and 3 in the ISR. `answers`: what each says, an error or nothing."""

    def __init__(self, host: ReplicaHost, replica: LocalPartition) -> None:
        self.replica = replica
        self.transport = FakeTransport()
        self.calls: list[tuple[int, int]] = []
        self.answers: dict[int, list[OncelogError | None]] = {2: [], 3: []}
        self.slow_s = 0.0
        self.addresses = {2: "b2", 3: "b3"}
        for broker_id, address in self.addresses.items():
            self.transport.serve(address, methods.SYNC_REPLICA, self._follower(broker_id))
        view: Any = SimpleNamespace(address_of=self.addresses.get)
        self.disks = DiskConfirmation(self.transport, view, lambda: ME, host.tasks, 1_000)
        replica.lead(ME, Partition("orders", (1, 2, 3), ME, 4, (ME, BrokerRef(2, 12), BrokerRef(3, 13))), 5, 2)
        assert replica.leadership is not None

    def _follower(self, broker_id: int) -> Any:
        async def sync(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            self.calls.append((broker_id, len(request.partitions)))
            await asyncio.sleep(self.slow_s)
            reply = pb.SyncReplicaReply()
            for item in request.partitions:
                answer = reply.partitions.add(topic_id=item.topic_id, partition=item.partition)
                said = self.answers[broker_id].pop(0) if self.answers[broker_id] else None
                if said is not None:
                    answer.error.CopyFrom(to_detail(said))
            return reply, b""

        return sync

    def write(self, count: int = 1) -> int:
        data = batch(-1, -1, epoch=-1)
        self.replica.log.append_as_leader([(read_header(data), data)] * count, 4, NOW_MS)
        return self.replica.log.log_end_offset


def run(scenario: Callable[[Leading], Awaitable[None]]) -> None:
    with SimWorld(4) as world:
        host = ReplicaHost(world)

        async def whole() -> None:
            replica = await host.replica()
            await scenario(Leading(host, replica))
            await replica.close(clean=True)

        world.run(whole())


def test_everybody_in_the_isr_is_asked_and_the_leader_syncs_too() -> None:
    async def scenario(leading: Leading) -> None:
        end = leading.write()
        await leading.disks.confirm(leading.replica, end)
        assert sorted(leading.calls) == [(2, 1), (3, 1)]
        assert leading.replica.log.synced_end_offset == end

    run(scenario)


def test_one_call_per_follower_at_a_time_with_everything_that_waits() -> None:
    async def scenario(leading: Leading) -> None:
        end, leading.slow_s = leading.write(), 0.5
        waiting = [asyncio.ensure_future(leading.disks.confirm(leading.replica, end))]
        await asyncio.sleep(0.1)
        waiting += [asyncio.ensure_future(leading.disks.confirm(leading.replica, end)) for _ in range(5)]
        await asyncio.gather(*waiting)
        assert sorted(leading.calls) == [(2, 1), (2, 5), (3, 1), (3, 5)]

    run(scenario)


def test_one_follower_that_cannot_show_it_is_enough_to_refuse() -> None:
    async def scenario(leading: Leading) -> None:
        end = leading.write()
        leading.answers[3] = [StorageError("broken", reason="io")]
        with pytest.raises(StorageError):
            await leading.disks.confirm(leading.replica, end)
        await leading.disks.confirm(leading.replica, end)

    run(scenario)


def test_a_member_that_is_not_registered_cannot_be_asked() -> None:
    async def scenario(leading: Leading) -> None:
        del leading.addresses[3]
        with pytest.raises(LeaderNotAvailableError):
            await leading.disks.confirm(leading.replica, leading.write())

    run(scenario)


def test_a_follower_of_an_older_version_counts_as_it_did_then() -> None:
    async def scenario(leading: Leading) -> None:
        async def unknown(_request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            raise InvalidRequestError("this server has no method SyncReplica")

        leading.transport.serve("b2", methods.SYNC_REPLICA, unknown)
        await leading.disks.confirm(leading.replica, leading.write())

    run(scenario)


def test_who_leads_no_more_confirms_nothing() -> None:
    async def scenario(leading: Leading) -> None:
        end, leading.slow_s = leading.write(), 0.5
        waiting = asyncio.ensure_future(leading.disks.confirm(leading.replica, end))
        await asyncio.sleep(0.1)
        leading.replica.saw_epoch(5)
        with pytest.raises(OncelogError) as refusal:
            await waiting
        assert refusal.value.retriable

    run(scenario)


# ---------------------------------------------------------------- the follower's side


def asked(epoch: int = 4, end: int = 0, *, partition: int = 3, incarnation: int = ME.incarnation) -> Any:
    item = pb.SyncPartition(topic_id=PLACE.topic_id, partition=partition, leader_epoch=epoch, end_offset=end)
    ref = types_pb2.BrokerRef(broker_id=ME.broker_id, incarnation=incarnation)
    return pb.SyncReplicaRequest(follower=ref, partitions=[item])


async def answered(leading: Leading, request: Any) -> OncelogError | None:
    reply = await sync_replica({PLACE: leading.replica}, ME, request)
    (answer,) = reply.partitions
    return from_detail(answer.error) if answer.HasField("error") else None


def test_a_follower_answers_when_it_holds_it_on_disk() -> None:
    async def scenario(leading: Leading) -> None:
        end = leading.write()
        assert await answered(leading, asked(end=end)) is None
        assert leading.replica.log.synced_end_offset == end

    run(scenario)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epoch": 3}, FencedLeaderEpochError),
        ({"epoch": 5}, FencedLeaderEpochError),
        ({"end": 2}, LeaderNotAvailableError),
        ({"partition": 9}, UnknownTopicError),
    ],
)
def test_a_follower_that_does_not_hold_it_for_this_leader_says_so(
    change: dict[str, int], error: type[OncelogError]
) -> None:
    async def scenario(leading: Leading) -> None:
        leading.write()
        assert isinstance(await answered(leading, asked(**{"end": 1, **change})), error)

    run(scenario)


def test_another_incarnation_holds_another_log() -> None:
    async def scenario(leading: Leading) -> None:
        with pytest.raises(StaleBrokerEpochError):
            await answered(leading, asked(incarnation=ME.incarnation - 1))

    run(scenario)


def test_a_failed_log_confirms_nothing() -> None:
    async def scenario(leading: Leading) -> None:
        leading.replica.fail(StorageError("broken", reason="io"))
        assert isinstance(await answered(leading, asked()), StorageError)

    run(scenario)
