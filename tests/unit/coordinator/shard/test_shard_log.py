"""The log of a shard over a leader that fails in every way: order, repeats, fences, replay (hole 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.batch import encode_batch
from oncelog.core.batch.header import read_header
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_coordinator.config import ShardConfig
from oncelog_coordinator.core.transactions.records import EPOCH_KEY, EpochRecord
from oncelog_coordinator.shard import shard_log
from oncelog_coordinator.shard.log_port import LogItem, LogLostError
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.shard_log import ShardLog
from oncelog_runtime.metadata.cluster_keys import KIND_TXN, TRANSACTION_TOPIC, Topic, shard_writer_id, topic_key
from oncelog_runtime.sim.world import SimWorld
from tests.unit.coordinator.fake_cluster import BROKER, OTHER_BROKER, TXN_TOPIC_ID, Cluster, FakeLeader, FakeTransport

SHARD = 1
CONFIG = ShardConfig(append_deadline_ms=2_000, load_stall_ms=2_000, append_timeout_ms=500)


class Place:
    """One partition, its leader, and logs that write it."""

    def __init__(self, world: SimWorld) -> None:
        self.cluster = Cluster()
        self.transport = FakeTransport()
        self.leader = FakeLeader(self.transport)
        self.clock = SteadyClock(world.node("a").clock)

    def open(self, epoch: int) -> ShardLog:
        return ShardLog(self.transport, self.cluster.view, KIND_TXN, SHARD, epoch, CONFIG, self.clock)

    async def begin(self, epoch: int) -> ShardLog:
        log = self.open(epoch)
        await log.append([epoch_item(epoch)])
        return log


def epoch_item(epoch: int) -> LogItem:
    return EPOCH_KEY, EpochRecord(epoch).encode()


async def read(log: ShardLog) -> list[LogItem]:
    return [item async for batches in log.replay() for batch in batches for item in batch.items]


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(3) as one:
        yield one


def run(world: SimWorld, scenario: Callable[[Place], Awaitable[None]]) -> Place:
    place = Place(world)

    async def whole() -> None:
        await scenario(place)

    world.run(whole())
    return place


def test_append_and_replay(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        one = await place.begin(1)
        await one.append([("a", b"1"), ("b", None)])
        await one.append([("a", b"2")])
        two = await place.begin(2)
        await two.append([("c", b"3")])
        assert await read(two) == [epoch_item(1), ("a", b"1"), ("b", None), ("a", b"2"), epoch_item(2)]
        await one.close()
        await two.close()

    run(world, scenario)


def test_an_append_without_records_is_refused_since_the_next_one_would_have_its_sequence(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        with pytest.raises(AssertionError, match="empty batch"):
            log.append([])
        await log.append([("a", b"1")])

    run(world, scenario)


def test_a_log_whose_epoch_begins_without_its_epoch_record_is_not_replayed(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = place.open(1)
        await log.append([("a", b"1")])
        with pytest.raises(LogLostError, match="its epoch record"):
            await read(log)

    run(world, scenario)


def test_a_batch_that_is_not_what_was_asked_for_is_not_sent(world: SimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other half of the pair is in `test_replayed_log.py`: what is read back is checked against the same fields."""

    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        other = partial(encode_batch)
        for field, value in (("producer_epoch", 9), ("base_sequence", 7), ("producer_id", 5)):
            with monkeypatch.context() as patch:
                patch.setattr(
                    shard_log, "encode_batch", lambda *a, _f=field, _v=value, **named: other(*a, **{**named, _f: _v})
                )
                with pytest.raises(AssertionError, match="names its writer"):
                    log._encode([("a", b"1")], 1)
            with monkeypatch.context() as patch:
                patch.setattr(
                    shard_log,
                    "encode_batch",
                    lambda keys, values, timestamps_ms, **named: other(
                        keys * 2, values * 2, timestamps_ms=timestamps_ms * 2, **named
                    ),
                )
                with pytest.raises(AssertionError, match="behind its last record"):
                    log._encode([("a", b"1")], 1)
        assert len(place.leader.batches) == 1, "only the epoch record is there"

    run(world, scenario)


