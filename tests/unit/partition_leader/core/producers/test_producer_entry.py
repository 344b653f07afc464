"""Producers outside of transactions: how old an entry is, what an expired one is still known by."""

from __future__ import annotations

import pytest

from oncelog.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
)
from oncelog_partition_leader.core.producers import producer_entry
from oncelog_partition_leader.core.producers.decisions import (
    APPEND,
    Duplicate,
)
from oncelog_partition_leader.core.producers.producer_entry import ProducerEntries
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.transactions import TxnName
from tests.unit.partition_leader.log_helpers import NOW_MS, States, batch, refuses

DAY_MS = 24 * 3600 * 1000


def test_expiry_follows_the_logs_own_time() -> None:
    log = States()
    log.write(batch(1, 0), now_ms=NOW_MS)
    log.write(batch(2, 0), now_ms=NOW_MS + DAY_MS - 1)
    assert log.states.producer(1) is log.states.producers.live.get(1)
    log.write(batch(2, 1), now_ms=NOW_MS + DAY_MS)
    assert 1 in log.states.producers.expired


def test_an_expired_producer_is_still_known_exactly() -> None:
    log = States()
    for sequence in range(3):
        log.write(batch(1, sequence, epoch=4))
    log.write(batch(2, 0), now_ms=NOW_MS + DAY_MS)
    for again in (log, States(ProducerStates.restore(log.states.snapshot()))):
        assert again.decide(batch(1, 1, epoch=4)) == Duplicate(-1, -1, 4)
        refuses(again, batch(1, 9, epoch=4), OutOfOrderSequenceError)
        refuses(again, batch(1, 0, epoch=3), InvalidProducerEpochError)
        assert again.write(batch(1, 3, epoch=4), now_ms=NOW_MS + DAY_MS) is APPEND
        assert 1 not in again.states.producers.expired


def test_a_producer_of_an_open_transaction_does_not_expire() -> None:
    log = States()
    log.write(batch(1, 0))
    log.write(batch(1, 0, txn=(1, 1)))
    log.write(batch(2, 0), now_ms=NOW_MS + DAY_MS)
    assert 1 in log.states.producers.live


def test_a_clock_that_steps_back_expires_nobody_and_breaks_no_order() -> None:
    log = States()
    log.write(batch(1, 0), now_ms=NOW_MS)
    log.write(batch(2, 0), now_ms=NOW_MS - DAY_MS)
    log.write(batch(1, 1), now_ms=NOW_MS - 5)
    log.write(batch(3, 0), now_ms=NOW_MS + DAY_MS - 1)
    assert not log.states.producers.expired


def test_a_batch_makes_a_bounded_number_of_producers_expire_and_the_next_ones_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_entry, "_EXPIRE_AT_ONCE", 100)
    log = States()
    for producer_id in range(250):
        log.write(batch(producer_id, 0), now_ms=NOW_MS)
    left = []
    for sequence in range(4):
        log.write(batch(999, sequence), now_ms=NOW_MS + DAY_MS)
        left.append(len(log.states.producers.live) - 1)
        replica = States(ProducerStates.restore(log.states.snapshot()))
        replica.write(batch(999, sequence + 1), now_ms=NOW_MS + DAY_MS)
        assert len(replica.states.producers.live) - 1 == max(0, left[-1] - 100), "and so does one that was restored"
    assert left == [150, 50, 0, 0]


def test_too_many_producers_expire_early_and_are_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_entry, "LIVE_MAX", 10)
    log = States()
    log.write(batch(1, 0, txn=(1, 1)))
    for producer_id in range(2, 40):
        log.write(batch(producer_id, 0))
    assert len(log.states.producers.live) <= 11
    assert log.decide(batch(2, 0)) == Duplicate(-1, -1, log.states.end_offset), "no duplicate gets in"
    refuses(log, batch(2, 5), OutOfOrderSequenceError)
    assert TxnName(1, 1) in log.states.transactions.open


# ---------------------------------------------------------------- the table by itself


def entries(*producer_ids: int, epoch: int = 3) -> ProducerEntries:
    found = ProducerEntries(DAY_MS)
    found.advance(1_000, {})
    for producer_id in producer_ids:
        found.touch(producer_id, epoch, 10)
    return found


def test_a_fence_sets_aside_what_the_old_epoch_wrote() -> None:
    found = entries(7)
    window = found.live[7].window
    found.fence(7, 4, 20)
    entry = found.live[7]
    assert (entry.producer_epoch, entry.set_aside) == (4, (3, window))
    assert entry.window_of(3) is window
    assert entry.window_of(4) is entry.window
    assert entry.window_of(2) is None
    found.check()


def test_a_fence_of_somebody_unknown_or_of_the_same_epoch_sets_nothing_aside() -> None:
    found = entries(7)
    found.fence(8, 0, 20)
    found.fence(7, 3, 20)
    assert found.live[8].set_aside is None
    assert found.live[7].set_aside is None


def test_an_entry_that_a_snapshot_has_taken_is_copied_before_it_changes() -> None:
    found = entries(7, 8)
    taken = found.freeze()
    before = list(taken.records())
    found.touch(7, 3, 10).window.push(0, 2, 10, 1, 1_000)
    found.fence(8, 5, 20)
    found.touch(9, 0, 10)
    assert list(taken.records()) == before
    again = found.touch(7, 3, 12)
    assert again is found.live[7] is found.touch(7, 3, 12), "one copy is enough until the next snapshot"
    assert again.window.last_sequence == 1


def test_a_fence_of_an_expired_producer_sets_its_window_aside() -> None:
    found = entries(7)
    found.live[7].window.push(0, 2, 10, 1, 1_000)
    found.advance(1_000 + DAY_MS, {})
    assert 7 in found.expired
    found.fence(7, 4, 20)
    entry = found.live[7]
    assert entry.set_aside is not None
    assert (entry.set_aside[0], entry.set_aside[1].last_sequence) == (3, 1)
    found.check()
