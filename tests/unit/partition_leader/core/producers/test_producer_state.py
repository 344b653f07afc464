"""Duplicates, gaps, fences and transactions: holes 9, 10, 12, 15, 19, 22, 23."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from oncelog.core.batch.control import Marker, control_of
from oncelog.errors import (
    CoordinatorFencedError,
    CorruptMessageError,
    DuplicateSequenceError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OncelogError,
    OutOfOrderSequenceError,
    ResourceExhaustedError,
    TxnEndedError,
    UnknownProducerIdError,
)
from oncelog_partition_leader.core.producers import ended_transactions, live_producers, producer_snapshot
from oncelog_partition_leader.core.producers.decisions import (
    APPEND,
    AppendMarker,
    Duplicate,
    MarkerWritten,
    NeedsEnrolment,
    Origin,
    Written,
)
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.transactions import TxnName, TxnSession
from tests.unit.partition_leader.log_helpers import NOW_MS, SHARD, States, batch, fence, marker, plain, refuses

DAY_MS = 24 * 3600 * 1000


def _marker_decision(log: States, data: bytes, shard: int = SHARD) -> object:
    from oncelog.core.batch.header import read_header

    header, record = read_header(data), control_of(data)
    assert isinstance(record, Marker)
    return log.states.decide_marker(TxnName(header.txn_producer_id, header.txn_no), shard, record)


# ---------------------------------------------------------------- plain sequences (B)


@pytest.mark.case("B26")
def test_a_gap_is_out_of_order_and_the_next_is_taken() -> None:
    log = States()
    log.write(batch(1, 0, 2))
    refuses(log, batch(1, 5), OutOfOrderSequenceError)
    assert log.write(batch(1, 2)) is APPEND


@pytest.mark.case("B27")
def test_an_older_epoch_is_fenced() -> None:
    log = States()
    log.write(batch(1, 0, epoch=1))
    refuses(log, batch(1, 0, epoch=0), InvalidProducerEpochError)


@pytest.mark.case("B30")
def test_a_repeat_is_answered_with_the_first_offset() -> None:
    log = States()
    for sequence in range(6):
        log.write(batch(1, sequence))
    log.write(batch(1, 6, 3))
    log.write(batch(2, 0))
    assert log.decide(batch(1, 6, 3)) == Duplicate(6, NOW_MS, stable_after=9)


def test_a_duplicate_is_answered_when_the_newest_batch_is_stable() -> None:
    log = States()
    log.write(batch(1, 0))
    log.write(batch(1, 1, 4))
    assert log.decide(batch(1, 0)) == Duplicate(0, NOW_MS, stable_after=5)


@pytest.mark.case("B32")
def test_a_partial_overlap_is_out_of_order() -> None:
    log = States()
    log.write(batch(1, 0, 6))
    log.write(batch(1, 6, 3))
    refuses(log, batch(1, 7, 2), OutOfOrderSequenceError)


@pytest.mark.parametrize("origin", [Origin.REPLICATION, Origin.RECOVERY])
def test_what_a_leader_wrote_is_taken_as_it_is(origin: Origin) -> None:
    log = States()
    for data in (batch(1, 2), batch(1, 2), batch(1, 9)):
        assert log.decide(data, origin=origin, verified=False) is APPEND
        log.apply(data)
    assert log.write(batch(1, 10)) is APPEND


@pytest.mark.case("B36")
def test_a_new_epoch_begins_at_sequence_0() -> None:
    log = States()
    log.write(batch(1, 0, 5))
    refuses(log, batch(1, 5, epoch=1), OutOfOrderSequenceError)
    assert log.write(batch(1, 0, epoch=1)) is APPEND


@pytest.mark.case("B38")
def test_without_state_only_sequence_0_is_taken() -> None:
    log = States()
    log.states.log_start_offset = 77
    with pytest.raises(UnknownProducerIdError) as refusal:
        log.decide(batch(1, 3))
    assert refusal.value.context["log_start_offset"] == "77"


@pytest.mark.case("B49")
def test_the_same_sequence_with_other_content_is_a_bug() -> None:
    log = States()
    log.write(batch(1, 0))
    refuses(log, batch(1, 0, payload=b"other..."), DuplicateSequenceError)


def test_all_five_are_duplicates_after_a_snapshot() -> None:
    log = States()
    for sequence in range(8):
        log.write(batch(1, sequence))
    again = States(ProducerStates.restore(log.states.snapshot()))
    assert [again.decide(batch(1, n)) for n in range(3, 8)] == [Duplicate(n, NOW_MS, 8) for n in range(3, 8)]
    assert again.decide(batch(1, 1)) == Duplicate(-1, -1, 8)


def test_a_batch_without_producer_is_never_judged() -> None:
    log = States()
    assert log.write(plain()) is APPEND
    assert log.write(plain()) is APPEND


# ---------------------------------------------------------------- expiry (hole 23)


@pytest.mark.parametrize("seed", range(8))
def test_a_snapshot_that_is_encoded_late_is_of_the_moment_in_which_it_began(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_producers, "OBJECTS_MAX", 1 + seed * 5)
    monkeypatch.setattr(ended_transactions, "OBJECTS_MAX", 1 + seed)
    random, log = Random(seed), States()
    now_ms, sequences, fences, done = NOW_MS, dict[int, list[int]](), 0, 0
    running: list[tuple[producer_snapshot.Snapshot, bytes]] = []
    for step in range(1_000):
        now_ms += random.choice([0, 0, 1, DAY_MS // 20])
        producer_id = random.randrange(60)
        epoch_and_next = sequences.setdefault(producer_id, [0, 0])
        if random.random() < 0.1:
            fences += 1
            epoch_and_next[:] = [epoch_and_next[0] + 1, 0]
            log.apply(fence(producer_id, epoch_and_next[0]), now_ms=now_ms)
        elif random.random() < 0.3:
            name = 100 + random.randrange(12), 1 + step // 40
            with suppress(OncelogError):
                log.write(batch(name[0], random.choice([0, 1]), txn=name), now_ms=now_ms)
            if random.random() < 0.5:
                log.apply(marker(name), now_ms=now_ms)
        else:
            log.write(batch(producer_id, epoch_and_next[1], epoch=epoch_and_next[0]), now_ms=now_ms)
            epoch_and_next[1] += 1
        if random.random() < 0.1:
            running.append((log.states.begin_snapshot(), log.states.snapshot()))
        if running and random.random() < 0.1:
            late, expected = running.pop(random.randrange(len(running)))
            assert late.whole() == expected
            assert ProducerStates.restore(expected).snapshot() == expected
            done += 1
    assert done > 20
    assert fences > 20
    assert len(log.states.producers.expired) > 0


def test_packing_changes_no_decision_and_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for objects in (1, 3, 1_000):
        monkeypatch.setattr(live_producers, "OBJECTS_MAX", objects)
        monkeypatch.setattr(ended_transactions, "OBJECTS_MAX", objects)
        random, log, told = Random(5), States(), list[str]()
        for step in range(600):
            producer_id, sequence = random.randrange(12), random.randrange(8)
            name = (50 + random.randrange(8), 1 + step // 60)
            data = random.choice([batch(producer_id, sequence), batch(name[0], sequence % 3, txn=name)])
            try:
                told.append(str(log.write(data)))
            except OncelogError as error:
                told.append(str(error))
            if random.random() < 0.15:
                log.apply(marker(name, commit=random.random() < 0.5))
            if random.random() < 0.02:
                log.states.begin_snapshot()
        seen.append((told, log.states.snapshot()))
    assert seen[0] == seen[1] == seen[2]


# ---------------------------------------------------------------- fences (hole 22)


def test_a_fence_makes_not_written_final() -> None:
    log = States()
    log.write(batch(1, 0, 3, epoch=5))
    assert log.states.written(1, 5, 3, 4) == Written(False, -1, 3)
    assert log.states.fence_epoch(1, 5) == 6
    log.apply(fence(1, 6))
    refuses(log, batch(1, 3, 2, epoch=5), InvalidProducerEpochError)
    assert log.states.written(1, 5, 3, 4).written is False
    assert log.write(batch(1, 0, epoch=6)) is APPEND


def test_a_repeated_question_after_the_fence_gets_the_same_answer() -> None:
    log = States()
    log.write(batch(1, 0, 3, epoch=5))
    log.apply(fence(1, 6))
    for states in (log.states, ProducerStates.restore(log.states.snapshot())):
        assert states.written(1, 5, 0, 2) == Written(True, 0, 3)


def test_a_session_too_old_to_know_is_refused_not_answered() -> None:
    log = States()
    log.write(batch(1, 0, epoch=1))
    log.write(batch(1, 0, epoch=2))
    with pytest.raises(InvalidProducerEpochError):
        log.states.written(1, 1, 0, 0)


def test_a_fence_for_an_unknown_producer_is_remembered() -> None:
    log = States()
    log.apply(fence(9, 3))
    refuses(log, batch(9, 0, epoch=2), InvalidProducerEpochError)
    refuses(log, batch(9, 0, epoch=2, txn=(1, 1)), InvalidProducerEpochError)
    assert log.write(batch(9, 0, epoch=3)) is APPEND


# ---------------------------------------------------------------- transactions


def test_a_transaction_opens_only_on_the_coordinators_answer() -> None:
    log = States()
    data = batch(1, 0, epoch=4, txn=(1, 1))
    needs = log.decide(data, verified=False)
    assert needs == NeedsEnrolment(TxnSession(1, 1, 4), SHARD)
    assert log.decide(data, verified=True) is APPEND


def test_an_answer_for_one_session_opens_nothing_for_another() -> None:
    from oncelog.core.batch.header import read_header

    log = States()
    zombie = read_header(batch(1, 0, epoch=3, txn=(1, 1)))
    decision = log.states.decide(zombie, Origin.CLIENT, frozenset({TxnSession(1, 1, 4)}))
    assert isinstance(decision, NeedsEnrolment)


@pytest.mark.case("hole 9")
def test_sequences_start_at_0_in_every_transaction() -> None:
    log = States()
    log.write(batch(1, 0, 7, txn=(1, 1)))
    log.apply(marker((1, 1), commit=False))
    assert log.write(batch(1, 0, 7, txn=(1, 2), payload=b"new data")) is APPEND


def test_participants_have_their_own_sequences() -> None:
    log = States()
    assert log.write(batch(11, 0, 2, txn=(1, 1))) is APPEND
    assert log.write(batch(12, 0, 3, txn=(1, 1))) is APPEND
    assert log.write(batch(11, 2, txn=(1, 1))) is APPEND
    refuses(log, batch(12, 5, txn=(1, 1)), OutOfOrderSequenceError)
    assert log.decide(batch(12, 0, 3, txn=(1, 1))) == Duplicate(2, NOW_MS, stable_after=5)


@pytest.mark.case("C88", "C89")
def test_pipelined_transactions_are_kept_apart() -> None:
    log = States()
    log.write(batch(1, 0, txn=(1, 1)))
    log.write(batch(1, 0, txn=(1, 2)))
    assert [opened.name.txn_no for opened in log.states.open_transactions] == [1, 2]
    log.apply(marker((1, 1), commit=False))
    assert log.write(batch(1, 1, txn=(1, 2))) is APPEND
    refuses(log, batch(1, 1, txn=(1, 1)), TxnEndedError)
    log.apply(marker((1, 2)))
    assert [(entry.txn_no, entry.first_offset, entry.marker_offset) for entry in log.entries] == [(1, 0, 2)]


def test_a_marker_of_the_later_one_may_come_first() -> None:
    log = States()
    log.write(batch(1, 0, txn=(1, 1)))
    log.write(batch(1, 0, txn=(1, 2)))
    log.apply(marker((1, 2)))
    refuses(log, batch(1, 1, txn=(1, 1)), TxnEndedError)
    assert log.states.first_unstable_offset(3) == 0
    assert isinstance(_marker_decision(log, marker((1, 1), commit=False)), AppendMarker)
    log.apply(marker((1, 1), commit=False))
    assert log.states.first_unstable_offset(4) is None


@pytest.mark.case("hole 12")
def test_an_ended_transaction_never_opens_again() -> None:
    log = States()
    assert _marker_decision(log, marker((1, 3), commit=False)) == AppendMarker(lost=False, records=0)
    log.apply(marker((1, 3), commit=False))
    for again in (log, States(ProducerStates.restore(log.states.snapshot()))):
        refuses(again, batch(1, 0, txn=(1, 3)), TxnEndedError)
        refuses(again, batch(1, 0, txn=(1, 2)), TxnEndedError)
        assert again.decide(batch(1, 0, txn=(1, 4))) is APPEND


def test_a_repeated_marker_is_answered_by_the_first_one() -> None:
    log = States()
    log.write(batch(1, 0, 3, txn=(1, 1)))
    offset = log.apply(marker((1, 1), expected=3))
    assert _marker_decision(log, marker((1, 1), expected=3)) == MarkerWritten(offset)
    with pytest.raises(InvalidTxnStateError):
        _marker_decision(log, marker((1, 1), commit=False))


def test_a_marker_far_back_is_a_repeat() -> None:
    log = States()
    for number in range(1, 20):
        log.apply(marker((1, number)))
    assert _marker_decision(log, marker((1, 2))) == MarkerWritten(18)


def test_a_repeated_marker_in_the_log_changes_nothing() -> None:
    log = States()
    log.write(batch(1, 0, txn=(1, 1)))
    first = log.apply(marker((1, 1)))
    log.apply(marker((1, 1)))
    assert _marker_decision(log, marker((1, 1))) == MarkerWritten(first)
    assert log.entries == []


@pytest.mark.case("D96")
def test_a_deposed_coordinator_is_fenced_also_for_nothing_and_after_reload() -> None:
    log = States()
    log.apply(marker((1, 1), coordinator_epoch=5))
    for again in (log, States(ProducerStates.restore(log.states.snapshot()))):
        for data in (marker((2, 1), coordinator_epoch=4), marker((1, 1), coordinator_epoch=4)):
            with pytest.raises(CoordinatorFencedError):
                _marker_decision(again, data)
        assert isinstance(_marker_decision(again, marker((2, 1), coordinator_epoch=5)), AppendMarker)
        assert isinstance(_marker_decision(again, marker((2, 1), coordinator_epoch=4), shard=SHARD + 1), AppendMarker)


@pytest.mark.case("D99")
def test_no_plain_batch_while_a_transaction_is_open() -> None:
    log = States()
    log.write(batch(11, 0, txn=(1, 1)))
    refuses(log, batch(11, 0), InvalidTxnStateError)
    refuses(log, batch(1, 0), InvalidTxnStateError)
    log.apply(marker((1, 1)))
    assert log.write(batch(11, 0)) is APPEND


@pytest.mark.case("hole 15")
def test_another_session_writes_nothing_into_an_open_transaction() -> None:
    log = States()
    log.write(batch(1, 0, epoch=3, txn=(1, 1)))
    refuses(log, batch(1, 1, epoch=2, txn=(1, 1)), InvalidProducerEpochError)
    refuses(log, batch(1, 1, epoch=4, txn=(1, 1)), InvalidProducerEpochError)
    refuses(log, batch(5, 0, epoch=2, txn=(1, 1)), InvalidProducerEpochError)


def test_a_marker_raises_the_session() -> None:
    log = States()
    log.apply(marker((1, 1), commit=False, session_epoch=7))
    refuses(log, batch(1, 0, epoch=6, txn=(1, 2)), InvalidProducerEpochError)
    refuses(log, batch(1, 0, epoch=6), InvalidProducerEpochError)
    assert log.decide(batch(1, 0, epoch=7, txn=(1, 2))) is APPEND


def test_another_shard_is_refused() -> None:
    log = States()
    log.write(batch(1, 0, txn=(1, 1)))
    refuses(log, batch(1, 1, txn=(1, 1), shard=SHARD + 1), InvalidTxnStateError)


def test_open_transactions_are_bounded() -> None:
    log = States(ProducerStates(open_transactions_max=2))
    log.write(batch(1, 0, txn=(1, 1)))
    log.write(batch(2, 0, txn=(2, 1)))
    refuses(log, batch(3, 0, txn=(3, 1)), ResourceExhaustedError)
    assert log.write(batch(1, 1, txn=(1, 1))) is APPEND


# ---------------------------------------------------------------- stability (D)


@pytest.mark.case("D94")
def test_first_unstable_offset_waits_for_the_markers() -> None:
    log = States()
    log.states.end_offset = 99
    log.write(batch(1, 0, 6, txn=(1, 1)))
    log.write(batch(2, 0, 4, txn=(2, 1)))
    assert log.apply(marker((1, 1))) == 109
    assert log.states.first_unstable_offset(100) == 99
    assert log.states.first_unstable_offset(109) == 99
    assert log.states.first_unstable_offset(110) == 105
    log.write(plain(count=2))
    assert log.apply(marker((2, 1), commit=False)) == 112
    assert log.states.first_unstable_offset(112) == 105
    assert log.states.first_unstable_offset(113) is None


@pytest.mark.case("D95")
def test_the_oldest_open_one_holds_the_rest() -> None:
    log = States()
    for producer in (1, 2, 3):
        log.write(batch(producer, 0, txn=(producer, 1)))
    for producer, unstable in ((1, 1), (3, 1), (2, None)):
        log.apply(marker((producer, 1)))
        assert log.states.first_unstable_offset(log.states.end_offset) == unstable


def test_empty_transactions_leave_no_entries() -> None:
    log = States()
    for number in (1, 2, 3):
        log.apply(marker((1, number), commit=False))
    assert log.entries == []
    assert log.states.first_unstable_offset(0) is None


def test_an_ended_transaction_stays_unstable_through_a_snapshot() -> None:
    """Its marker is in the log and not committed yet: a broker that restarts just now may still lose it."""
    log = States()
    log.write(batch(11, 0, 2, txn=(1, 1)))
    at = log.apply(marker((1, 1)))
    again = ProducerStates.restore(log.states.snapshot())
    assert again.first_unstable_offset(at) == 0
    assert again.first_unstable_offset(at + 1) is None


def test_an_open_transaction_survives_a_snapshot() -> None:
    log = States()
    log.write(batch(11, 0, 2, txn=(1, 1)))
    log.write(batch(5, 0, 2, txn=(5, 1)))
    log.apply(marker((5, 1), commit=False))
    again = States(ProducerStates.restore(log.states.snapshot()))
    assert again.states.first_unstable_offset(4) == 0
    assert again.decide(batch(11, 2, txn=(1, 1))) is APPEND
    assert again.states.snapshot() == log.states.snapshot()


@pytest.mark.parametrize("position", [0, 5, 40, -1])
def test_a_damaged_snapshot_is_refused(position: int) -> None:
    log = States()
    log.write(batch(1, 0))
    data = bytearray(log.states.snapshot())
    data[position] ^= 1
    for damaged in (bytes(data), b"", bytes(data[:-3])):
        with pytest.raises(CorruptMessageError):
            ProducerStates.restore(damaged)


# ---------------------------------------------------------------- winners and loss (holes 5, 19)


def _joint(log: States) -> None:
    log.write(batch(11, 0, 2, txn=(1, 1)))
    log.write(batch(12, 0, 3, txn=(1, 1)))


def test_one_marker_commits_the_winners_alone() -> None:
    log = States()
    _joint(log)
    log.apply(marker((1, 1), winners=(11,), expected=2))
    (entry,) = log.entries
    assert (entry.all, entry.winners, entry.lost, entry.first_offset, entry.marker_offset) == (
        False,
        (11,),
        False,
        0,
        5,
    )
    assert entry.skips(12, 1, 1)
    assert not entry.skips(11, 1, 1)
    assert not entry.skips(12, 1, 2)


@pytest.mark.parametrize(("winners", "entries"), [(None, 0), ((11, 12), 0), ((11, 12, 13), 0), ((), 1), ((13,), 1)])
def test_an_entry_only_when_something_is_skipped(winners: tuple[int, ...] | None, entries: int) -> None:
    log = States()
    _joint(log)
    log.apply(marker((1, 1), winners=winners))
    assert len(log.entries) == entries


@pytest.mark.parametrize(
    ("winners", "expected", "lost"),
    [(None, 5, False), (None, 6, True), ((11,), 2, False), ((11,), 3, True), ((12,), -1, False), ((13,), 1, True)],
)
@pytest.mark.case("hole 19")
def test_fewer_records_than_decided_is_loss(winners: tuple[int, ...] | None, expected: int, lost: bool) -> None:
    log = States()
    _joint(log)
    decision = _marker_decision(log, marker((1, 1), winners=winners, expected=expected))
    assert isinstance(decision, AppendMarker)
    assert decision.lost is lost


@pytest.mark.case("hole 19")
def test_an_abort_loses_nothing() -> None:
    decision = _marker_decision(States(), marker((1, 1), commit=False, expected=9))
    assert decision == AppendMarker(lost=False, records=0)


@pytest.mark.case("hole 19")
def test_a_transaction_of_which_nothing_is_left_is_named_too() -> None:
    log = States()
    assert _marker_decision(log, marker((1, 1), expected=4)) == AppendMarker(lost=True, records=0)
    log.apply(plain())
    log.apply(marker((1, 1), expected=4, lost=True))
    (entry,) = log.entries
    assert (entry.lost, entry.all, entry.first_offset, entry.marker_offset) == (True, True, 1, 1)


def test_state_is_a_function_of_the_log() -> None:
    log = States()
    _joint(log)
    log.write(batch(2, 0, 2))
    log.apply(fence(2, 1))
    log.apply(marker((1, 1), winners=(12,)))
    replica = States()
    for header, data in log.log:
        replica.states.apply(header, header.base_offset, control_of(data) if header.is_control else None)
    assert replica.states.snapshot() == log.states.snapshot()
