"""Whoever walks through a segment believes a field only when its checksum was checked (S13, S31)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from oncelog.core.batch.header import HEADER_BYTES, PREFIX_BYTES, read_header, stamp_prefix
from oncelog.errors import CorruptMessageError, OncelogError
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.log import segment_file
from oncelog_partition_leader.log.segment_file import Segment, check_whole
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import DIRECTORY, NOW_MS, TAG, marker, plain, run


def segment(disk: SimDisk, *batches: bytes, base_offset: int = 0) -> Segment:
    disk.make_dirs(DIRECTORY)
    one = Segment(disk, DIRECTORY, base_offset)
    one.open_new()
    one.file.append(list(batches))
    return one


def walked(one: Segment, *, bodies: bool = True, tag: int = TAG, end: int | None = None) -> list[int]:
    """Positions of the batches."""
    return [found.position for found in one.walk(0, one.file.size if end is None else end, tag, bodies=bodies)]


BATCHES = [plain(b"a" * size) for size in (1, 300, 7)]
POSITIONS = [0, len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])]


@pytest.mark.parametrize("bodies", [True, False])
@pytest.mark.parametrize("chunk_bytes", [HEADER_BYTES, 200, 1 << 18])
def test_batches_come_one_after_the_other_however_they_lie_in_what_is_read(
    bodies: bool, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_file, "CHUNK_BYTES", chunk_bytes)

    async def test(disk: SimDisk) -> None:
        assert walked(segment(disk, *BATCHES), bodies=bodies) == POSITIONS

    run(test)


def test_a_walk_with_bodies_hands_out_whole_batches() -> None:
    async def test(disk: SimDisk) -> None:
        one = segment(disk, *BATCHES)
        for found, data in zip(one.walk(0, one.file.size, TAG, bodies=True), BATCHES, strict=True):
            assert bytes(found.data[found.start : found.start + found.header.batch_length]) == data

    run(test)


def test_a_walk_that_ends_inside_of_a_batch_says_so() -> None:
    async def test(disk: SimDisk) -> None:
        one = segment(disk, *BATCHES)
        for end in (POSITIONS[2] + 1, POSITIONS[2] + HEADER_BYTES, one.file.size - 1):
            with pytest.raises(CorruptMessageError):
                walked(one, end=end)

    run(test)


def flip(position: int) -> Callable[[SimDisk, Segment], None]:
    return lambda disk, one: disk.flip_bit(one.path + segment_file.LOG_SUFFIX, position, 1)


@pytest.mark.parametrize("position", [8, POSITIONS[1] + 9])
@pytest.mark.case("S13")
def test_a_flipped_length_or_offset_is_found_without_reading_bodies(position: int) -> None:
    async def test(disk: SimDisk) -> None:
        one = segment(disk, *BATCHES)
        flip(position)(disk, one)
        with pytest.raises(OncelogError):
            walked(one, bodies=False)

    run(test)


def test_a_flipped_bit_in_a_payload_is_found_by_who_reads_bodies() -> None:
    async def test(disk: SimDisk) -> None:
        one = segment(disk, *BATCHES)
        flip(POSITIONS[2] - 1)(disk, one)
        assert walked(one, bodies=False) == POSITIONS
        with pytest.raises(CorruptMessageError):
            walked(one)

    run(test)


def test_a_marker_is_read_whole_also_by_who_reads_no_bodies() -> None:
    async def test(disk: SimDisk) -> None:
        one = segment(disk, marker((9, 1)))
        flip(one.file.size - 1)(disk, one)
        with pytest.raises(CorruptMessageError):
            walked(one, bodies=False)

    run(test)


@pytest.mark.case("S31")
def test_a_batch_of_another_partition_is_found() -> None:
    async def test(disk: SimDisk) -> None:
        with pytest.raises(CorruptMessageError, match="another partition"):
            walked(segment(disk, *BATCHES), tag=TAG + 1)

    run(test)


@pytest.mark.parametrize("counts", [{"record_count": 2}, {"record_count": -1}, {"last_offset_delta": -1}])
def test_a_batch_that_ends_before_it_begins_is_none(counts: dict[str, int]) -> None:
    data = plain()
    check_whole(data, read_header(data), 0, TAG)
    with pytest.raises(CorruptMessageError, match="ends before it begins"):
        check_whole(data, read_header(data)._replace(**counts), 0, TAG)


def test_a_new_file_is_empty_whatever_a_lost_life_left_there() -> None:
    async def test(disk: SimDisk) -> None:
        segment(disk, *BATCHES).close()
        fresh = Segment(disk, DIRECTORY, 0)
        assert fresh.file.size > 0
        fresh.open_new()
        assert fresh.file.size == 0

    run(test)


def test_a_file_opens_again_when_it_is_needed_and_is_removed_last() -> None:
    async def test(disk: SimDisk) -> None:
        one = segment(disk, *BATCHES)
        one.close()
        assert walked(one) == POSITIONS
        for suffix in (segment_file.INDEX_SUFFIX, segment_file.TXN_INDEX_SUFFIX):
            await disk.write_atomic(one.path + suffix, b"")
        one.remove((segment_file.INDEX_SUFFIX,))
        assert len(disk.list(DIRECTORY)) == 2
        one.remove()
        assert disk.list(DIRECTORY) == []

    run(test)


# ---------------------------------------------------------------- an index that ends earlier


def rebuilt(one: Segment, position: int, interval_bytes: int) -> SegmentIndex:
    """The index that reading everything up to this position gives."""
    index = SegmentIndex(one.base_offset)
    for found in one.walk(0, position, TAG, bodies=True):
        index.add(found.header, interval_bytes)
    return index


@pytest.mark.parametrize("seed", range(12))
def test_an_index_is_cut_at_every_batch_as_if_it_were_made_again(seed: int) -> None:
    async def test(disk: SimDisk) -> None:
        random, interval_bytes = Random(seed), (0, 300, 900, 1 << 20)[seed % 4]
        batches = [
            random.choice(
                [plain(b"a" * random.randrange(400), timestamp_ms=NOW_MS + random.randrange(9)), marker((5, 1))]
            )
            for _ in range(25)
        ]
        stamped = [
            stamp_prefix(offset, len(data), 1, NOW_MS + random.randrange(5)) + data[PREFIX_BYTES:]
            for offset, data in enumerate(batches)
        ]
        one = segment(disk, *stamped)
        one.index = rebuilt(one, one.file.size, interval_bytes)
        for position in (*walked(one), one.file.size):
            cut = one.index_until(position, TAG, interval_bytes)
            assert cut.dump() == rebuilt(one, position, interval_bytes).dump()
            cut.check()

    run(test)


def test_cutting_an_index_reads_only_what_lies_behind_its_last_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(disk: SimDisk) -> None:
        stamped = [
            stamp_prefix(offset, len(data), 1, NOW_MS) + data[PREFIX_BYTES:]
            for offset, data in enumerate([plain(b"a" * 100, timestamp_ms=NOW_MS + offset) for offset in range(100)])
        ]
        one = segment(disk, *stamped)
        one.index = rebuilt(one, one.file.size, 1_000)
        read, original = [], Segment._chunk

        def counted(self: Segment, position: int, end: int, length: int) -> bytes:
            read.append(min(length, end - position))
            return original(self, position, end, length)

        monkeypatch.setattr(Segment, "_chunk", counted)
        one.index_until(walked(one)[80], TAG, 1_000)
        read.clear()
        one.index_until(90 * len(stamped[0]), TAG, 1_000)
        assert sum(read) < 3_000

    run(test)
