"""A compacted log shrinks, keeps the last record of each key at its offset, and is the same after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_partition_leader.log.compaction import pass_work
from oncelog_partition_leader.log.compaction.pass_job import Limits
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from tests.unit.partition_leader.compaction_helpers import (
    COMPACT,
    DAY_MS,
    compact,
    filled,
    headers_of,
    keyed,
    records_of,
    roll,
    rolled_and_compacted,
    table_of,
)
from tests.unit.partition_leader.log_helpers import NOW_MS, contents, marker, open_log, plain, run, write

LATER_MS = NOW_MS + 2 * DAY_MS


def test_a_compacted_log_shrinks_and_keeps_the_last_value_of_each_key_at_its_offset() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        before, size, end = records_of(log), log.size_bytes, log.log_end_offset
        epochs, state = log.epochs.entries, log.producers.snapshot()
        assert await compact(log)
        log.check()
        after = records_of(log)
        assert log.size_bytes < size / 2
        assert table_of(after) == table_of(before)
        assert set(after) <= set(before), "what stays has its offset, key, value and time"
        assert (log.log_end_offset, log.epochs.entries, log.producers.snapshot()) == (end, epochs, state)
        headers_of(log)
        await log.close()
        again = await open_log(disk, COMPACT)
        assert records_of(again) == after
        assert again.producers.snapshot() == state
        again.check()

    run(test)


def test_after_a_power_cut_the_compacted_log_is_found_as_it_was() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        await compact(log)
        after = records_of(log)
        again = await open_log(disk.after_power_cut(), COMPACT)
        assert records_of(again) == after
        assert again.producers.end_offset == log.log_end_offset
        again.check()

    run(test)


def test_a_second_pass_is_due_only_when_something_is_dirty() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        assert log.dirty_bytes == log.size_bytes
        assert await compact(log)
        assert log.dirty_bytes == log._segments[-1].index.size
        assert not log.wants_compaction(NOW_MS, log.log_end_offset)
        assert await compact(log) is None
        await log.close()
        log = await open_log(disk, COMPACT)
        assert not log.wants_compaction(NOW_MS, log.log_end_offset), "it is remembered"
        for number in range(40, 60):
            write(log, keyed((b"k1", b"w"), producer=(7, 0, number * 3)))
        assert await compact(log)
        assert sum(record.key == b"k1" for record in records_of(log)) < 22

    run(test)


def test_only_a_topic_that_asks_for_it_is_compacted_and_only_at_a_known_time() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, config=replace(COMPACT, cleanup_policy="delete"))
        assert await compact(log) is None
        assert log.dirty_bytes == 0
        log.reconfigure(COMPACT)
        assert await compact(log, now_ms=0) is None
        assert await compact(log)

    run(test)


# ---------------------------------------------------------------- what is never touched


def test_the_active_segment_and_what_is_not_committed_are_never_touched() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk)
        before = contents(log)
        assert await compact(log, high_watermark=3) is None
        assert contents(log) == before
        middle = log._segments[2].base_offset
        assert await compact(log, high_watermark=middle + 1)
        assert contents(log, middle) == contents(log)[-len(contents(log, middle)) :]
        assert before.endswith(contents(log, middle)), "nothing from the high watermark on has changed"
        assert await compact(log)
        active = log._segments[-1].base_offset
        assert before.endswith(contents(log, active))

    run(test)


def test_nothing_from_the_first_open_transaction_on_is_touched() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, 10)
        write(log, keyed((b"open", b"o"), producer=(50, 0, 0), txn=(50, 1)))
        opened = log.log_end_offset - 1
        for number in range(10, 40):
            write(log, keyed((b"k1", b"%d" % number), producer=(7, 0, number * 3)))
        roll(log)
        before = records_of(log)
        await compact(log)
        after = records_of(log)
        assert [r for r in after if r.offset >= opened] == [r for r in before if r.offset >= opened]
        assert log.last_stable_offset(log.log_end_offset) == opened
        write(log, marker((50, 1)))
        await rolled_and_compacted(log)
        assert len(records_of(log)) < len(after)
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset

    run(test)


def test_a_record_is_not_compacted_before_its_lag() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, config=replace(COMPACT, min_compaction_lag_ms=1_000))
        assert await compact(log, NOW_MS + 999) is None
        assert await compact(log, NOW_MS + 1_000)

    run(test)


def test_a_record_that_waited_for_its_longest_lag_is_compacted_though_its_segment_is_active() -> None:
    async def test(disk: SimDisk) -> None:
        config = replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1_000, segment_bytes=1 << 20)
        log = await filled(disk, config=config)
        assert await compact(log, NOW_MS + 999) is None
        assert await compact(log, NOW_MS + 1_000)
        assert len(records_of(log)) == 10

    run(test)


def test_little_dirt_waits_for_more() -> None:
    async def test(disk: SimDisk) -> None:
        log = await filled(disk, 30, replace(COMPACT, min_cleanable_dirty_ratio=0.5))
        assert await compact(log)
        while log.log_end_offset < 1_000 and not log.wants_compaction(NOW_MS, log.log_end_offset):
            write(log, keyed((b"k1", b"again"), producer=(7, 0, log.log_end_offset)))
            await log.sync()
        dirty = sum(s.index.size for s in log._segments[:-1] if s.next_offset > log._progress.cleaned_to)
        total = sum(s.index.size for s in log._segments[:-1])
        assert 0.5 <= dirty / total < 0.9

    run(test)


def test_records_without_a_key_from_before_the_topic_was_compacted_stay() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((None, b"1"), (b"k", b"2"), (None, None)), keyed((b"k", b"3")))
        await rolled_and_compacted(log)
        assert [(r.offset, r.value) for r in records_of(log)] == [(0, b"1"), (2, None), (3, b"3")]

    run(test)


def test_a_payload_that_is_not_records_stays_as_it_is() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, plain(b"typed columns", schema_id=9), keyed((b"k", b"1")), keyed((b"k", b"2")))
        first = contents(log)[:200]
        await rolled_and_compacted(log)
        assert contents(log).startswith(first[:133])

    run(test)


# ---------------------------------------------------------------- tombstones, transactions, producers


@pytest.mark.case("G154")
def test_a_tombstone_stays_for_its_time_after_the_first_pass_and_then_goes() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", None)))
        await rolled_and_compacted(log, NOW_MS + DAY_MS)
        assert [(r.offset, r.value) for r in records_of(log)] == [(1, b"1"), (2, None)], "measured from the first pass"
        assert not log.wants_compaction(NOW_MS + 2 * DAY_MS - 1, log.log_end_offset, log.log_end_offset)
        assert await compact(log, NOW_MS + 2 * DAY_MS)
        assert [(r.offset, r.key) for r in records_of(log)] == [(1, b"b")]
        assert log.log_end_offset == 3

    run(test)


def test_a_tombstone_that_the_keys_in_memory_do_not_reach_stays_though_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It came from a leader that had compacted it; an older value of its key may still be here."""
    monkeypatch.setattr(pass_work, "_PIECE_BYTES", 1)

    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed(*((b"k%d" % n, b"1") for n in range(50))), keyed((b"k7", None)))
        await rolled_and_compacted(log)
        fresh = await open_log(disk, COMPACT, directory=f"copies/{log.directory}")
        write(fresh, keyed(*((b"k%d" % n, b"1") for n in range(50))))
        fresh.append_as_follower(contents(log, 50), 1)
        assert table_of(records_of(fresh)).keys() == {b"k%d" % n for n in range(50) if n != 7}
        roll(fresh)
        await fresh.sync()
        for _ in range(3):
            await fresh.compact(LATER_MS, 51, Limits(10, 1 << 20, 0), held_everywhere=51)
            assert b"k7" not in table_of(records_of(fresh))

    run(test)