def test_appends_in_flight_land_in_order_whatever_overtakes(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        done = [log.append([("k", str(i).encode())]) for i in range(20)]
        await asyncio.gather(*done)
        assert [value for key, value in await read(await place.begin(2)) if key == "k"] == [
            str(i).encode() for i in range(20)
        ]

    run(world, scenario)


def test_an_append_that_fails_by_a_bug_is_lost_and_leaves_nobody_waiting(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        answer = place.leader.produce

        async def malformed(request: Any, payload: Buffer) -> tuple[Any, Buffer]:
            is_first = read_header(payload).base_sequence == 1
            return (pa.ProduceReply(), b"") if is_first else await answer(request, payload)

        place.transport.serve(BROKER, methods.PRODUCE, malformed)
        done = [log.append([("a", b"1")]), log.append([("a", b"2")])]
        async with asyncio.timeout(10):
            with pytest.raises(LogLostError):
                await done[0]
        await log.close()

    run(world, scenario)


def test_a_lost_reply_is_settled_by_the_same_bytes(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        place.leader.lose_replies = 3
        await log.append([("a", b"1")])
        await log.append([("a", b"2")])
        assert [item for item in await read(await place.begin(2)) if item[0] == "a"] == [("a", b"1"), ("a", b"2")]

    run(world, scenario)


@pytest.mark.parametrize(
    "error",
    [
        errors.NotLeaderError(),
        errors.NotEnoughReplicasError(),
        errors.NotEnoughReplicasAfterAppendError(),
        errors.StorageError(),
        errors.UnknownTopicError(),
        errors.RequestTimedOutError(),
    ],
)
def test_what_may_pass_is_tried_again(world: SimWorld, error: errors.OncelogError) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        place.leader.refuse = [error, error]
        await log.append([("a", b"1")])

    run(world, scenario)


def test_what_keeps_the_log_from_being_written_is_known_meanwhile(world: SimWorld) -> None:
    """Regression: callers of a shard whose log refuses an append were told that it replays its log."""

    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        place.leader.refuse = [errors.NotEnoughReplicasError(isr=1, min_insync_replicas=2)] * 1_000
        done = log.append([("a", b"1")])
        await asyncio.sleep(0.5)
        expected = f"NOT_ENOUGH_REPLICAS on {TRANSACTION_TOPIC}-{SHARD}: ISR 1 of 2 needed"
        assert log.trouble == expected
        with pytest.raises(LogLostError, match=expected):
            await done
        place.leader.refuse = []
        assert (await place.begin(2)).trouble == ""

    run(world, scenario)


def test_a_new_leader_is_found(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        place.cluster.lead(TRANSACTION_TOPIC, TXN_TOPIC_ID, SHARD, None)
        done = log.append([("a", b"1")])
        await asyncio.sleep(0.5)
        assert not done.done()
        other = FakeLeader(place.transport, OTHER_BROKER)
        other.batches, other.end = place.leader.batches, place.leader.end
        other.epochs, other.sequences = place.leader.epochs, place.leader.sequences
        place.cluster.lead(TRANSACTION_TOPIC, TXN_TOPIC_ID, SHARD, 1)
        await done

    run(world, scenario)


def test_an_epoch_that_the_log_has_had_already_is_not_begun_again(world: SimWorld) -> None:
    """etcd was restored, and the epoch after the backup's is given a second time: the leader takes all for old repeats."""

    async def scenario(place: Place) -> None:
        first = await place.begin(7)
        for number in range(9):
            await first.append([("a", b"%d" % number)])
        with pytest.raises(LogLostError) as info:
            await place.begin(7)
        assert (info.value.fenced, info.value.newest_epoch) == (True, 7)

    run(world, scenario)


def test_an_epoch_record_whose_answer_was_lost_is_sent_again(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        place.leader.lose_replies = 1
        assert await read(await place.begin(7)) == [epoch_item(7)]

    run(world, scenario)


def test_a_newer_owner_fences_this_one(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        old = await place.begin(1)
        new = await place.begin(2)
        with pytest.raises(LogLostError) as info:
            await old.append([("a", b"late")])
        assert (info.value.fenced, info.value.newest_epoch) == (True, 2)
        with pytest.raises(LogLostError):
            await old.append([("a", b"later")])
        assert ("a", b"late") not in await read(new)

    run(world, scenario)


@pytest.mark.parametrize("error", [errors.CorruptMessageError(), errors.UnknownProducerIdError()])
def test_what_no_repetition_cures_ends_the_life(world: SimWorld, error: errors.OncelogError) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        place.leader.refuse = [error]
        done = [log.append([("a", b"1")]), log.append([("a", b"2")])]
        results = await asyncio.gather(*done, return_exceptions=True)
        assert isinstance(results[1], LogLostError), "whichever was refused: what comes later is lost too"
        assert not results[1].fenced
        with pytest.raises(LogLostError):
            await log.append([("a", b"3")])

    run(world, scenario)


def test_a_deadline_ends_the_life(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        place.cluster.lead(TRANSACTION_TOPIC, TXN_TOPIC_ID, SHARD, None)
        with pytest.raises(LogLostError):
            await log.append([("a", b"1")])

    run(world, scenario)
    assert world.loop.time() < 4


def test_a_closed_log_sends_nothing_more(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        place.cluster.lead(TRANSACTION_TOPIC, TXN_TOPIC_ID, SHARD, None)
        log.append([("a", b"1")])
        await asyncio.sleep(0.01)
        await log.close()
        place.cluster.lead(TRANSACTION_TOPIC, TXN_TOPIC_ID, SHARD, 0)
        await asyncio.sleep(1)
        assert ("a", b"1") not in await read(await place.begin(2))

    run(world, scenario)


def test_replay_goes_on_after_errors_and_gives_up_when_nothing_comes(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(1)
        await log.append([("a", b"1")])
        two = await place.begin(2)
        place.leader.refuse = [errors.OffsetNotAvailableError(), errors.NotLeaderError()]
        assert len(await read(two)) == 3
        three = place.open(3)
        with pytest.raises(LogLostError):
            await read(three)

    run(world, scenario)


# ---------------------------------------------------------------- a log that was shortened


def free(epoch: int, below: int) -> LogItem:
    return EPOCH_KEY, EpochRecord(epoch, below).encode()


def test_the_owner_has_records_deleted_in_its_name_and_epoch(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(4)
        log.delete_before(1)
        log.delete_before(3)
        log.delete_before(2)
        await asyncio.sleep(1)
        writer_id = shard_writer_id(KIND_TXN, SHARD)
        assert place.leader.deletions == [(3, writer_id, 4)], "all that waits is one request"
        await log.close()

    run(world, scenario)


def test_a_deletion_that_fails_for_now_is_tried_again_and_one_that_is_refused_waits_for_the_next(
    world: SimWorld,
) -> None:
    async def scenario(place: Place) -> None:
        log = await place.begin(4)
        place.leader.refuse = [errors.NotLeaderError(), errors.StorageError()]
        log.delete_before(1)
        await asyncio.sleep(1)
        assert [offset for offset, _, _ in place.leader.deletions] == [1]
        place.leader.refuse = [errors.InvalidTopicError("a broker of an older version")]
        log.delete_before(2)
        await asyncio.sleep(1)
        assert len(place.leader.deletions) == 1
        log.delete_before(3)
        await asyncio.sleep(1)
        assert [offset for offset, _, _ in place.leader.deletions] == [1, 3]
        await log.close()
        log.delete_before(4)
        await asyncio.sleep(1)
        assert len(place.leader.deletions) == 2, "a closed log asks for nothing"

    run(world, scenario)


def test_a_log_that_was_shortened_is_replayed_from_where_it_begins(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        one = await place.begin(1)
        await one.append([("a", b"1")])
        await one.append([("a", b"1"), free(1, 2)])
        place.leader.start = 2
        two = await place.begin(2)
        assert await read(two) == [("a", b"1"), free(1, 2), epoch_item(2)]
        assert two.free_below == 2

    run(world, scenario)


def test_a_log_whose_beginning_is_gone_without_its_owner_is_not_replayed(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        one = await place.begin(1)
        await one.append([("a", b"1")])
        place.leader.start = 2
        with pytest.raises(LogLostError, match="beginning of this log is missing"):
            await read(await place.begin(2))

    run(world, scenario)


def test_what_was_read_before_a_late_deletion_does_not_count(world: SimWorld) -> None:
    """A tombstone between what was read and the new beginning is gone: the record that it removed must not come back."""

    async def scenario(place: Place) -> None:
        one = await place.begin(1)
        await one.append([("a", b"1")])
        await one.append([("a", None)])
        await one.append([("b", b"2"), free(1, 3)])
        two = await place.begin(2)
        found: list[LogItem] = []
        async for batches in two.replay():
            for batch in batches:
                found = [*([] if batch.is_first else found), *batch.items]
            if found == [epoch_item(1), ("a", b"1")]:
                place.leader.start = 3
        assert found == [("b", b"2"), free(1, 3), epoch_item(2)]

    run(world, scenario)


def test_only_a_log_that_brokers_compact_may_have_gaps(world: SimWorld) -> None:
    async def scenario(place: Place) -> None:
        one = await place.begin(1)
        await one.append([("a", b"1")])
        await one.append([("a", b"2")])
        two = await place.begin(2)
        del place.leader.batches[1]
        with pytest.raises(LogLostError, match="missing"):
            await read(two)
        old = Topic(TRANSACTION_TOPIC, TXN_TOPIC_ID, 3, 2, {"cleanup_policy": "compact"})
        place.cluster.put(topic_key(TRANSACTION_TOPIC), old.encode())
        assert await read(two) == [epoch_item(1), ("a", b"2"), epoch_item(2)]

    run(world, scenario)
