"""Failures that nobody awaited: none is passed over, however many were awaited before it."""

from __future__ import annotations

from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.unseen_failures import UnseenFailures
from oncelog.errors import InvalidRecordError
from oncelog.types import PartitionId


def failed(number: int, is_observed: bool = False) -> Batch:
    batch = Batch(PartitionId("t", 0), "topic", 0, 0)
    batch.record_count = 2
    batch.observed = 2 if is_observed else 1
    batch.resolve(InvalidRecordError(str(number)))
    return batch


def test_the_first_that_nobody_awaited_is_told_once() -> None:
    failures = UnseenFailures()
    for number, is_observed in enumerate([True, False, False]):
        failures.add(failed(number, is_observed))
    told = failures.take()
    assert told is not None
    assert told.message == "1"
    assert failures.take() is None


def test_one_that_is_awaited_after_it_failed_is_not_told_and_hides_none_that_came_later() -> None:
    failures = UnseenFailures()
    first, second = failed(1), failed(2)
    failures.add(first)
    failures.add(second)
    first.observed = 2
    assert failures.take() is second.error


def test_however_many_were_awaited_the_next_one_is_told() -> None:
    """After a hundred failures that were caught, flush and close said nothing of a record that was lost."""
    failures = UnseenFailures()
    for number in range(5_000):
        failures.add(failed(number, is_observed=True))
    assert len(failures._kept) < 200
    lost = failed(5_000)
    failures.add(lost)
    for number in range(5_000):
        failures.add(failed(number, is_observed=True))
    assert failures.take() is lost.error


def test_of_a_great_many_the_first_is_told_and_not_all_are_kept() -> None:
    failures = UnseenFailures()
    batches = [failed(number) for number in range(25_000)]
    for batch in batches:
        failures.add(batch)
    assert len(failures._kept) <= 10_000
    assert failures.take() is batches[0].error
    assert failures.take() is None