@pytest.mark.case("G150")
def test_the_marker_of_a_superseded_transaction_stays_for_its_time_and_then_goes() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        for number in (1, 2):
            write(log, keyed((b"a", b"%d" % number), producer=(50, 0, 0), txn=(50, number)), marker((50, number)))
        await rolled_and_compacted(log)
        assert [r.value for r in records_of(log)] == [b"2"]
        assert markers_of(log) == [1, 3]
        assert await compact(log, NOW_MS + DAY_MS)
        assert markers_of(log) == [3], "the second one's data is there"
        write(log, keyed((b"a", b"3"), producer=(1, 0, 0)))
        await rolled_and_compacted(log, NOW_MS + DAY_MS)
        await compact(log, LATER_MS + DAY_MS)
        assert markers_of(log) == [3], "the last marker of an id is what fences its older transactions"
        assert not log.wants_compaction(LATER_MS + 9 * DAY_MS, log.log_end_offset, log.log_end_offset), (
            "and asks for no further pass"
        )

    run(test)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_stays_while_a_record_of_its_transaction_does(commit: bool) -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((b"only", b"1"), producer=(50, 0, 0), txn=(50, 1)), marker((50, 1), commit=commit))
        write(log, marker((50, 2)))
        for now_ms in (NOW_MS, NOW_MS + DAY_MS, LATER_MS, LATER_MS + DAY_MS):
            await rolled_and_compacted(log, now_ms)
            write(log, keyed((b"k", b"%d" % now_ms)))
        assert markers_of(log) == ([1, 2] if commit else [2])
        assert (b"only" in table_of(records_of(log))) is commit

    run(test)


def markers_of(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers_of(log) if header.is_control]


