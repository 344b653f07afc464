"""Writes go one by one, with the number that was told, and bounded."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels import writing
from oncelog_partition_leader.core.channels.writing import WriteQueue


def test_what_is_settled_meanwhile_goes_with_the_next_write() -> None:
    writes = WriteQueue(4)
    assert (writes.number, writes.confirmed) == (4, 4)
    writes.settle(1, 2)
    assert writes.number == 5
    first = writes.begin()
    assert first is not None
    assert list(first.settled) == [(1, 2)]
    writes.settle(3, 3)
    writes.give_back(9)
    assert writes.number == 6
    assert writes.begin() is None, "one at a time"
    writes.check()
    assert writes.written(5) is first
    second = writes.begin()
    assert second is not None
    assert (second.number, list(second.settled), list(second.retried)) == (6, [(3, 3)], [9])
    assert writes.number == 6
    writes.check()


@pytest.mark.parametrize("number", [4, 6])
def test_another_number_confirms_nothing(number: int) -> None:
    writes = WriteQueue(4)
    writes.settle(1, 1)
    writes.begin()
    assert writes.written(number) is None
    assert writes.confirmed == 4
    assert writes.outstanding is not None


def test_nothing_outstanding_is_not_confirmed() -> None:
    writes = WriteQueue(4)
    writes.settle(1, 1)
    assert writes.written(5) is None


def test_what_is_too_much_for_one_write_goes_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_RANGES", 2)
    monkeypatch.setattr(writing, "MAX_RETRIED", 3)
    writes = WriteQueue(0)
    for offset in (0, 2, 4, 6, 8):
        writes.settle(offset, offset)
    assert writes.number == 3
    for offset in (11, 12, 13, 14):
        writes.give_back(offset)
    assert writes.number == 4
    writes.check()
    drafts = []
    while writes.has_news:
        draft = writes.begin()
        assert draft is not None
        drafts.append((len(draft.settled), len(draft.retried)))
        writes.written(draft.number)
    assert drafts == [(2, 0), (2, 0), (1, 3), (0, 1)]
    assert writes.confirmed == 4


def test_a_seek_is_a_write_of_its_own_and_forgets_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_RANGES", 1)
    writes = WriteQueue(0)
    writes.settle(0, 0)
    outstanding = writes.begin()
    assert outstanding is not None
    for offset in (2, 4, 6):
        writes.settle(offset, offset)
    told = writes.number
    assert not writes.is_seeking
    assert writes.seek()
    assert not writes.seek(), "the one that waits takes along the second"
    assert not outstanding.settled
    assert writes.number == told, "who waits for a number gets it"
    writes.settle(1, 1)
    writes.check()
    drafts = []
    writes.written(1)
    while writes.has_news:
        draft = writes.begin()
        assert draft is not None
        drafts.append((draft.number, draft.is_seek, list(draft.settled)))
        assert writes.is_seeking == draft.is_seek
        writes.written(draft.number)
    assert drafts == [(2, True, []), (3, False, []), (4, False, [(1, 1)])]


def test_what_follows_a_seek_is_not_in_its_write() -> None:
    writes = WriteQueue(0)
    assert writes.seek()
    writes.settle(1, 1)
    writes.give_back(2)
    assert writes.number == 2
    writes.check()


def test_a_write_may_hold_nothing() -> None:
    writes = WriteQueue(3)
    assert not writes.has_news
    draft = writes.begin()
    assert draft is not None
    assert draft.number == writes.number == 4


def test_a_record_that_is_given_back_again_and_again_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator does not answer for long, and more records than one write takes go to and fro."""
    monkeypatch.setattr(writing, "MAX_RETRIED", 2)
    queue = WriteQueue(0)
    queue.give_back(0)
    assert queue.begin() is not None
    for _ in range(100):
        for offset in range(6):
            queue.give_back(offset)
        queue.check()
    assert queue.number == 4
    assert queue.written(1) is not None
    draft = queue.begin()
    assert draft is not None
    assert list(draft.retried) == [0, 1]
    queue.give_back(0)
    queue.check()
    assert queue.number == 5, "what is under way may be older than this"
