"""A producer's own view of its transaction: which moves are legal, and what refuses the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog import errors
from oncelog.core.produce.transaction import TransactionCore, TransactionState
from oncelog.types import PartitionId


def test_a_failed_transaction_can_only_be_aborted() -> None:
    core = TransactionCore(1)
    core.fail(errors.MessageTooLargeError())
    core.fail(errors.NetworkError())
    with pytest.raises(errors.MessageTooLargeError):
        core.check_open()
    with pytest.raises(errors.MessageTooLargeError):
        core.begin_commit()
    core.begin_abort()
    core.decided(is_committed=False)
    assert core.is_over


def test_a_commit_that_was_asked_for_can_be_repeated_but_not_aborted() -> None:
    core = TransactionCore(1)
    core.begin_commit()
    with pytest.raises(errors.IllegalStateError):
        core.begin_abort()
    with pytest.raises(errors.IllegalStateError):
        core.check_open()
    core.begin_commit()
    core.decided(is_committed=True)
    assert core.state is TransactionState.COMMITTED


def test_the_coordinator_may_have_aborted_what_we_commit() -> None:
    core = TransactionCore(1)
    core.begin_commit()
    core.decided(is_committed=False)
    assert core.state is TransactionState.ABORTED


@pytest.mark.parametrize("is_committed", [True, False])
def test_nothing_follows_a_decision(is_committed: bool) -> None:
    core = TransactionCore(1)
    core.decided(is_committed)
    for move in (core.begin_commit, core.begin_abort, core.check_open):
        with pytest.raises(errors.IllegalStateError):
            move()


def test_one_new_partition_is_left_to_its_leader_several_are_enrolled_ahead() -> None:
    core = TransactionCore(1)
    p = [PartitionId("t", i) for i in range(4)]
    assert core.to_enrol([p[0]]) == []
    assert core.to_enrol([p[0], p[1], p[0]]) == [p[0], p[1]]
    core.enrolled([p[0], p[1]])
    assert core.to_enrol([p[0], p[1], p[2]]) == []
    assert core.to_enrol([p[1], p[2], p[3]]) == [p[2], p[3]]


def test_offset_commits_are_numbered_per_group() -> None:
    core = TransactionCore(1)
    assert [core.next_offset_sequence(group) for group in ("a", "a", "b")] == [1, 2, 1]


def in_state(state: TransactionState) -> TransactionCore:
    """One that got there by legal moves."""
    core = TransactionCore(1)
    error = errors.InvalidRecordError("the first reason")
    if state is S.FAILED:
        core.fail(error)
    elif state in (S.COMMITTING, S.COMMITTED):
        core.begin_commit()
    elif state in (S.ABORTING, S.ABORTED):
        core.begin_abort()
    elif state is S.DEAD:
        core.die(error)
    if state in (S.COMMITTED, S.ABORTED):
        core.decided(state is S.COMMITTED)
    assert core.state is state
    return core


S = TransactionState
MOVES: dict[str, tuple[Callable[[TransactionCore], None], set[TransactionState]]] = {
    "commit": (TransactionCore.begin_commit, {S.OPEN, S.COMMITTING}),
    "abort": (TransactionCore.begin_abort, {S.OPEN, S.FAILED, S.ABORTING}),
    "it is committed": (lambda core: core.decided(True), {S.OPEN, S.COMMITTING}),
    "it is aborted": (lambda core: core.decided(False), {S.OPEN, S.FAILED, S.COMMITTING, S.ABORTING}),
    "fenced": (
        lambda core: core.die(errors.ProducerFencedError()),
        {S.OPEN, S.FAILED, S.COMMITTING, S.ABORTING, S.DEAD},
    ),
    "send": (TransactionCore.check_open, {S.OPEN}),
}


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("move", MOVES)
def test_every_move_is_legal_in_its_states_and_refused_without_a_trace_in_all_others(
    move: str, state: TransactionState
) -> None:
    make, legal = MOVES[move]
    core = in_state(state)
    if state in legal:
        make(core)
        return
    with pytest.raises((errors.IllegalStateError, errors.InvalidRecordError)):
        make(core)
    assert core.state is state


@pytest.mark.parametrize("state", [state for state in S if state is not S.OPEN])
def test_a_refusal_says_what_to_do_next(state: TransactionState) -> None:
    core = in_state(state)
    core.error = None
    with pytest.raises(errors.IllegalStateError) as caught:
        core.check_open()
    assert core.what_to_do in str(caught.value)


def test_what_is_refused_after_a_failure_tells_the_first_reason() -> None:
    core = in_state(S.FAILED)
    core.fail(errors.NetworkError("a later one"))
    core.begin_abort()
    with pytest.raises(errors.IllegalStateError, match="the first reason: the first reason") as caught:
        core.begin_commit()
    assert caught.value.__cause__ is core.error


def test_a_flush_that_fails_before_the_commit_leaves_only_the_abort() -> None:
    core = in_state(S.COMMITTING)
    core.reopen_for_abort()
    with pytest.raises(errors.IllegalStateError):
        core.begin_commit()
    core.begin_abort()


# ---------------------------------------------------------------- what ends it from outside

LIMIT_MS = 60_000
NO_ROOM = errors.MessageTooLargeError("the first reason")


def begun(state: TransactionState = S.OPEN) -> TransactionCore:
    core = TransactionCore(4, begun_ms=1_000, timeout_ms=LIMIT_MS)
    if state is S.COMMITTING:
        core.begin_commit()
    return core


def test_a_failed_send_fails_the_transaction_at_the_next_call() -> None:
    core = begun()
    with pytest.raises(errors.MessageTooLargeError):
        core.touch(NO_ROOM, 2_000)
    assert (core.state, core.error, core.is_touched) == (S.FAILED, NO_ROOM, False)
    core.note_failure(errors.NetworkError(), 2_000)
    assert core.error is NO_ROOM


def test_a_send_that_fails_after_the_commit_was_asked_for_says_nothing_about_its_outcome() -> None:
    core = begun(S.COMMITTING)
    core.note_failure(NO_ROOM, 2_000)
    assert (core.state, core.error) == (S.COMMITTING, None)


@pytest.mark.parametrize("kind", [errors.TxnEndedError, errors.TxnAbortedError])
def test_an_end_after_its_time_says_so(kind: type[errors.OncelogError]) -> None:
    given = kind("over")
    assert begun().fail_with(given, 1_000 + LIMIT_MS - 1) is given
    told = begun().fail_with(given, 1_000 + LIMIT_MS)
    assert type(told) is kind
    assert (told.__cause__, told.context["txn_no"]) == (given, "4")
    assert "timed out after 60000 ms (transaction_timeout_ms)" in str(told)


def test_no_other_error_is_taken_for_a_time_out() -> None:
    assert begun().fail_with(NO_ROOM, 1_000 + LIMIT_MS) is NO_ROOM


def test_a_commit_whose_flush_failed_raises_that_failure_and_leaves_only_the_abort() -> None:
    core = begun(S.COMMITTING)
    core.flushed(None, 2_000)
    with pytest.raises(errors.MessageTooLargeError):
        core.flushed(NO_ROOM, 2_000)
    assert core.state is S.FAILED


def test_an_abort_in_answer_to_a_commit_is_an_error_of_the_commit() -> None:
    core = begun(S.COMMITTING)
    error = core.commit_answered(False, 2_000)
    assert isinstance(error, errors.TxnAbortedError)
    assert (core.state, core.error) == (S.ABORTED, error)
    core = begun(S.COMMITTING)
    assert core.commit_answered(True, 2_000) is None
    assert core.state is S.COMMITTED


def test_a_refused_commit_is_an_abort() -> None:
    core = begun(S.COMMITTING)
    refusal = errors.TxnAbortedError("it was")
    assert core.commit_refused(refusal, 2_000) is refusal
    assert (core.state, core.error) == (S.ABORTED, refusal)


@pytest.mark.parametrize("state", S)
def test_a_close_aborts_what_can_be_aborted_and_nothing_else(state: TransactionState) -> None:
    core = in_state(state)
    assert core.begin_leave() == (state in (S.OPEN, S.FAILED, S.ABORTING))
    if state in (S.OPEN, S.FAILED, S.ABORTING):
        assert core.state is S.ABORTING
    else:
        assert core.state is state
    assert state is not S.OPEN or "the producer was closed" in str(core.error)


def test_an_end_that_is_cut_short_says_what_is_known() -> None:
    assert isinstance(begun(S.COMMITTING).cut_short(), errors.CommitOutcomeUnknownError)
    core = begun()
    core.begin_abort()
    assert isinstance(core.cut_short(), errors.IllegalStateError)


def test_only_an_abort_that_its_caller_did_not_ask_for_is_a_loss() -> None:
    core = begun()
    core.fail(NO_ROOM)
    core.begin_abort()
    core.decided(is_committed=False)
    with pytest.raises(errors.MessageTooLargeError):
        core.check_no_loss()
    core.is_given_up = True
    core.check_no_loss()
    committed = begun(S.COMMITTING)
    committed.fail(NO_ROOM)
    committed.decided(is_committed=True)
    committed.check_no_loss()