@pytest.mark.case("G151")
def test_aborted_data_goes_in_the_first_pass_whatever_its_key_and_its_marker_later() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((b"a", b"old")))
        write(log, keyed((b"a", b"new"), (b"unique", b"1"), producer=(50, 0, 0), txn=(50, 1)))
        write(log, marker((50, 1), commit=False), marker((50, 2)))
        assert len(log.aborted_between(0, 9)) == 1
        await rolled_and_compacted(log)
        assert [r.value for r in records_of(log)] == [b"old"], "an aborted value replaces nothing"
        assert markers_of(log) == [3, 4]
        await compact(log, NOW_MS + DAY_MS)
        assert markers_of(log) == [4]
        assert log.aborted_between(0, 9) == []

    run(test)


def test_losers_of_a_shared_transaction_go_and_its_winners_stay() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((b"a", b"w"), producer=(51, 0, 0), txn=(50, 1)))
        write(log, keyed((b"a", b"l"), producer=(52, 0, 0), txn=(50, 1)), marker((50, 1), winners=(51,)))
        await rolled_and_compacted(log)
        assert [r.value for r in records_of(log)] == [b"w"]

    run(test)


def test_the_marker_of_aborted_data_stays_in_the_pass_that_removes_it_though_its_time_is_over() -> None:
    """A marker may come with a horizon from a leader that had compacted; whoever read the data must find its entry."""

    async def test(disk: SimDisk) -> None:
        data = keyed((b"a", b"aborted"), producer=(50, 0, 0), txn=(50, 1))
        log = await open_log(disk, COMPACT)
        write(log, data, marker((50, 1), commit=False), marker((50, 2)))
        await rolled_and_compacted(log)
        fresh = await open_log(disk, COMPACT, directory=f"copies/{log.directory}")
        write(fresh, data)
        fresh.append_as_follower(contents(log, 1), 1)
        await rolled_and_compacted(fresh, LATER_MS)
        assert markers_of(fresh) == [1, 2]
        assert len(fresh.aborted_between(0, 3)) == 1
        write(fresh, keyed((b"a", b"x")))
        await rolled_and_compacted(fresh, LATER_MS)
        assert markers_of(fresh) == [2]

    run(test)


def test_a_marker_stays_while_a_snapshot_holds_its_transaction_open() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, replace(COMPACT, segment_bytes=400))
        write(log, keyed((b"a", b"1"), producer=(50, 0, 0), txn=(50, 1)))
        roll(log)
        base = log.log_end_offset
        write(log, marker((50, 1)), marker((50, 2)), keyed((b"a", b"2")), keyed((b"b", b"2" * 200)))
        roll(log)
        for now_ms in (NOW_MS, NOW_MS + DAY_MS, LATER_MS):
            await compact(log, now_ms)
        assert log._segments[1].base_offset == base, "the snapshot at this offset stays"
        assert base in markers_of(log)
        disk.remove(f"{log.directory}/{base:020d}.index")
        await log.close(clean=False)
        again = await open_log(disk, log.config)
        assert again.last_stable_offset(again.log_end_offset) == again.log_end_offset

    run(test)


def test_a_transaction_that_lost_records_is_kept_and_takes_part_in_nothing() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((b"a", b"old")), keyed((b"a", b"part"), producer=(50, 0, 0), txn=(50, 1)))
        write(log, marker((50, 1), lost=True), keyed((b"b", b"1")), keyed((b"b", b"2")))
        await rolled_and_compacted(log)
        await compact(log, LATER_MS)
        assert [r.value for r in records_of(log)] == [b"old", b"part", b"2"]
        assert markers_of(log) == [2]

    run(test)


@pytest.mark.case("G152")
@pytest.mark.case("E125")
def test_the_last_batch_of_a_producer_stays_empty_until_a_newer_one_takes_its_place() -> None:
    async def test(disk: SimDisk) -> None:
        log = await open_log(disk, COMPACT)
        write(log, keyed((b"a", b"1"), (b"a", b"2"), producer=(7, 3, 10)), keyed((b"a", b"3"), producer=(8, 0, 0)))
        await rolled_and_compacted(log)
        empty = headers_of(log)[0]
        assert (empty.record_count, empty.producer_id, empty.producer_epoch, empty.base_sequence) == (0, 7, 3, 10)
        assert (empty.base_offset, empty.last_offset_delta) == (0, 1)
        fresh = await open_log(disk, COMPACT, directory=f"copies/{log.directory}")
        fresh.append_as_follower(contents(log), 1)
        producer = fresh.producers.producer(7)
        assert producer is not None
        assert (producer.producer_epoch, producer.window.last_sequence) == (3, 11)
        assert fresh.producers.written(7, 3, 10, 11).written, "a batch in doubt is still known to be written"
        write(log, keyed((b"b", b"1"), producer=(7, 3, 12)))
        await rolled_and_compacted(log)
        assert [header.producer_id for header in headers_of(log)] == [-1, 8, 7]

    run(test)
