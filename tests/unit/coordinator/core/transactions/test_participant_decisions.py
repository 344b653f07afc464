"""Many writers in one transaction: tokens, fences, take-over, winners; holes 11, 16, 20, 25; cases K177-K182."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.core.transactions.states import TxnState
from tests.unit.coordinator.driver import P0, P1, P2, Driver, participant


def winner(joined: cmd.JoinReply, rows: int = 1, **counts: int) -> cmd.Winner:
    places = {"p0": P0, "p1": P1, "p2": P2}
    return cmd.Winner(joined.producer_id, rows, {places[name]: number for name, number in counts.items()})


def enrol(driver: Driver, joined: cmd.JoinReply, *partitions: object) -> None:
    driver.do(cmd.Enrol(participant(joined), partitions))  # type: ignore[arg-type]


# ---------------------------------------------------------------- join


def test_tasks_of_a_batch_join_one_transaction_with_producer_ids_of_their_own(driver: Driver) -> None:
    first, second = driver.join(), driver.join()
    assert (first.txn_no, second.txn_no) == (1, 1)
    assert first.txn_producer_id == second.txn_producer_id
    assert len({first.producer_id, second.producer_id, first.txn_producer_id}) == 3
    assert len(driver.log) == 1, "only the first join is a durable fact"


@pytest.mark.parametrize(
    "bad",
    [{"run": ""}, {"app": ""}, {"batch": -1}, {"lease_ms": -1}, {"max_duration_ms": -1}, {"run": "x" * 300}],
)
def test_bad_joins_are_refused(driver: Driver, bad: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidRequestError):
        driver.join(**bad)  # type: ignore[arg-type]


def test_a_new_run_takes_over_and_the_old_one_is_fenced_for_ever(driver: Driver) -> None:
    old = driver.join(run="r1")
    enrol(driver, old, P0)
    new = driver.join(run="r2")
    assert (new.txn_no, new.producer_epoch) == (2, old.producer_epoch + 1)
    (markers,) = driver.effects
    assert (markers.txn_no, markers.committed, markers.session_epoch) == (1, False, new.producer_epoch)
    with pytest.raises(errors.ProducerFencedError):
        driver.join(run="r1", batch=5, attempt="9")
    with pytest.raises(errors.ProducerFencedError):
        enrol(driver, old, P1)
    with pytest.raises(errors.ProducerFencedError):
        driver.commit(1, winner(old), run="r1")
    assert driver.replayed().table.index.find("t").owner.number == 2  # type: ignore[union-attr]


def test_the_33rd_zombie_does_not_own_again() -> None:
    driver = Driver(Limits(fenced_runs=3))
    for i in range(8):
        driver.join(run=f"r{i}", attempt=f"{i}")
    for i in range(7):
        with pytest.raises(errors.ProducerFencedError):
            driver.join(run=f"r{i}", attempt=f"{i}")
    assert driver.join(run="new", attempt="8").txn_no == 9


def committed(driver: Driver, run: str, batch: int, attempt: str) -> None:
    joined = driver.join(run=run, batch=batch, attempt=attempt)
    driver.commit(joined.txn_no, winner(joined), run=run, batch=batch, attempt=attempt)


def test_a_driver_whose_clock_steps_back_goes_on_with_its_run() -> None:
    """It was told that its attempt had ended, when the clock went back by more than the time of the last 16 batches."""
    driver = Driver(Limits(ended_attempts=3))
    for batch in range(8):
        committed(driver, "r", batch, f"{100 + batch}")
    committed(driver, "r", 8, "090")
    with pytest.raises(errors.BatchRolledBackError):
        driver.join(run="r", batch=7, attempt="107")


def test_attempts_of_a_batch_that_is_not_committed_stay_ended_whatever_their_number() -> None:
    driver = Driver(Limits(ended_attempts=3))
    committed(driver, "r", 0, "1")
    for attempt in range(2, 9):
        driver.join(run="r", batch=1, attempt=f"{attempt}")
    for attempt in range(2, 8):
        with pytest.raises(errors.TxnEndedError):
            driver.join(run="r", batch=1, attempt=f"{attempt}")


def test_a_new_run_whose_clock_is_behind_takes_over_from_runs_that_committed_all_they_had() -> None:
    """Each write of a foreachBatch is a run: it was refused until the clock had made up, however often it was tried."""
    driver = Driver(Limits(fenced_runs=3))
    for batch in range(8):
        committed(driver, f"r{batch}", batch, f"{100 + batch}")
    committed(driver, "new", 8, "090")
    for batch in range(5, 8):
        with pytest.raises(errors.ProducerFencedError):
            driver.join(run=f"r{batch}", batch=9, attempt="109")
    with pytest.raises(errors.BatchRolledBackError):
        driver.join(run="r0", batch=0, attempt="100")


def test_a_forgotten_run_that_left_a_batch_open_does_not_own_again() -> None:
    driver = Driver(Limits(fenced_runs=3))
    committed(driver, "r0", 0, "100")
    driver.join(run="r0", batch=1, attempt="101")
    for number in range(1, 6):
        driver.join(run=f"r{number}", batch=1, attempt=f"{101 + number}")
    with pytest.raises(errors.ProducerFencedError):
        driver.join(run="r0", batch=1, attempt="101")


def test_a_later_attempt_of_the_batch_aborts_the_earlier_one_which_never_comes_back(driver: Driver) -> None:
    first = driver.join(attempt="1")
    second = driver.join(attempt="2")
    assert (first.txn_no, second.txn_no) == (1, 2)
    assert second.producer_epoch == first.producer_epoch, "the same run: no fence"
    with pytest.raises(errors.TxnEndedError):
        driver.join(attempt="1")
    with pytest.raises(errors.TxnAbortedError):
        driver.commit(1, winner(first), attempt="1")


def test_who_joins_an_attempt_that_has_ended_hears_how_to_write_the_batch_again(driver: Driver) -> None:
    driver.join(attempt="1")
    assert driver.do(cmd.Abort("t", "r1", 1, "app", 0)) is True
    with pytest.raises(errors.TxnEndedError, match="join with a write_attempt that sorts after it"):
        driver.join(attempt="1")
    assert driver.join(attempt="2").txn_no == 2


def test_a_join_of_an_older_batch_is_refused(driver: Driver) -> None:
    driver.join(batch=5, attempt="5")
    with pytest.raises(errors.TxnEndedError, match="a later batch, or a later attempt"):
        driver.join(batch=4, attempt="6")
    assert driver.join(batch=6, attempt="6").txn_no == 2


@pytest.mark.case("hole 11")
def test_a_task_that_comes_after_the_lease_hears_that_its_attempt_has_ended_also_after_fail_over(
    driver: Driver,
) -> None:
    driver.join(lease_ms=1_000)
    driver.tick(1_000)
    with pytest.raises(errors.TxnEndedError):
        driver.join()
    with pytest.raises(errors.TxnEndedError):
        driver.replayed(compacted=True).join()


def test_ended_attempts_that_are_forgotten_stay_refused() -> None:
    driver = Driver(Limits(ended_attempts=2))
    for i in range(6):
        driver.join(batch=i, attempt=f"{i}")
        driver.do(cmd.Abort("t", "r1", i + 1, "app", i))
    for i in range(6):
        with pytest.raises(errors.TxnEndedError):
            driver.join(batch=i, attempt=f"{i}")


def test_participants_are_bounded() -> None:
    driver = Driver(Limits(max_participants=2))
    driver.join()
    driver.join()
    with pytest.raises(errors.ResourceExhaustedError):
        driver.join()


def test_pipelining_of_batches_is_bounded(driver: Driver) -> None:
    for i in range(5):
        joined = driver.join(batch=i, attempt=f"{i}")
        enrol(driver, joined, P0)
        driver.commit(i + 1, winner(joined), batch=i, attempt=f"{i}")
    with pytest.raises(errors.ConcurrentTransactionsError):
        driver.join(batch=5, attempt="5")
    driver.mark(1, P0)
    assert driver.join(batch=5, attempt="5").txn_no == 6


def test_a_client_session_and_a_run_fence_each_other(driver: Driver) -> None:
    joined = driver.join()
    session = driver.init()
    assert (session.producer_epoch, session.next_txn_no) == (joined.producer_epoch + 1, 2)
    with pytest.raises(errors.ProducerFencedError):
        driver.join()
    driver.enrol(session, 2, P0)
    other = driver.join(run="r2")
    assert (other.txn_no, other.producer_epoch) == (4, session.producer_epoch + 1), "the session could tell 3 by itself"
    with pytest.raises(errors.ProducerFencedError):
        driver.end(session, 2)


def test_a_participant_cannot_end_or_open_as_a_client_does(driver: Driver) -> None:
    joined = driver.join()
    with pytest.raises(errors.InvalidTxnStateError):
        driver.do(cmd.End(participant(joined), True))
    driver.commit(1)
    following = participant(joined)._replace(txn_no=2)
    with pytest.raises(errors.InvalidTxnStateError):
        driver.do(cmd.Enrol(following, (P0,)))


# ---------------------------------------------------------------- commit


def test_only_the_winners_commit_and_the_marker_names_them(driver: Driver) -> None:
    loser, w1, w2 = driver.join(), driver.join(), driver.join()
    enrol(driver, loser, P0, P1, P2)
    reply = driver.commit(1, winner(w2, 5, p0=3, p1=2), winner(w1, 4, p0=4))
    assert reply == cmd.CommitReply(False, 9, 1, False, (1,))
    (markers,) = driver.effects
    assert markers.winners == tuple(sorted((w1.producer_id, w2.producer_id)))
    assert markers.targets == (Target(*P0, 7), Target(*P1, 2), Target(*P2, 0))


@pytest.mark.case("hole 5")
def test_winners_are_kept_until_complete(driver: Driver) -> None:
    joined = driver.join()
    enrol(driver, joined, P0)
    driver.commit(1, winner(joined, 1, p0=1))
    ask = cmd.Resolve(joined.txn_producer_id, 1, P0.topic_id, P0.partition)
    for one in (driver, driver.replayed(compacted=True)):
        assert one.do(ask) == cmd.ResolveReply(True, joined.producer_epoch, (joined.producer_id,), 1)
    driver.mark(1, P0)
    with pytest.raises(errors.OutcomeForgottenError):
        driver.do(ask)
    assert driver.outcome(1) == cmd.OutcomeReply(True, True)


def test_a_repeated_commit_is_visible_only_when_its_markers_are_in(driver: Driver) -> None:
    one = driver.join(batch=7)
    enrol(driver, one, P0)
    assert not driver.commit(one.txn_no, winner(one, p0=1), batch=7).visible
    for number in (one.txn_no, 0):
        again = driver.commit(number, batch=7)
        assert (again.already_committed, again.txn_no, again.visible) == (True, one.txn_no, False)
    driver.mark(one.txn_no, P0)
    assert driver.commit(one.txn_no, batch=7).visible
    assert driver.commit(0, batch=7).visible


def test_a_repeat_that_names_another_transaction_waits_for_the_one_that_committed_the_batch(driver: Driver) -> None:
    first = driver.join(run="r1", batch=7)  # its driver dies, and another one runs the batch again
    second = driver.join(run="r2", batch=7, attempt="2")
    enrol(driver, second, P0)
    driver.commit(second.txn_no, winner(second, p0=1), run="r2", batch=7, attempt="2")
    late = driver.commit(first.txn_no, run="r1", batch=7)
    assert (late.already_committed, late.txn_no) == (True, second.txn_no)
    assert (late.visible, late.waits_for) == (False, (second.txn_no,)), "the first one has ended; this is not visible"
    driver.mark(second.txn_no, P0)
    late = driver.commit(first.txn_no, run="r1", batch=7)
    assert (late.visible, late.waits_for) == (True, ())


def test_a_repeat_without_a_number_waits_for_every_commit_that_is_not_visible_yet(driver: Driver) -> None:
    one = driver.join(app="a", batch=7)
    enrol(driver, one, P0)
    driver.commit(one.txn_no, winner(one, p0=1), app="a", batch=7)
    two = driver.join(app="b", batch=1, attempt="2")
    enrol(driver, two, P1)
    driver.commit(two.txn_no, winner(two, p1=1), app="b", batch=1, attempt="2")
    driver.mark(two.txn_no, P1)
    again = driver.commit(0, app="a", batch=7)
    assert (again.visible, again.waits_for) == (False, (one.txn_no,))
    driver.mark(one.txn_no, P0)
    assert driver.commit(0, app="a", batch=7).visible


def test_a_replayed_batch_is_already_committed_for_anyone(driver: Driver) -> None:
    joined = driver.join(batch=7)
    driver.commit(1, winner(joined, 10), batch=7)
    again = driver.commit(1, winner(joined, 10), batch=7)
    assert (again.already_committed, again.committed_rows) == (True, 10)
    assert driver.join(run="r2", batch=7) == cmd.JoinReply(True, 10)
    driver.join(run="r2", batch=8, attempt="2")
    assert driver.join(run="r1", batch=7) == cmd.JoinReply(True, 10), "before the fence"
    assert driver.commit(1, run="r1", batch=7).already_committed


def test_tokens_are_per_app_and_outlive_other_apps_aborts_and_expiry(driver: Driver) -> None:
    driver.commit(0, app="a", batch=57, attempt="1")
    driver.commit(0, app="b", batch=0, attempt="2")
    aborted = driver.join(app="a", batch=58, attempt="3")
    driver.do(cmd.Abort("t", "r1", aborted.txn_no, "a", 58))
    driver.tick(8 * 86_400_000)
    assert driver.do(cmd.Describe("t")).state is TxnState.DEAD
    other = driver.replayed(compacted=True)
    assert other.join(run="r9", app="a", batch=57, attempt="9").already_committed
    assert not other.join(run="r9", app="a", batch=58, attempt="9").already_committed, "an aborted batch is not in"
    with pytest.raises(errors.BatchRolledBackError):
        other.join(run="r9", app="a", batch=56, attempt="9")


def test_a_dead_id_lives_again_for_its_own_run(driver: Driver) -> None:
    driver.commit(0, batch=0)
    driver.tick(8 * 86_400_000)
    joined = driver.join(batch=1, attempt="2")
    enrol(driver, joined, P0)
    assert driver.do(cmd.Describe("t")).state is TxnState.ONGOING


def test_rolled_back_batches_are_refused_without_a_take_over(driver: Driver) -> None:
    driver.commit(0, batch=9)
    open_now = driver.join(batch=10, attempt="2")
    with pytest.raises(errors.BatchRolledBackError):
        driver.join(run="r2", batch=8, attempt="3")
    with pytest.raises(errors.BatchRolledBackError):
        driver.commit(0, run="r2", batch=8, attempt="3")
    enrol(driver, open_now, P0)


@pytest.mark.case("hole 11")
def test_a_commit_names_n(driver: Driver) -> None:
    first = driver.join(batch=0, attempt="1", lease_ms=100)
    driver.tick(100)
    second = driver.join(batch=0, attempt="2")
    with pytest.raises(errors.TxnAbortedError):
        driver.commit(1, winner(first), attempt="1")
    with pytest.raises(errors.UnknownParticipantError):
        driver.commit(2, winner(first), winner(second), attempt="2")
    with pytest.raises(errors.InvalidTxnStateError):
        driver.commit(3, winner(second), attempt="2")
    with pytest.raises(errors.InvalidTxnStateError):
        driver.commit(2, winner(second), attempt="1")
    with pytest.raises(errors.InvalidTxnStateError):
        driver.commit(2, winner(second), batch=1, attempt="2")
    assert driver.commit(2, winner(second), attempt="2").committed_rows == 1


@pytest.mark.parametrize("winners", [((1, 1), (1, 1)), ((1, -1),)])
def test_winners_stand_once_and_rows_are_not_negative(driver: Driver, winners: tuple[tuple[int, int], ...]) -> None:
    driver.join()
    with pytest.raises(errors.InvalidRequestError):
        driver.commit(1, *(cmd.Winner(*item) for item in winners))


def test_counts_must_be_on_enrolled_partitions(driver: Driver) -> None:
    joined = driver.join()
    enrol(driver, joined, P0)
    with pytest.raises(errors.InvalidRequestError):
        driver.commit(1, winner(joined, 2, p0=1, p1=1))


def test_after_fail_over_winners_that_memory_does_not_know_are_accepted(driver: Driver) -> None:
    joined = driver.join()
    enrol(driver, joined, P0)
    other = driver.replayed()
    late = other.join()
    assert late.txn_no == 1, "the attempt is still open"
    assert other.commit(1, winner(joined, 3, p0=3)).committed_rows == 3
    assert other.effects[-1].winners == (joined.producer_id,)


@pytest.mark.case("hole 20")
def test_a_batch_without_rows_stores_its_token(driver: Driver) -> None:
    assert driver.commit(0, batch=3) == cmd.CommitReply(False, 0, 1, True)
    assert driver.join(batch=3).already_committed
    with pytest.raises(errors.InvalidRequestError):
        driver.commit(0, cmd.Winner(5, 1), batch=4, attempt="2")
    joined = driver.join(batch=4, attempt="2")
    with pytest.raises(errors.InvalidTxnStateError):
        driver.commit(0, batch=4, attempt="2")
    driver.commit(joined.txn_no, batch=4, attempt="2")
    assert driver.join(batch=4, attempt="2").already_committed


def test_too_many_apps_are_refused() -> None:
    driver = Driver(Limits(max_apps=2))
    driver.commit(0, app="a", attempt="1")
    driver.commit(0, app="b", attempt="2")
    with pytest.raises(errors.PolicyViolationError):
        driver.commit(0, app="c", attempt="3")
    driver.commit(0, app="a", batch=1, attempt="4")


# ---------------------------------------------------------------- renew, abort, leases


def test_renewal_by_a_fenced_run_is_refused(driver: Driver) -> None:
    joined = driver.join(run="r1")
    driver.join(run="r2")
    with pytest.raises(errors.ProducerFencedError):
        driver.do(cmd.Renew(participant(joined), "r1"))


@pytest.mark.parametrize(
    ("run", "n", "app", "batch"), [("r2", 1, "app", 0), ("r1", 2, "app", 0), ("r1", 1, "x", 0), ("r1", 1, "app", 1)]
)
def test_an_abort_that_does_not_match_does_nothing(driver: Driver, run: str, n: int, app: str, batch: int) -> None:
    driver.join()
    assert driver.do(cmd.Abort("t", run, n, app, batch)) is False
    assert driver.outcome(1).committed is None
    assert driver.do(cmd.Abort("unknown", run, n, app, batch)) is False


def test_abort_then_abort_again(driver: Driver) -> None:
    joined = driver.join()
    enrol(driver, joined, P0)
    assert driver.do(cmd.Abort("t", "r1", 1, "app", 0)) is True
    assert driver.do(cmd.Abort("t", "r1", 1, "app", 0)) is False
    assert driver.effects[-1].committed is False


def test_abort_after_commit_is_a_no_op(driver: Driver) -> None:
    joined = driver.join()
    driver.commit(1, winner(joined))
    assert driver.do(cmd.Abort("t", "r1", 1, "app", 0)) is False
    assert driver.outcome(1).committed is True
