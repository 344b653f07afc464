"""Queues of a producer: batching, linger, order and the bound of memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.produce.accumulator import BATCH_OVERHEAD_BYTES, Accumulator, Batch, Row, row_bytes
from oncelog.errors import MessageTooLargeError
from oncelog.types import PartitionId

P0, P1 = PartitionId("t", 0), PartitionId("t", 1)
BATCH_BYTES = BATCH_OVERHEAD_BYTES + 100


def accumulator(linger_ms: int = 0, memory: int = 10_000) -> Accumulator:
    return Accumulator(BATCH_BYTES, linger_ms, memory, delivery_timeout_ms=1_000)


def add(queues: Accumulator, partition: PartitionId = P0, size: int = 40, now_ms: int = 0) -> tuple[Batch, int]:
    return queues.add_row(partition, Row("topic", None, None, b"v", 0, (), size), now_ms)


def test_rows_share_a_batch_until_it_is_full() -> None:
    queues = accumulator()
    first, index0 = add(queues)
    second, index1 = add(queues)
    third, index2 = add(queues)
    assert first is second
    assert third is not first
    assert (index0, index1, index2) == (0, 1, 0)


def test_batches_are_taken_in_the_order_of_filling() -> None:
    queues = accumulator()
    batches = [add(queues)[0] for _ in range(6)]
    assert [queues.take(P0) for _ in range(3)] == [batches[0], batches[2], batches[4]]
    assert queues.peek(P0) is None


def test_an_open_batch_lingers_and_a_full_one_does_not() -> None:
    queues = accumulator(linger_ms=50)
    add(queues, now_ms=10)
    assert queues.ready_at_ms(P0) == 60
    add(queues, now_ms=20)
    assert queues.ready_at_ms(P0) == 60, "it still has room"
    add(queues, now_ms=30)
    assert queues.ready_at_ms(P0) == 10, "a second batch began, so the first is full"
    assert queues.ready_at_ms(P1) is None


def test_a_row_larger_than_a_batch_gets_one_of_its_own() -> None:
    queues = accumulator()
    big, _ = add(queues, size=5_000)
    small, _ = add(queues)
    assert big is not small
    assert queues.ready_at_ms(P0) == 0


def moved(queues: Accumulator) -> Batch:
    """A batch that was encoded, and never sent, goes to another partition."""
    batch, _ = add(queues, P1)
    queues.take(P1)
    batch.encoded = b"old"
    batch.drop_content()
    batch.move_to(P0)
    queues.put_first([batch])
    return batch


@pytest.mark.parametrize("together", [False, True], ids=["one row", "a run"])
def test_no_row_joins_a_batch_that_is_encoded(together: bool) -> None:
    """The row was acknowledged with the batch, whose bytes did not have it."""
    queues = accumulator()
    old = moved(queues)
    row = Row("topic", None, None, b"new", 0, (), 10)
    new, index = queues.add_rows(P0, [row, row], 0)[:2] if together else queues.add_row(P0, row, 0)
    assert new is not old
    assert (index, old.record_count, new.values[0]) == (0, 1, b"new")
    assert [queues.take(P0), queues.take(P0)] == [old, new]


def test_what_takes_no_more_rows_does_not_linger() -> None:
    queues = accumulator(linger_ms=50)
    moved(queues)
    queues.add_arrow(P1, "topic", None, 1, 10, 0, now_ms=3)
    assert (queues.ready_at_ms(P0), queues.ready_at_ms(P1)) == (0, 3)
    row, _ = add(queues, P1, now_ms=4)
    assert queues.take(P1) is not row
    assert queues.ready_at_ms(P1) == 54


def test_memory_is_counted_until_the_batch_is_released() -> None:
    queues = accumulator(memory=BATCH_BYTES)
    batch, _ = add(queues, size=100)
    assert queues.used_bytes == BATCH_BYTES
    assert not queues.has_room(1)
    queues.take(P0)
    assert not queues.has_room(1), "it is on its way, not gone"
    queues.release(batch)
    assert queues.used_bytes == 0


def test_an_empty_buffer_takes_anything() -> None:
    assert accumulator(memory=BATCH_BYTES).has_room(1_000_000)


def test_expired_batches_leave_their_queue() -> None:
    queues = accumulator()
    old, _ = add(queues, now_ms=0)
    young, _ = add(queues, P1, now_ms=500)
    assert queues.expired(999) == []
    assert queues.expired(1_000) == [old]
    assert queues.waiting() == [P1]
    assert queues.peek(P1) is young


def test_headers_of_a_later_row_leave_the_earlier_ones_without() -> None:
    batch = Batch(P0, "topic", 0, 0)
    batch.add(Row("topic", None, None, b"a", 0, (), 20))
    batch.add(Row("topic", None, None, b"b", 0, (("h", b"1"),), 20))
    batch.add(Row("topic", None, None, b"c", 0, (), 20))
    assert batch.headers == [(), (("h", b"1"),), ()]


def test_a_batch_is_resolved_once() -> None:
    heard: list[int] = []
    batch = Batch(P0, "topic", 0, 0)
    batch.add(Row("topic", None, None, b"a", 5, (), 20))
    batch.on_done.append(lambda b: heard.append(b.base_offset))
    assert batch.resolve(None, base_offset=3)
    assert not batch.resolve(MessageTooLargeError())
    assert batch.error is None
    assert heard == [3]
    assert batch.timestamps_ms == [5]


def test_who_sees_that_a_batch_is_done_sees_its_outcome() -> None:
    """Another thread may look at any moment (`oncelog.sync`): done, and neither an error nor an offset yet, was a lie."""
    seen: list[tuple[object, ...]] = []

    class Watched(Batch):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "done" and value:
                seen.append((self.error, self.base_offset, self.encoded))

    refused, written = (Watched(PartitionId("t", 0), "orders", 0, 10) for _ in range(2))
    for batch in (refused, written):
        batch.encoded = b"bytes"
    error = MessageTooLargeError()
    refused.resolve(error)
    written.resolve(None, 7)
    assert seen == [(error, -1, b""), (None, 7, b"")]


def test_a_rows_size_counts_all_its_parts() -> None:
    assert row_bytes(None, None, ()) == 16
    assert row_bytes(b"ab", b"cde", (("h", b"12"), ("n", None))) == 16 + 5 + (1 + 2 + 16) + (1 + 16)
    assert row_bytes(None, None, (("\u20ac", b"1"),)) == 16 + (3 + 1 + 16), "as UTF-8"


SIZED_ROWS = st.lists(
    st.tuples(st.integers(1, 130), st.sampled_from([(), (("h", b"x"),)])).map(
        lambda made: Row("topic", 0, None, b"%d" % made[0], made[0], made[1], made[0])
    ),
    max_size=40,
)


@given(SIZED_ROWS, st.integers(0, 40))
def test_rows_together_make_the_batches_that_they_make_one_by_one(rows: list[Row], before: int) -> None:
    one_by_one, together = accumulator(), accumulator()
    for row in rows[:before]:
        one_by_one.add_row(P0, row, 0)
        together.add_row(P0, row, 0)
    expected = [one_by_one.add_row(P0, row, 0) for row in rows[before:]]
    left, places = rows[before:], []
    while left:
        batch, index, count = together.add_rows(P0, left, 0)
        places += [(batch, index + i) for i in range(count)]
        left = left[count:]
    assert [index for _, index in places] == [index for _, index in expected]
    assert together.used_bytes == one_by_one.used_bytes
    for (batch, _), (alone, _) in zip(places, expected, strict=True):
        assert batch.values == alone.values
        assert batch.timestamps_ms == alone.timestamps_ms
        assert batch.headers == alone.headers
        assert (batch.record_count, batch.size_bytes) == (alone.record_count, alone.size_bytes)
