"""What operators are told of a partition: its ends, its producers, and how many records a reader still has before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.types import BrokerRef
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.rpc.describe import count_records, describe, producers_reply
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import SHARD, batch, marker, open_log, plain, run, write

TXN = (5, 1)


async def filled(disk: SimDisk, *batches: bytes) -> PartitionLog:
    log = await open_log(disk, LogConfig(segment_bytes=1_000))
    for data in batches:
        write(log, data)
    return log


async def counted(log: PartitionLog, start: int = 0, **more: int) -> tuple[int, int]:
    return await count_records(log, start, log.last_stable_offset(log.log_end_offset), **more)


# ---------------------------------------------------------------- counting


def test_markers_and_what_was_aborted_are_no_records() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(
            disk,
            plain(count=3),
            batch(7, 0, 4, txn=TXN),
            marker(TXN, commit=False),
            batch(7, 0, 5, txn=(5, 2)),
            marker((5, 2)),
        )
        assert await counted(log) == (3 + 5, log.log_end_offset)

    run(test)


def test_of_participants_only_the_winners_are_counted() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, batch(7, 0, 4, txn=TXN), batch(8, 0, 2, txn=TXN), marker(TXN, winners=(8,)))
        assert (await counted(log))[0] == 2

    run(test)


def test_records_that_are_deleted_while_they_are_counted_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog_partition_leader.rpc.describe._PIECE_BYTES", 1)

    async def test(disk: SimDisk) -> None:
        log = await filled(disk, plain(count=2), plain(count=2), plain(count=2), plain(count=2))

        async def others_run(_seconds: float) -> None:
            log._point.log_start_offset = 6  # as `advance_log_start` does, when it has waited for the disk

        monkeypatch.setattr("oncelog_partition_leader.rpc.describe.asyncio", SimpleNamespace(sleep=others_run))
        assert await counted(log) == (2 + 2, 8)

    run(test)


@pytest.mark.parametrize(("start", "records"), [(-5, 6), (0, 6), (2, 4), (3, 3), (5, 1), (6, 0), (99, 0)])
def test_the_count_begins_at_any_offset_also_inside_of_a_batch(start: int, records: int) -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, plain(count=3), plain(count=3))
        assert (await counted(log, start))[0] == records

    run(test)


def test_what_is_still_open_is_not_counted() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, plain(), batch(7, 0, 4, txn=TXN), plain())
        assert await counted(log) == (1, 1)

    run(test)


def test_a_long_log_is_counted_as_far_as_the_bound_and_that_is_said() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, *[plain(b"x" * 100_000)] * 20)
        records, after = await counted(log, bytes_max=500_000)
        assert records == after
        assert 5 <= after < 20
        assert (await counted(log, after))[0] == 20 - after, "the next count goes on there"

    run(test)


# ---------------------------------------------------------------- ends and producers


def test_the_ends_of_a_led_log() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, plain(count=3), batch(7, 0, 4, txn=TXN))
        leadership: Any = SimpleNamespace(
            log=log,
            epoch=9,
            high_watermark=5,
            replicas=SimpleNamespace(
                min_insync_replicas=2,
                committed=(BrokerRef(1, 11), BrokerRef(2, 12)),
                followers={2: SimpleNamespace(end=7), 4: SimpleNamespace(end=-1), 3: SimpleNamespace(end=5)},
            ),
        )
        answer = pb.DescribedPartition()
        describe(leadership, answer)
        assert (answer.leader_epoch, answer.log_start_offset, answer.high_watermark) == (9, 0, 5)
        assert (answer.last_stable_offset, answer.log_end_offset, answer.open_transactions) == (3, 7, 1)
        assert (answer.size_bytes, answer.min_insync_replicas) == (log.size_bytes, 2)
        assert [(item.broker_id, item.log_end_offset) for item in answer.lagging] == [(3, 5), (4, -1)]

    run(test)


def test_producers_are_told_with_what_they_wrote_last_and_what_they_hold_open() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(
            disk,
            batch(1, 0, 2, epoch=3),
            batch(7, 0, 4, txn=(5, 1), epoch=2),
            marker((5, 1), coordinator_epoch=6, session_epoch=2),
            batch(7, 0, 4, txn=(5, 2), epoch=2),
            batch(8, 0, 1, txn=(5, 2), epoch=2),
        )
        reply = producers_reply(log.producers)
        plain_one, first, second = reply.producers
        assert (plain_one.producer_id, plain_one.producer_epoch, plain_one.last_sequence) == (1, 3, 1)
        assert (plain_one.txn_producer_id, plain_one.txn_start_offset) == (-1, -1)
        assert [(one.producer_id, one.txn_no, one.coordinator_epoch) for one in (first, second)] == [
            (7, 2, 6),
            (8, 2, 6),
        ]
        (opened,) = reply.transactions
        assert (opened.txn_producer_id, opened.txn_no, opened.txn_shard) == (5, 2, SHARD)
        assert (opened.first_offset, opened.records) == (7, 5)

    run(test)
