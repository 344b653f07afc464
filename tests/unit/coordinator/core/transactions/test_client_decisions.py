"""Sessions, enrolment and end of a client's own transactions: holes 8, 15, 20; docs/internals/cases.md, A and C."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.core.transactions.states import TxnState
from oncelog_coordinator.core.transactions.transaction_state import ProducerIdNeededError
from tests.unit.coordinator.driver import P0, P1, P2, Driver


def state(driver: Driver) -> TxnState:
    view: cmd.TransactionView = driver.do(cmd.Describe("t"))
    return view.state


# ---------------------------------------------------------------- sessions


@pytest.mark.case("A12")
def test_an_unknown_id_gets_a_producer_id_and_epoch_0(driver: Driver) -> None:
    session = driver.init()
    assert (session.producer_id, session.producer_epoch, session.next_txn_no) == (1001, 0, 1)
    assert state(driver) is TxnState.EMPTY


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
@pytest.mark.case("A11")
def test_a_bad_timeout_is_refused(driver: Driver, timeout_ms: int) -> None:
    with pytest.raises(errors.InvalidTransactionTimeoutError):
        driver.init(timeout_ms=timeout_ms)
    assert not driver.table.knows("t")


@pytest.mark.case("A14")
def test_a_new_session_raises_the_epoch_and_keeps_the_producer_id(driver: Driver) -> None:
    first, second = driver.init(), driver.init()
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@pytest.mark.case("A15")
def test_the_same_nonce_gets_the_same_answer_also_after_later_sessions(driver: Driver) -> None:
    first = driver.init(nonce="a")
    second = driver.init(nonce="b")
    records = len(driver.log)
    assert driver.init(nonce="b") == second
    assert driver.init(nonce="a") == first, "a replayed request fences nobody"
    assert len(driver.log) == records


@pytest.mark.case("A16")
def test_expected_session_must_be_the_current_one(driver: Driver) -> None:
    first = driver.init()
    second = driver.init(expected_producer_id=first.producer_id, expected_producer_epoch=0)
    assert second.producer_epoch == 1
    with pytest.raises(errors.ProducerFencedError):
        driver.init(expected_producer_id=first.producer_id, expected_producer_epoch=0)
    with pytest.raises(errors.ProducerFencedError):
        driver.init(expected_producer_id=77, expected_producer_epoch=1)


@pytest.mark.case("A20")
def test_a_new_session_aborts_what_is_open_and_goes_on_at_once(driver: Driver) -> None:
    old = driver.init()
    driver.enrol(old, 1, P0)
    new = driver.init()
    assert (new.producer_epoch, new.next_txn_no) == (1, 3)
    markers, _ = driver.effects
    assert (markers.txn_no, markers.committed, markers.session_epoch) == (1, False, 1), (
        "the marker fences the old session"
    )
    driver.enrol(new, 3, P0)
    assert driver.end(new, 3).committed
    with pytest.raises(errors.ProducerFencedError):
        driver.enrol(old, 2, P1)
    with pytest.raises(errors.ProducerFencedError):
        driver.end(old, 1, commit=True)
    with pytest.raises(errors.ProducerFencedError):
        driver.end(old, 1, commit=False)


def test_a_number_that_was_not_begun_when_its_session_asked_is_never_a_successors(driver: Driver) -> None:
    """Also the one behind an open transaction, which the session can tell by itself."""
    first = driver.init()
    driver.enrol(first, 1, P0)
    assert driver.outcome(2) == cmd.OutcomeReply(None, False, begun=False)
    second = driver.init()
    driver.end(second, second.next_txn_no)
    assert [driver.outcome(n).committed for n in (1, 2, 3)] == [False, False, True]


def test_a_number_that_was_given_and_never_used_is_nobody_elses(driver: Driver) -> None:
    first, second = driver.init(), driver.init()
    assert (first.next_txn_no, second.next_txn_no) == (1, 2)
    driver.end(second, 2)
    assert driver.outcome(1) == cmd.OutcomeReply(False, True), "what the first session never wrote was not committed"
    for commit in (True, False):
        with pytest.raises(errors.ProducerFencedError):
            driver.end(first, 1, commit)


def test_a_fenced_session_hears_of_its_commit_and_its_next_number_is_closed(driver: Driver) -> None:
    first = driver.init()
    driver.end(first, 1)
    assert driver.init().next_txn_no == 3
    assert driver.end(first, 1).committed
    assert driver.outcome(2) == cmd.OutcomeReply(False, True)


def test_a_run_does_not_get_the_number_of_a_session(driver: Driver) -> None:
    driver.init()
    assert driver.join("run").txn_no == 2
    driver.do(cmd.Abort("t", "run", 2, "app", 0))
    assert driver.init().next_txn_no == 3, "a run holds only what it opened"


def test_a_session_that_expired_before_its_first_transaction_was_a_session(driver: Driver) -> None:
    driver.init()
    driver.tick(7 * 86_400_000)
    again = driver.init()
    assert (again.producer_epoch, again.next_txn_no) == (1, 2)


@pytest.mark.parametrize(
    "command",
    [
        cmd.InitProducerId("new", 60_000, "", 0),
        cmd.Join("new", "run", cmd.BatchName("app", 0, "1"), 7),
        cmd.Commit("new", "run", 0, cmd.BatchName("app", 0, "1")),
    ],
    ids=lambda command: type(command).__name__,
)
def test_no_transactional_id_gets_the_producer_id_0(driver: Driver, command: cmd.TransactionCommand) -> None:
    with pytest.raises(ProducerIdNeededError):
        driver.do(command)
    assert not driver.table.knows("new")


# ---------------------------------------------------------------- enrolment


@pytest.mark.case("C51")
def test_a_wrong_mapping_of_an_id_is_refused(driver: Driver) -> None:
    session = driver.init()
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.Enrol(cmd.TxnName("unknown", session.producer_id, 1, 0), (P0,)))
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.Enrol(cmd.TxnName("t", 5, 1, 0), (P0,)))


def test_a_leader_may_name_the_transaction_by_the_producer_id_alone(driver: Driver) -> None:
    session = driver.init()
    driver.do(cmd.Enrol(cmd.TxnName("", session.producer_id, 1, 0), (P0,)))
    assert state(driver) is TxnState.ONGOING


@pytest.mark.parametrize("epoch", [1, 3])
@pytest.mark.case("C52")
def test_enrolment_by_another_epoch_is_fenced(driver: Driver, epoch: int) -> None:
    driver.init()
    driver.init()
    session = driver.init()
    with pytest.raises(errors.ProducerFencedError):
        driver.do(cmd.Enrol(cmd.TxnName("t", session.producer_id, 1, epoch), (P0,)))


@pytest.mark.case("C54")
def test_the_same_partitions_again_write_nothing(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    records = len(driver.log)
    driver.enrol(session, 1, P1)
    assert len(driver.log) == records
    driver.enrol(session, 1, P2, groups=("g",))
    assert len(driver.log) == records + 1


@pytest.mark.case("C53")
def test_n_plus_1_waits_for_the_decision_of_n(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    with pytest.raises(errors.ConcurrentTransactionsError):
        driver.enrol(session, 2, P0)
    with pytest.raises(errors.InvalidTxnStateError):
        driver.enrol(session, 3, P0)


@pytest.mark.parametrize("n", [0, -1])
def test_numbers_begin_at_1(driver: Driver, n: int) -> None:
    session = driver.init()
    with pytest.raises(errors.InvalidRequestError):
        driver.enrol(session, n, P0)


def test_a_decided_transaction_takes_nothing_more(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    with pytest.raises(errors.TxnEndedError):
        driver.enrol(session, 1, P1)
    driver.end(session, 2, commit=False)
    with pytest.raises(errors.TxnAbortedError):
        driver.enrol(session, 2, P1)


def test_too_many_partitions_are_refused() -> None:
    driver = Driver(Limits(max_partitions=2))
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    with pytest.raises(errors.ResourceExhaustedError):
        driver.enrol(session, 1, P2)


def test_too_many_ids_are_refused() -> None:
    driver = Driver(Limits(max_ids=1))
    driver.init()
    with pytest.raises(errors.ResourceExhaustedError):
        driver.init(tid="other")


# ---------------------------------------------------------------- end


@pytest.mark.case("C57", "C58")
def test_commit_and_abort_write_one_record_and_send_markers(driver: Driver) -> None:
    session = driver.init()
    for n, commit in ((1, True), (2, False)):
        driver.enrol(session, n, P0, P1, groups=("g",))
        records = len(driver.log)
        assert driver.end(session, n, commit) == cmd.EndReply(commit, False, n)
        assert len(driver.log) == records + 1
        markers = driver.effects.pop()
        assert (markers.committed, markers.winners) == (commit, None)
        assert markers.targets == (Target(*P0), Target(*P1))
        assert markers.groups == ("g",)
        assert state(driver) is (TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT)
        driver.mark(n, P0, P1)
        assert not driver.notices
        driver.mark(n, groups=("g",))
        assert driver.notices.pop() == cmd.BecameVisible("t", n)
        assert state(driver) is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)


def test_only_the_last_marker_writes_a_record(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    driver.end(session, 1)
    records = len(driver.log)
    driver.mark(1, P0)
    driver.mark(1, P0)
    assert len(driver.log) == records
    assert driver.replayed().table.pending(0)[0].targets == (Target(*P0), Target(*P1)), (
        "after fail-over all are sent again"
    )
    driver.mark(1, P1)
    assert len(driver.log) == records + 1
    driver.mark(1, P1)
    assert len(driver.log) == records + 1


def test_a_committed_marker_is_visible_and_only_one_on_disk_is_forgotten(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    driver.end(session, 1)
    driver.do(cmd.MarkersCommitted("t", 1, (P0,)))
    assert driver.notices == []
    driver.do(cmd.MarkersCommitted("t", 1, (P1,)))
    assert driver.notices == [cmd.BecameVisible("t", 1)]
    assert driver.outcome(1) == cmd.OutcomeReply(True, True)
    assert state(driver) is TxnState.PREPARE_COMMIT, "a power cut of all replicas could still take the markers away"
    driver.mark(1, P0, P1)
    assert state(driver) is TxnState.COMPLETE_COMMIT
    driver.do(cmd.MarkersCommitted("t", 1, (P0,)))


@pytest.mark.case("C60", "C61", "C88")
def test_a_repeated_end_gets_the_first_outcome(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    driver.enrol(session, 2, P0)
    assert driver.end(session, 1).committed, "END(n) again during n+1"
    with pytest.raises(errors.InvalidTxnStateError) as info:
        driver.end(session, 1, commit=False)
    assert info.value.context["outcome"] == "COMMITTED"
    assert state(driver) is TxnState.ONGOING, "n+1 untouched"
    driver.end(session, 2, commit=False)
    with pytest.raises(errors.TxnAbortedError):
        driver.end(session, 2, commit=True)


def test_an_empty_transaction_is_closed_for_ever(driver: Driver) -> None:
    session = driver.init()
    records = len(driver.log)
    assert driver.end(session, 1, commit=False) == cmd.EndReply(False, True, 1)
    assert len(driver.log) == records + 1
    with pytest.raises(errors.TxnAbortedError):
        driver.enrol(session, 1, P0)
    assert driver.end(session, 2, commit=True) == cmd.EndReply(True, True, 2)
    assert driver.outcome(2) == cmd.OutcomeReply(True, True)


@pytest.mark.case("C63")
def test_end_by_another_epoch_is_fenced(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    with pytest.raises(errors.ProducerFencedError):
        driver.do(cmd.End(cmd.TxnName("t", session.producer_id, 1, 5), True))


@pytest.mark.case("hole 19")
def test_counts_travel_with_the_markers(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    driver.end(session, 1, counts={P0: 7})
    assert driver.effects[-1].targets == (Target(*P0, 7), Target(*P1, 0))


def test_an_abort_ignores_counts(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1, commit=False, counts={P2: 1})
    assert driver.effects[-1].targets == (Target(*P0),)


# ---------------------------------------------------------------- operators


def test_force_abort(driver: Driver) -> None:
    session = driver.init()
    assert driver.do(cmd.ForceAbort("t")) == 0
    driver.enrol(session, 1, P0)
    assert driver.do(cmd.ForceAbort("t")) == 1
    with pytest.raises(errors.TxnAbortedError):
        driver.end(session, 1)
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.ForceAbort("unknown"))


def test_a_force_abort_that_names_its_number_touches_no_other(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    assert driver.do(cmd.ForceAbort("t", 1)) == 1
    driver.enrol(session, 2, P0)
    assert driver.do(cmd.ForceAbort("t", 1)) == 0
    assert driver.outcome(2).committed is None


def test_a_force_abort_without_a_number_is_taken_for_a_copy_for_a_while(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    assert driver.do(cmd.ForceAbort("t")) == 1
    driver.enrol(session, 2, P0)
    driver.now_ms += 10_000
    assert driver.do(cmd.ForceAbort("t")) == 1, "answered as the first one was"
    assert driver.outcome(2).committed is None
    assert driver.do(cmd.ForceAbort("t", 2)) == 2, "who says which is never in doubt"


def test_force_abort_reaches_what_an_earlier_life_may_have_let_leaders_open(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    driver.enrol(session, 2, P0)
    later = driver.replayed(lost=1)
    assert later.do(cmd.ForceAbort("t")) == 2
    assert [(markers.txn_no, markers.committed) for markers in later.effects] == [(2, False)]


def test_list_and_describe(driver: Driver) -> None:
    session = driver.init()
    driver.init(tid="a")
    driver.enrol(session, 1, P1, groups=("g",))
    listed = driver.do(cmd.ListIds())
    assert [(v.transactional_id, v.state) for v in listed] == [("a", TxnState.EMPTY), ("t", TxnState.ONGOING)]
    assert [v.transactional_id for v in driver.do(cmd.ListIds((TxnState.ONGOING,)))] == ["t"]
    view = driver.do(cmd.Describe("t"))
    assert (view.partitions, view.groups, view.started_ms) == ((P1,), ("g",), driver.now_ms)
    driver.end(session, 1)
    assert driver.do(cmd.Describe("t")).partitions == (P1,)
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.Describe("unknown"))
