"""Pairs come out once, in order, never early and less than a tick late, whatever the times and the clock do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_partition_leader.core.delays.timing_wheel import (
    FAR_MS,
    MIDDLE_MS,
    PAIR_BYTES,
    REMOTE_MS,
    SPILL_PAIRS,
    TICK_MS,
    Bucket,
    LostBucketError,
    Pairs,
    TimingWheel,
)

NOW_MS = 1_700_000_000_123
YEAR_MS = 365 * 86_400_000


def pairs(*items: tuple[int, int]) -> Pairs:
    return np.array(items, np.int64).reshape(-1, 2)


class Disk:
    """Files of buckets, as a shell keeps them."""

    def __init__(self) -> None:
        self.files: dict[Bucket, bytes] = {}

    def serve(self, wheel: TimingWheel, now_ms: int) -> None:
        self.take(wheel)
        while wanted := wheel.wanted_buckets(now_ms):
            for bucket in wanted:
                wheel.load(bucket, self.files.pop(bucket, b""), now_ms)
            self.take(wheel)

    def take(self, wheel: TimingWheel) -> None:
        for spill in wheel.take_spills():
            self.files[spill.bucket] = self.files.get(spill.bucket, b"") + spill.data


def run_to(wheel: TimingWheel, disk: Disk, now_ms: int, end_ms: int) -> list[tuple[int, int, int]]:
    """Looks whenever the wheel asks for it, up to `end_ms`. Returns (when, due, offset)."""
    out = []
    while True:
        disk.serve(wheel, now_ms)
        out += [(now_ms, *pair) for pair in wheel.due(now_ms).tolist()]
        next_ms = wheel.next_due_ms()
        if next_ms is None or next_ms > end_ms:
            return out
        now_ms = max(next_ms, now_ms + 1)


@given(
    st.lists(
        st.one_of(st.integers(-5_000, 20_000), st.integers(0, 3 * FAR_MS), st.integers(0, YEAR_MS)),
        min_size=1,
        max_size=60,
    )
)
@settings(deadline=None)
def test_each_pair_comes_once_never_early_and_less_than_a_tick_late(delays: list[int]) -> None:
    wheel, disk = TimingWheel(), Disk()
    wanted = [(NOW_MS + delay, offset) for offset, delay in enumerate(delays)]
    half = len(wanted) // 2
    wheel.add(pairs(*wanted[:half]), NOW_MS)
    wheel.due(NOW_MS - 10_000)  # the levels have begun to move before the second half comes
    wheel.add(pairs(*wanted[half:]), NOW_MS)
    out = run_to(wheel, disk, NOW_MS, NOW_MS + YEAR_MS + REMOTE_MS)
    assert sorted(pair[1:] for pair in out) == sorted(wanted)
    for when, due, _ in out:
        assert due <= when
        assert when < max(due, NOW_MS) + TICK_MS
    assert wheel.in_memory == 0
    assert wheel.next_due_ms() is None


def test_what_is_due_comes_in_the_order_of_times_and_offsets() -> None:
    wheel = TimingWheel()
    wheel.add(pairs((NOW_MS + 8, 3), (NOW_MS + 1, 9), (NOW_MS + 1, 2)), NOW_MS)
    assert wheel.due(NOW_MS + 8 + TICK_MS).tolist() == [[NOW_MS + 1, 2], [NOW_MS + 1, 9], [NOW_MS + 8, 3]]


def test_what_was_due_long_ago_costs_its_pairs_and_nothing_for_each_time() -> None:
    wheel = TimingWheel()
    count = 10_000
    wheel.add(np.column_stack((NOW_MS - np.arange(count) * MIDDLE_MS, np.arange(count))), NOW_MS)
    assert not wheel._near.slots
    assert not wheel._middle.slots
    assert wheel.next_due_ms() == NOW_MS - (count - 1) * MIDDLE_MS
    wheel.keep_late(lambda offsets: offsets % 100 == 0)
    assert wheel.late == wheel.in_memory == count // 100
    assert wheel.due(NOW_MS)[:, 1].tolist() == list(range(count - 100, -1, -100))


def test_what_was_due_is_not_handed_out_after_the_clock_has_gone_back_before_its_time() -> None:
    wheel = TimingWheel()
    wheel.add(pairs((NOW_MS - 10, 1), (NOW_MS, 2)), NOW_MS)
    assert wheel.due(NOW_MS - 5)[:, 1].tolist() == [1]
    assert wheel.due(NOW_MS - 1)[:, 1].tolist() == []
    assert wheel.due(NOW_MS + TICK_MS)[:, 1].tolist() == [2]


def test_a_clock_that_goes_back_only_delays() -> None:
    wheel = TimingWheel()
    wheel.add(pairs((NOW_MS + 1_000, 1)), NOW_MS)
    assert not len(wheel.due(NOW_MS - FAR_MS))
    wheel.add(pairs((NOW_MS + 1_000, 2)), NOW_MS - FAR_MS)
    assert not len(wheel.due(NOW_MS))
    assert wheel.due(NOW_MS + 1_000 + TICK_MS)[:, 1].tolist() == [1, 2]


def test_a_far_bucket_keeps_a_bounded_part_in_memory_and_comes_back_from_its_file() -> None:
    wheel, disk = TimingWheel(), Disk()
    due_ms = NOW_MS + 10 * FAR_MS
    count = 0
    for begin in range(0, 3 * SPILL_PAIRS + 5, 100):
        offsets = np.arange(begin, begin + 100)
        wheel.add(np.column_stack((np.full(100, due_ms), offsets)), NOW_MS)
        count += 100
        disk.serve(wheel, NOW_MS)
        assert wheel.in_memory < SPILL_PAIRS + 100
    bucket = Bucket(FAR_MS, due_ms // FAR_MS)
    assert wheel.spilled(bucket) * PAIR_BYTES == len(disk.files[bucket]) >= 2 * SPILL_PAIRS * PAIR_BYTES
    out = run_to(wheel, disk, NOW_MS, due_ms + MIDDLE_MS)
    assert [offset for _, _, offset in out] == list(range(count))
    assert not disk.files


def test_a_spill_that_was_not_taken_need_not_be_in_the_file() -> None:
    wheel = TimingWheel()
    due_ms = NOW_MS + 10 * FAR_MS
    wheel.add(np.column_stack((np.full(SPILL_PAIRS, due_ms), np.arange(SPILL_PAIRS))), NOW_MS)
    wheel.load(Bucket(FAR_MS, due_ms // FAR_MS), b"", due_ms)
    assert not wheel.take_spills()
    assert len(wheel.due(due_ms + TICK_MS)) == SPILL_PAIRS


@pytest.mark.parametrize("rot", [lambda data: data[:-PAIR_BYTES], lambda data: data[:7] + b"!" + data[8:]])
def test_a_file_that_is_not_what_was_written_is_noticed_and_nothing_is_forgotten(rot: Callable[[bytes], bytes]) -> None:
    wheel = TimingWheel()
    due_ms = NOW_MS + 10 * FAR_MS
    wheel.add(np.column_stack((np.full(SPILL_PAIRS, due_ms), np.arange(SPILL_PAIRS))), NOW_MS)
    (spill,) = wheel.take_spills()
    with pytest.raises(LostBucketError):
        wheel.load(spill.bucket, rot(spill.data), due_ms)
    wheel.load(spill.bucket, spill.data, due_ms)
    assert len(wheel.due(due_ms + TICK_MS)) == SPILL_PAIRS


def test_what_waits_for_a_year_takes_a_bounded_number_of_buckets() -> None:
    wheel = TimingWheel()
    due = NOW_MS + np.arange(20 * SPILL_PAIRS, dtype=np.int64) * (YEAR_MS // (20 * SPILL_PAIRS))
    wheel.add(np.column_stack((due, np.arange(len(due)))), NOW_MS)
    buckets = len(wheel._far.held) + len(wheel._remote.held)
    assert buckets <= 2 * REMOTE_MS // FAR_MS + YEAR_MS // REMOTE_MS + 1
    assert wheel.wanted_buckets(NOW_MS) == []
    wanted = wheel.wanted_buckets(NOW_MS + REMOTE_MS)
    assert [bucket.width_ms for bucket in wanted[:2]] == [REMOTE_MS, FAR_MS]
    assert all(bucket.begin_ms < NOW_MS + 3 * REMOTE_MS for bucket in wanted)
