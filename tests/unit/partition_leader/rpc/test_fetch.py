"""What a fetch may take of the memory for answers, how often its partitions are looked at, and what it may not ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.errors import InvalidRequestError, ResourceExhaustedError
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log.tail_cache import TailCache
from oncelog_partition_leader.partition.long_poll import Ear
from oncelog_partition_leader.rpc.fetch import Reader
from oncelog_runtime.core.budget import Budget
from oncelog_runtime.serving.admission import ADMISSION, Admission
from tests.unit.partition_leader.log_helpers import plain

TOPIC = "0" * 32
BATCH_BYTES = len(plain(b"x" * 880))


class Log:
    """Batches of `BATCH_BYTES` bytes with one record each; counts how often somebody looks."""

    def __init__(self, batches: int) -> None:
        self.cache = TailCache(1 << 30)
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.looks = 0
        self.failed = None
        for _ in range(batches):
            self.append()

    def append(self) -> None:
        header: BatchHeader = read_header(plain(b"x" * 880))
        assert header.last_offset_delta == 0
        data = bytearray(plain(b"x" * 880))
        data[:8] = self.log_end_offset.to_bytes(8, "little")
        self.cache.push(self.log_end_offset, self.log_end_offset + 1, bytes(data))
        self.log_end_offset += 1

    def last_stable_offset(self, high_watermark: int) -> int:
        self.looks += 1
        return high_watermark

    def read(self, offset: int, max_bytes: int, end_offset: int, room: int | None = None) -> Buffer:
        return self.cache.read(offset, max_bytes, end_offset, room)

    def aborted_between(self, _start: int, _end: int) -> list[Any]:
        return []


class Partition:
    """A led partition over such a log."""

    def __init__(self, batches: int) -> None:
        self.log = Log(batches)
        self.topic = "orders"
        self.epoch = 1
        self.replicas = SimpleNamespace(watermark_is_known=True)
        self.ears: dict[Ear, None] = {}
        self.leadership: Partition | None = self

    def require_leadership(self, _epoch: int) -> Partition:
        return self

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset

    def watch(self, ear: Ear) -> None:
        self.ears[ear] = None

    def unwatch(self, ear: Ear) -> None:
        self.ears.pop(ear, None)

    def append(self) -> None:
        self.log.append()
        ears, self.ears = self.ears, {}
        for ear in ears:
            ear.wake()


class World:
    """A reader over some partitions, and the budget of one connection."""

    def __init__(self, partitions: int, batches: int, budget_bytes: int = 1 << 30, reply_bytes: int = 16 << 20) -> None:
        self.partitions = [Partition(batches) for _ in range(partitions)]
        by_id = {PartitionId(TOPIC, number): partition for number, partition in enumerate(self.partitions)}
        self.observed: list[tuple[str, int, int, bool]] = []
        observer = SimpleNamespace(fetched=lambda *event, by_follower: self.observed.append((*event, by_follower)))
        replicas = SimpleNamespace(partitions=by_id, find=by_id.__getitem__)
        clock = SimpleNamespace(monotonic_ms=lambda: int(asyncio.get_running_loop().time() * 1000))
        config = BrokerConfig(fetch_partitions_max=2_000, fetch_reply_bytes=reply_bytes)
        self.reader = Reader(config, cast(Any, clock), cast(Any, replicas), cast(Any, observer))
        self.process = Budget("process", budget_bytes)
        self.connection = self.process.child("connection", budget_bytes)

    async def fetch(self, count: int | None = None, *, offset: int = 0, wait_ms: int = 0, min_bytes: int = 1) -> Any:
        admission = Admission(self.connection)
        ADMISSION.set(admission)
        request = pb.FetchRequest(
            isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED, max_wait_ms=wait_ms, min_bytes=min_bytes
        )
        for number in range(len(self.partitions) if count is None else count):
            request.partitions.add(topic_id=TOPIC, partition=number, fetch_offset=offset, leader_epoch=-1)
        reply, payload = await self.reader.fetch(request)
        return [answer.length // BATCH_BYTES for answer in reply.partitions], len(payload), admission


@pytest.fixture(autouse=True)
def _no_admission_outside() -> Iterator[None]:
    token = ADMISSION.set(None)
    yield
    ADMISSION.reset(token)


def test_an_answer_is_paid_for_until_it_has_left() -> None:
    async def test() -> None:
        world = World(partitions=2, batches=3)
        batches, size, admission = await world.fetch()
        assert batches == [3, 3]
        assert world.process.taken_bytes == admission.held_bytes == size
        admission.close()
        assert world.process.is_idle

    asyncio.run(test())


def test_with_little_room_an_answer_has_fewer_batches_and_partitions() -> None:
    async def test() -> None:
        world = World(partitions=3, batches=3, budget_bytes=4 * BATCH_BYTES + 10)
        batches, size, _ = await world.fetch()
        assert batches == [3, 1, 0]
        assert size == world.process.taken_bytes == 4 * BATCH_BYTES

    asyncio.run(test())


def test_without_room_a_fetch_waits_its_turn_and_then_makes_progress() -> None:
    async def test() -> None:
        world = World(partitions=1, batches=3, budget_bytes=2 * BATCH_BYTES)
        _, _, first = await world.fetch()
        second = asyncio.ensure_future(world.fetch(wait_ms=5_000))
        await asyncio.sleep(0.01)
        assert not second.done()
        first.close()
        batches, _, admission = await second
        assert batches == [2]
        admission.close()
        assert world.process.is_idle

    asyncio.run(test())


def test_a_turn_that_does_not_come_in_time_is_a_named_refusal_and_holds_nothing() -> None:
    async def test() -> None:
        world = World(partitions=1, batches=3, budget_bytes=BATCH_BYTES)
        _, _, first = await world.fetch()
        with pytest.raises(ResourceExhaustedError) as refusal:
            await world.fetch(wait_ms=20)
        assert refusal.value.retry_after_ms > 0
        assert world.process.taken_bytes == BATCH_BYTES
        first.close()
        assert world.process.is_idle

    asyncio.run(test())


def test_a_long_poll_holds_nothing_while_it_waits() -> None:
    async def test() -> None:
        world = World(partitions=2, batches=1)
        polling = asyncio.ensure_future(world.fetch(wait_ms=5_000, min_bytes=10 * BATCH_BYTES))
        await asyncio.sleep(0.01)
        assert world.process.is_idle
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        assert all(not partition.ears for partition in world.partitions)

    asyncio.run(test())


def test_a_fetch_that_wants_more_than_an_answer_may_hold_is_answered_when_that_is_full() -> None:
    """Else it waits for the whole long poll, and its data is read again with each append."""

    async def test() -> None:
        world = World(partitions=1, batches=5, reply_bytes=3 * BATCH_BYTES + 10)
        polling = asyncio.ensure_future(world.fetch(wait_ms=60_000, min_bytes=4 * BATCH_BYTES))
        batches, _, _ = await asyncio.wait_for(polling, 5)
        assert batches == [3]

    asyncio.run(test())


def test_a_wake_up_looks_at_the_partitions_that_moved_and_not_at_all_of_them() -> None:
    async def test() -> None:
        world = World(partitions=1_000, batches=1)
        polling = asyncio.ensure_future(world.fetch(offset=1, wait_ms=5_000))
        await asyncio.sleep(0.05)
        before = sum(partition.log.looks for partition in world.partitions)
        for _ in range(50):  # something moved, and nothing is new for this reader
            ears, world.partitions[7].ears = world.partitions[7].ears, {}
            for ear in ears:
                ear.wake()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not polling.done()
        assert sum(partition.log.looks for partition in world.partitions) - before <= 50
        world.partitions[7].append()
        batches, _, _ = await polling
        assert sum(batches) == batches[7] == 1

    asyncio.run(test())


def test_a_partition_that_stands_twice_is_refused() -> None:
    async def test() -> None:
        world = World(partitions=1, batches=1)
        request = pb.FetchRequest(isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED)
        for _ in range(2):
            request.partitions.add(topic_id=TOPIC, partition=0, leader_epoch=-1)
        with pytest.raises(InvalidRequestError, match="twice"):
            await world.reader.fetch(request)

    asyncio.run(test())


def test_more_partitions_than_are_allowed_are_refused() -> None:
    async def test() -> None:
        world = World(partitions=2_001, batches=0)
        with pytest.raises(InvalidRequestError, match="too many partitions"):
            await world.fetch()

    asyncio.run(test())


def test_a_fetch_without_an_isolation_level_is_told_the_names_of_the_contract() -> None:
    names = set(types_pb2.IsolationLevel.keys()) - {types_pb2.IsolationLevel.Name(0)}
    with pytest.raises(InvalidRequestError) as raised:
        asyncio.run(World(partitions=1, batches=1).reader.fetch(pb.FetchRequest()))
    assert set(re.findall(r"[A-Z_]{5,}", raised.value.message)) == names


def test_what_a_reader_gets_is_observed() -> None:
    async def main() -> None:
        world = World(partitions=2, batches=1)
        await world.fetch()
        assert [(records, size > 0) for _, records, size, _ in world.observed] == [(1, True), (1, True)]
        assert not any(by_follower for *_, by_follower in world.observed)

    asyncio.run(main())
