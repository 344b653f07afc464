"""Each record is moved once, by whichever scheduler reads the log, and a cancelled one never."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog_partition_leader.core.delays.scheduler import (
    LATE_MAX,
    MOVE_RECORDS_MAX,
    REFUSED_PAUSE_MAX_MS,
    REFUSED_PAUSE_MS,
    Scheduler,
)
from oncelog_partition_leader.core.delays.timing_wheel import TICK_MS

NOW_MS = 1_700_000_000_000


def read(scheduler: Scheduler, *due_ms: int, now_ms: int = NOW_MS) -> None:
    """Reads records that follow what was read before."""
    begin = scheduler.next_offset
    offsets = np.arange(begin, begin + len(due_ms), dtype=np.int64)
    scheduler.read(np.array(due_ms, np.int64), offsets, begin + len(due_ms), now_ms)
    scheduler.check()


def test_a_record_is_moved_at_its_time_and_not_before() -> None:
    scheduler = Scheduler(7)
    read(scheduler, NOW_MS + 1_000, NOW_MS + 500)
    assert scheduler.take(NOW_MS + 499) == ()
    assert scheduler.take(NOW_MS + 500 + TICK_MS) == (8,)
    assert scheduler.keep_from() == 7
    scheduler.moved()
    assert scheduler.take(NOW_MS + 1_000 + TICK_MS) == (7,)
    assert scheduler.keep_from() == 7, "not before the move is committed"
    scheduler.moved()
    assert scheduler.keep_from() == 9
    assert scheduler.summary().moved == 2


def test_a_new_leader_holds_little_of_what_was_moved_long_ago() -> None:
    """One record that is due in a year keeps in the log what was delayed, and moved, since it was sent."""
    scheduler = Scheduler(0)
    read(scheduler, NOW_MS + 365 * 86_400_000)
    most = 0
    for piece in range(100):
        moved_ms = NOW_MS - np.arange(5_000, dtype=np.int64) * 10_000
        begin = scheduler.next_offset
        read(scheduler, *moved_ms.tolist())
        scheduler.read_done(range(begin, begin + 5_000), begin + 5_001)
        most = max(most, scheduler.wheel.in_memory)
        assert len(scheduler.wheel._near.slots) + len(scheduler.wheel._middle.slots) == 0, piece
    assert most <= LATE_MAX + 5_001
    assert scheduler.take(NOW_MS) == ()
    assert scheduler.summary().waiting == 1


def test_nothing_is_taken_while_a_move_is_under_way_and_a_failed_one_gives_back_in_order() -> None:
    scheduler = Scheduler(0)
    read(scheduler, *[NOW_MS + n for n in range(5)])
    late_ms = NOW_MS + 100
    assert scheduler.take(late_ms) == (0, 1, 2, 3, 4)
    assert scheduler.take(late_ms) == ()
    scheduler.put_back(3)
    scheduler.moved()
    assert scheduler.take(late_ms) == (3, 4)
    scheduler.put_back()
    assert scheduler.take(late_ms) == (3, 4)
    scheduler.moved()
    assert scheduler.take(late_ms) == ()
    assert scheduler.keep_from() == 5


def test_a_move_is_bounded() -> None:
    scheduler = Scheduler(0)
    read(scheduler, *[NOW_MS] * (MOVE_RECORDS_MAX + 3))
    assert len(scheduler.take(NOW_MS + TICK_MS)) == MOVE_RECORDS_MAX
    scheduler.moved()
    assert len(scheduler.take(NOW_MS + TICK_MS)) == 3


def test_what_an_earlier_leader_has_done_is_not_done_again() -> None:
    scheduler = Scheduler(0)
    read(scheduler, NOW_MS, NOW_MS, NOW_MS)
    scheduler.read_done([0, 2, 99], 4)
    assert scheduler.take(NOW_MS + TICK_MS) == (1,)


def test_a_cancelled_record_is_never_moved_and_one_that_is_moved_is_never_cancelled() -> None:
    scheduler = Scheduler(0)
    read(scheduler, NOW_MS, NOW_MS)
    assert scheduler.cancel([0, 9, 0]) == (0,)
    assert scheduler.take(NOW_MS + TICK_MS) == (), "one transaction at a time"
    assert scheduler.keep_from() == 0
    scheduler.cancelled()
    assert scheduler.cancel([0]) == ()
    scheduler.cancelled()
    assert scheduler.take(NOW_MS + TICK_MS) == (1,)
    scheduler.moved()
    assert scheduler.cancel([1]) == ()
    assert scheduler.keep_from() == 2
    assert scheduler.summary().cancelled == 1


def test_a_cancellation_that_was_not_written_lets_the_record_wait_on_once() -> None:
    scheduler = Scheduler(0)
    read(scheduler, NOW_MS + 50)
    scheduler.cancel([0])
    scheduler.not_cancelled()
    assert scheduler.take(NOW_MS + 100) == (0,)
    scheduler.moved()
    assert scheduler.take(NOW_MS + 10_000) == ()


def test_a_summary_tells_the_first_time_of_all_that_wait_also_of_what_is_overdue() -> None:
    scheduler = Scheduler(0)
    assert scheduler.summary()[:2] == (0, -1)
    read(scheduler, NOW_MS, NOW_MS + 5)
    assert scheduler.take(NOW_MS + 100) == (0, 1)
    assert scheduler.summary()[:2] == (2, NOW_MS)
    scheduler.put_back()
    assert scheduler.summary()[:2] == (2, NOW_MS)
    scheduler.cancel([0, 1])
    scheduler.cancelled()
    assert scheduler.summary()[:2] == (0, -1)


def test_a_refused_record_holds_up_no_other_and_is_tried_again_after_pauses_that_grow() -> None:
    scheduler = Scheduler(0)
    read(scheduler, *[NOW_MS] * 8)
    bad, done, now_ms = 5, [], NOW_MS + TICK_MS
    for _ in range(30):
        taken = scheduler.take(now_ms)
        if bad in taken:
            scheduler.refused(now_ms)
        else:
            done += taken
            scheduler.moved()
        scheduler.check()
    assert sorted(done) == [0, 1, 2, 3, 4, 6, 7]
    assert scheduler.summary()[:2] == (1, NOW_MS), "it waits since it was due"
    assert scheduler.summary().refused == 1
    assert scheduler.keep_from() == bad
    assert scheduler.take(now_ms + REFUSED_PAUSE_MS - 1) == ()
    pauses = []
    for _ in range(12):
        began_ms = now_ms
        while scheduler.take(now_ms) != (bad,):
            due_ms = scheduler.next_due_ms(now_ms)
            assert due_ms is not None
            now_ms = max(due_ms, now_ms + 1)
            for bucket in scheduler.wheel.wanted_buckets(now_ms):
                scheduler.wheel.load(bucket, b"", now_ms)
        assert scheduler.refused(now_ms)
        pauses.append(now_ms - began_ms)
    assert pauses[2] > 1.9 * pauses[1]
    assert pauses[-1] < REFUSED_PAUSE_MAX_MS + 2 * TICK_MS
    assert scheduler.cancel([bad]) == (bad,)
    scheduler.cancelled()
    scheduler.check()
    assert scheduler.summary() == (0, -1, 7, 1, 0)


def test_after_a_refusal_moves_become_as_large_as_before() -> None:
    scheduler = Scheduler(0)
    read(scheduler, *[NOW_MS] * (3 * MOVE_RECORDS_MAX))
    now_ms = NOW_MS + TICK_MS
    assert len(scheduler.take(now_ms)) == MOVE_RECORDS_MAX
    assert not scheduler.refused(now_ms)
    assert len(scheduler.take(now_ms)) == MOVE_RECORDS_MAX // 2
    scheduler.moved()
    assert len(scheduler.take(now_ms)) == MOVE_RECORDS_MAX


class Partition:
    """A waiting partition over several leaders: what is committed in it, and what became of its records."""

    def __init__(self) -> None:
        self.log: list[tuple[int, ...] | int] = []  # a record's time, or the offsets of a done batch
        self.moved: list[int] = []
        self.cancelled: list[int] = []
        self.now_ms = self.latest_ms = NOW_MS
        self.scheduler = Scheduler(0)

    def passes(self, time_ms: int) -> None:
        self.now_ms += time_ms
        self.latest_ms = max(self.latest_ms, self.now_ms)

    def catch_up(self) -> None:
        for item in self.log[self.scheduler.next_offset :]:
            if isinstance(item, int):
                read(self.scheduler, item, now_ms=self.now_ms)
            else:
                self.scheduler.read_done(item, self.scheduler.next_offset + 1)

    def send(self, delay_ms: int) -> None:
        self.log.append(self.now_ms + delay_ms)

    def move(self) -> None:
        if taken := self.scheduler.take(self.now_ms):
            assert all(self.log[at] <= self.latest_ms for at in taken), (
                "a clock that goes back makes nothing undue again"
            )
            self.moved.extend(taken)
            self.log.append(taken)
            self.scheduler.moved()

    def fail(self) -> None:
        self.scheduler.take(self.now_ms)
        self.scheduler.put_back()

    def cancel(self, offset: int) -> None:
        if not self.scheduler.cancel([offset]):
            is_record = offset < len(self.log) and isinstance(self.log[offset], int)
            assert not is_record or offset in (*self.moved, *self.cancelled)
            return
        self.cancelled.append(offset)
        self.log.append((offset,))
        self.scheduler.cancelled()

    def lose(self, offset: int) -> None:
        self.scheduler.cancel([offset])
        self.scheduler.not_cancelled()

    def refuse(self) -> None:
        if self.scheduler.take(self.now_ms):
            self.scheduler.refused(self.now_ms)

    def another_leader(self) -> None:
        begin = self.scheduler.keep_from()
        done = {*self.moved, *self.cancelled}
        assert all(at in done for at, item in enumerate(self.log[:begin]) if isinstance(item, int))
        self.scheduler = Scheduler(begin)


STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 30_000)),
    st.tuples(st.sampled_from(["cancel", "lose"]), st.integers(0, 30)),
    st.tuples(st.just("clock"), st.integers(-5_000, 20_000)),
    st.tuples(st.sampled_from(["move", "fail", "refuse", "another_leader"])),
)


@settings(deadline=None)
@example([("send", 0), ("clock", 1), ("fail",), ("clock", -2), ("move",)])
@given(st.lists(STEPS, max_size=40))
def test_over_any_number_of_leaders_each_record_is_moved_or_cancelled_once(steps: list[tuple[str, int]]) -> None:
    partition = Partition()
    for name, *numbers in steps:
        partition.catch_up()
        if name == "clock":
            partition.passes(numbers[0])
        else:
            getattr(partition, name)(*numbers)
        partition.scheduler.check()
    partition.catch_up()
    partition.passes(10_000_000)
    for _ in range(10):  # after a refusal moves are small at first
        partition.scheduler.check()
        for bucket in partition.scheduler.wheel.wanted_buckets(partition.now_ms):
            partition.scheduler.wheel.load(bucket, b"", partition.now_ms)
        partition.move()
    records = [at for at, item in enumerate(partition.log) if isinstance(item, int)]
    assert sorted(partition.moved + partition.cancelled) == records
