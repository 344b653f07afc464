"""Reads give whole, checked batches within their bounds, and a time finds its batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from oncelog.core.batch.header import HEADER_BYTES
from oncelog.errors import (
    CorruptMessageError,
    OffsetOutOfRangeError,
    StorageError,
)
from oncelog_partition_leader.log.partition_log import LogConfig
from oncelog_partition_leader.log.reader import NoRoomError, first_at, locate, read_batches, scrub_piece, segment_of
from oncelog_partition_leader.log.segment_file import Located, Segment
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.log_helpers import (
    DIRECTORY,
    TAG,
    TOPIC_ID,
    contents,
    marker,
    open_log,
    plain,
    run,
    write,
)

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200, tail_cache_bytes=0)


@pytest.mark.parametrize("cache_bytes", [0, 400, 1 << 20])
def test_reads_are_whole_batches_within_bounds(cache_bytes: int) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, LogConfig(tail_cache_bytes=cache_bytes))
        data = [appended.data for n in range(6) for appended in write(log, plain(bytes([n]) * 80, count=3))]
        assert log.read(0, 1, 18) == data[0], "at least one"
        assert log.read(4, 1, 18) == data[1], "the batch that contains the offset"
        assert log.read(3, 400, 18) == data[1] + data[2]
        assert log.read(0, 1 << 20, 18) == b"".join(data) or cache_bytes == 400
        assert log.read(0, 1 << 20, 7) == data[0] + data[1], "nothing beyond the end"
        assert log.read(6, 1 << 20, 6) == b""
        assert log.read(18, 1 << 20, 18) == b""
        assert contents(log) == b"".join(data)
        for offset in (-5, 19):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(offset, 100, 18)

    run(test)


def test_a_batch_longer_than_the_read_comes_whole() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, LogConfig(tail_cache_bytes=0))
        large = write(log, plain(), plain(b"x" * 300_000), plain())
        assert log.read(1, 10, 3) == large[1].data

    run(test)


def test_lookup_by_time_is_precise_to_the_batch() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        assert log.max_timestamp() is None
        for n, time in enumerate((100, 300, 200, 500, 400)):
            write(log, plain(timestamp_ms=time))
            write(log, marker((9, n + 1)))
        answers = {t: log.offset_for_timestamp(t) for t in (0, 100, 101, 300, 301, 500, 501)}
        assert answers == {
            0: (0, 100),
            100: (0, 100),
            101: (2, 300),
            300: (2, 300),
            301: (6, 500),
            500: (6, 500),
            501: None,
        }
        assert log.max_timestamp() == (6, 500)

    run(test)


def test_an_offset_inside_of_a_batch_gives_the_whole_batch() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        data = [write(log, plain(count=5))[0].data for _ in range(3)]
        assert [log.read(offset, 1, 15) for offset in (0, 4, 5, 14)] == [data[0], data[0], data[1], data[2]]

    run(test)


@pytest.mark.case("S11")
def test_a_batch_that_cannot_be_read_is_an_error_and_never_an_empty_answer() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        write(log, plain(), plain())
        disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", HEADER_BYTES + 1, 3)
        with pytest.raises(StorageError):
            log.read(0, 1_000, 2)

    run(test)


def test_a_batch_for_which_a_reader_has_no_room_is_told_with_its_size() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        first, _ = write(log, plain(b"x" * 100), plain())
        (segment,) = log._segments
        with pytest.raises(NoRoomError) as refusal:
            read_batches(segment, 0, 10, 2, TAG, room=len(first.data) - 1)
        assert refusal.value.bytes == len(first.data)
        assert bytes(read_batches(segment, 0, 10, 2, TAG, room=len(first.data))) == first.data

    run(test)


def test_the_batch_that_contains_an_offset_is_found_from_any_index() -> None:
    async def test(disk: SimDisk) -> None:
        for interval_bytes in (0, 300, 1 << 20):
            directory = f"logs/orders-{TOPIC_ID}-3"
            log = await open_log(disk, replace(SMALL, segment_bytes=1 << 20, index_interval_bytes=interval_bytes))
            write(log, *[plain(count=3)] * 20)
            (segment,) = log._segments
            size = len(plain())
            assert [locate(segment, offset, TAG) for offset in (0, 2, 3, 59)] == [
                (0, 0),
                (0, 0),
                (3, size),
                (57, 19 * size),
            ]
            await log.close()
            disk.remove(directory)

    run(test)


def test_the_segment_of_an_offset_is_the_last_one_that_begins_at_or_below_it() -> None:
    async def test(disk: SimDisk) -> None:
        segments = [Segment(disk, DIRECTORY, base) for base in (0, 10, 20)]
        found = [segment_of(segments, offset).base_offset for offset in (0, 9, 10, 19, 20, 500)]
        assert found == [0, 0, 10, 10, 20, 20]

    run(test)


def test_a_lookup_by_time_finds_nothing_below_the_log_start() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, SMALL)
        for time in (100, 200):
            write(log, plain(count=4, timestamp_ms=time))
        assert first_at(log._segments, 100, 2, TAG) == (2, 100), "its batch reaches above the log start"
        assert first_at(log._segments, 100, 4, TAG) == (4, 200)

    run(test)


def test_a_lookup_by_time_passes_over_what_was_deleted_without_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker serves nothing else meanwhile, and the deleted part of a segment may be a gigabyte."""
    begun: list[int] = []
    walk = Segment.walk

    def watched(segment: Segment, position: int, end: int, tag: int, *, bodies: bool) -> Iterator[Located]:
        begun.append(position)
        return walk(segment, position, end, tag, bodies=bodies)

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, segment_bytes=1 << 20))
        for _ in range(50):
            write(log, plain(timestamp_ms=100))
        monkeypatch.setattr(Segment, "walk", watched)
        assert first_at(log._segments, 0, 48, TAG) == (48, 100)
        assert begun[0] > log.size_bytes * 0.9

    run(test)


@pytest.mark.case("S32")
def test_a_scrub_goes_on_where_it_stopped_and_meets_rot_that_nobody_has_read() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(SMALL, segment_bytes=4 << 20, max_message_bytes=1 << 20))
        write(log, *[plain(b"x" * (600 << 10))] * 3)
        (segment,) = log._segments
        size = segment.index.size
        first = scrub_piece(segment, 0, size, TAG)
        assert first == 2 * size // 3, "a piece is about 1 MiB"
        assert scrub_piece(segment, first, size, TAG) == size
        disk.flip_bit(f"{segment.path}.log", size - 1, 1)
        assert scrub_piece(segment, 0, size, TAG) == first
        with pytest.raises(CorruptMessageError):
            scrub_piece(segment, first, size, TAG)

    run(test)
