"""Parts of batches: the right records at their offsets, and memory that is bounded."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from oncelog.core.batch.batch import decode_arrow, decode_batch, encode_batch
from oncelog.core.batch.hashing import fnv1a
from oncelog.core.batch.header import CODEC_ZSTD, read_header, rewritten
from oncelog_partition_leader.core.channels.key_order import NO_KEY
from oncelog_partition_leader.partition.channels.reading.batch_cutting import (
    Unpacked,
    cut,
    is_worth_cutting,
    key_hashes,
)
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.loop import SimLoop

TOPIC_ID = "0" * 32


def batch(count: int = 10, base_offset: int = 100, size: int = 10, **fields: Any) -> bytes:
    data = encode_batch(
        [b"k%d" % n if n % 3 else None for n in range(count)],
        [b"%d" % n * size for n in range(count)],
        timestamps_ms=list(range(count)),
        headers=[[("n", b"%d" % n)] for n in range(count)],
        topic_id=TOPIC_ID,
        partition=0,
        **fields,
    )
    return rewritten(read_header(data)._replace(base_offset=base_offset), data[120:])


def test_a_part_has_the_records_at_their_offsets() -> None:
    data = batch()
    whole = decode_batch(data)
    part = cut(decode_arrow(data), read_header(data), [(102, 103), (107, 107)])
    assert decode_batch(part) == [whole[2], whole[3], whole[7]]
    header = read_header(part)
    assert (header.base_offset, header.last_offset) == (100, 109)


def test_a_part_of_a_part_is_cut_by_offsets_too() -> None:
    data = batch(codec=CODEC_ZSTD, size=100)
    part = cut(decode_arrow(data), read_header(data), [(102, 104), (107, 108)])
    smaller = cut(decode_arrow(part), read_header(part), [(103, 107)])
    assert [row.offset for row in decode_batch(smaller)] == [103, 104, 107]


def test_only_large_batches_with_few_wanted_records_are_cut() -> None:
    small, large = read_header(batch()), read_header(batch(size=1_000))
    assert not is_worth_cutting(small, 1)
    assert is_worth_cutting(large, 4)
    assert not is_worth_cutting(large, 5)


def test_a_key_has_its_hash_and_a_null_has_none() -> None:
    hashes = key_hashes(decode_arrow(batch(4)))
    assert hashes == [NO_KEY, fnv1a(b"k1"), fnv1a(b"k2"), NO_KEY]


def test_what_is_kept_unpacked_is_bounded() -> None:
    with SimLoop(0) as loop:

        async def scenario() -> None:
            sizes = [read_header(batch(size=300, base_offset=n)).uncompressed_length for n in range(3)]
            unpacked = Unpacked(SimDisk(loop, Random(0)), kept_bytes=3 * sizes[0])
            for n in range(20):
                data = batch(size=300, base_offset=100 * n)
                rows = await unpacked.rows(data, read_header(data))
                assert rows.num_rows == 10
                assert await unpacked.rows(data, read_header(data)) is rows, "the last ones are kept"
                assert unpacked.bytes <= 3 * sizes[0] + 1_000

        loop.run(scenario())


def test_large_batches_are_cut_beside_the_loop() -> None:
    with SimLoop(0) as loop:

        async def scenario() -> None:
            unpacked = Unpacked(SimDisk(loop, Random(0)))
            data = batch(size=20_000)
            parts = await asyncio.gather(*(unpacked.cut(data, read_header(data), [(n, n)]) for n in range(100, 110)))
            assert [decode_batch(part)[0].offset for part in parts] == list(range(100, 110))
            rows = await unpacked.rows(data, read_header(data))
            assert len(await unpacked.key_hashes(rows, read_header(data))) == 10

        loop.run(scenario())
