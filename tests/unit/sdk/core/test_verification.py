"""The check of exactly-once finds each anomaly by its name in planted histories, and nothing in sound ones."""

from __future__ import annotations

import pytest

from oncelog.core.verification import ANOMALIES, Ledger, Outcome, Place, Reading, open_record, seal_record

RUN = 7
Read = tuple[int, int, int, int]
"""(partition, producer, transaction, sequence)."""


def value(partition: int, producer: int, transaction: int, sequence: int, run: int = RUN) -> bytes:
    return seal_record(Place(run, producer, transaction, partition, sequence), 100)


def ledger() -> Ledger:
    """Producer 1: transaction 1 commits two records in partition 0 and one in 1, 2 aborts, 3 is unknown, 4 stays open."""
    book = Ledger()
    for transaction in (1, 2, 3, 4):
        book.began(1, transaction)
    book.ended(1, 1, Outcome.COMMITTED, {0: 2, 1: 1})
    book.ended(1, 2, Outcome.ABORTED, {0: 1})
    book.ended(1, 3, Outcome.UNKNOWN, {0: 1, 1: 1})
    return book


SOUND: list[Read] = [(0, 1, 1, 0), (0, 1, 1, 1), (1, 1, 1, 0)]


def names(reads: list[Read]) -> list[str]:
    reading = Reading(RUN)
    for offset, read in enumerate(reads):
        reading.take(read[0], offset, value(*read))
    return [anomaly.name for anomaly in reading.finish(ledger())]


@pytest.mark.parametrize("unknown", [[], [(0, 1, 3, 0), (1, 1, 3, 0)]])
def test_sound_histories_have_no_anomaly(unknown: list[Read]) -> None:
    assert names(SOUND + unknown) == []


@pytest.mark.parametrize(
    ("reads", "name"),
    [
        ([*SOUND, (1, 1, 1, 0)], "duplicate"),
        ([SOUND[1], SOUND[0], SOUND[2]], "reordered"),
        ([], "lost"),
        ([SOUND[0], SOUND[1]], "torn"),
        ([SOUND[1], SOUND[2]], "torn"),
        ([*SOUND, (0, 1, 2, 0)], "aborted-visible"),
        ([*SOUND, (0, 1, 3, 0)], "torn"),
        ([*SOUND, (0, 1, 4, 0)], "open-visible"),
        ([*SOUND, (0, 9, 1, 0)], "open-visible"),
    ],
)
def test_each_anomaly_is_found_by_its_name(reads: list[Read], name: str) -> None:
    found = names(reads)
    assert name in found
    assert set(found) <= set(ANOMALIES)


def test_changed_bytes_and_misplaced_records_are_corrupt() -> None:
    reading = Reading(RUN)
    changed = bytearray(value(0, 1, 1, 0))
    changed[40] ^= 1
    for bad in (bytes(changed), b"short", None):
        assert reading.take(0, 0, bad) is None
    assert [a.name for a in reading.anomalies] == ["corrupt"]
    other = Reading(RUN)
    other.take(1, 0, value(0, 1, 1, 0))
    assert [a.name for a in other.anomalies] == ["corrupt"]


def test_other_runs_are_no_part_of_it() -> None:
    reading = Reading(RUN)
    assert reading.take(0, 0, value(0, 1, 2, 0, run=8)) is None
    assert reading.records == 0
    assert reading.anomalies == []


def test_a_second_pass_must_see_the_same() -> None:
    first, second, less = Reading(RUN), Reading(RUN), Reading(RUN)
    for offset, read in enumerate(SOUND):
        first.take(read[0], offset, value(*read))
        second.take(read[0], offset, value(*read))
    assert second.finish(ledger(), earlier=first) == []
    for offset, read in enumerate(SOUND):
        less.take(read[0], offset + 1, value(*read))  # the same records at other offsets
    assert [a.name for a in less.finish(ledger(), earlier=first)] == ["unrepeatable-read"]


@pytest.mark.parametrize("size", [1, 44, 64, 100, 333, 5_000])
def test_records_have_the_size_that_was_asked_for(size: int) -> None:
    place = Place(RUN, 1, 2, 3, 4)
    sealed = seal_record(place, size)
    assert len(sealed) == max(size, 44)
    assert open_record(sealed) == place
