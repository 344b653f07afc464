"""A producer's own view of its transaction: which moves are legal, and what refuses the others."""

from __future__ import annotations

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
