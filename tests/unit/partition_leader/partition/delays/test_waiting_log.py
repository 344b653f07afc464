"""A piece of the waiting log says which records wait and which are done; nothing that a client writes looks like the latter."""

from __future__ import annotations

import pytest

from oncelog.core.batch.batch import encode_rows, iter_batches
from oncelog.core.batch.header import BatchIdentity
from oncelog.core.batch.record import TIMESTAMP_MAX_MS
from oncelog.errors import CorruptMessageError, InvalidDelayError
from oncelog_partition_leader.core.log.batch_check import BatchLimits, read_client_batch
from oncelog_partition_leader.partition.delays.waiting_log import done_batch, parse
from oncelog_runtime.metadata.waiting_topics import DELAY_MAX_MS
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, TOPIC_ID, contents, open_log, run, write
from tests.unit.partition_leader.partition.delays.waiting_partition import OWN_PRODUCER, WaitingPartition

OWN = BatchIdentity(TAG, OWN_PRODUCER, 0, 0)


def test_it_tells_times_offsets_and_what_is_done() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((50, b"a"), (10, b"b"))
        write(partition.log, done_batch([0], OWN))
        partition.put((5, b"c"))
        batches = list(iter_batches(contents(partition.log)))
        piece = parse(batches, 0)
        assert piece.offsets.tolist() == [0, 1, 3]
        assert piece.due_ms.tolist() == [NOW_MS + 50, NOW_MS + 10, NOW_MS + 5]
        assert piece.done == [0]
        assert parse(batches, 1).offsets.tolist() == [1, 3], "a part of the first batch was read before"

    run(test)


def test_nothing_says_nothing() -> None:
    assert parse([], 0).done == []
    assert not len(parse([], 0).offsets)


def test_a_done_batch_of_another_form_is_refused() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        write(partition.log, encode_rows([None], [b"seven"], OWN, timestamps_ms=[TIMESTAMP_MAX_MS]))
        with pytest.raises(CorruptMessageError):
            parse(list(iter_batches(contents(partition.log))), 0)

    run(test)


def test_a_done_batch_is_one_whoever_wrote_it_and_a_client_can_write_none() -> None:
    data = done_batch([0], BatchIdentity(TAG, OWN_PRODUCER + 1, 0, 0))
    ((header, body),) = iter_batches(data)
    assert parse([(header, body)], 0).done == [0]
    limits = BatchLimits(now_ms=NOW_MS, timestamp_after_max_ms=DELAY_MAX_MS, delays=True)
    with pytest.raises(InvalidDelayError):
        read_client_batch(data, limits, TOPIC_ID, 3)


def test_a_batch_that_is_not_what_was_written_is_refused() -> None:
    async def test(disk: SimDisk) -> None:
        partition = WaitingPartition(await open_log(disk))
        partition.put((50, b"a"))
        ((header, data),) = iter_batches(contents(partition.log))
        rotten = bytearray(data)
        rotten[-1] ^= 1
        with pytest.raises(CorruptMessageError):
            parse([(header, memoryview(rotten))], 0)

    run(test)
