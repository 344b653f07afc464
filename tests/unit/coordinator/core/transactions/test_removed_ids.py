"""Ids that are removed: which, when, what is still refused in their name, what a later life and an older version see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from oncelog import errors
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions import records as rec
from oncelog_coordinator.core.transactions.orphan_records import RemovedIds
from oncelog_coordinator.core.transactions.states import TRANSITIONS, Trigger, TxnState
from tests.unit.coordinator.driver import P0, P1, Driver, name, participant

IDLE_MS = 10_000
KEPT_MS = 4_000
LIMITS = Limits(transactional_id_expiration_ms=IDLE_MS, transactional_id_retention_ms=KEPT_MS)


@pytest.fixture
def driver() -> Iterator[Driver]:
    one = Driver(LIMITS)
    yield one
    for compacted in (False, True):
        other = one.replayed(compacted=compacted)
        assert other.durable() == one.as_a_later_life_sees_it(), "replay gives another state"
        assert other.table.index.removed == one.table.index.removed
        assert other.table.index.lasting == one.table.index.lasting


def used_once(driver: Driver, tid: str = "t", transactions: int = 1) -> cmd.SessionReply:
    """A session that has committed some transactions, and whose markers are in."""
    session = driver.init(tid)
    for n in range(session.next_txn_no, session.next_txn_no + transactions):
        driver.do(cmd.Enrol(name(session, n, tid), (P0,)))
        driver.do(cmd.End(name(session, n, tid), True))
        driver.mark(n, P0, tid=tid)
    return session


def job(driver: Driver, tid: str, *, expires: bool) -> cmd.JoinReply:
    """A batch job that has committed its only batch."""
    joined = driver.join(tid=tid)
    driver.do(cmd.Enrol(cmd.TxnName(tid, joined.txn_producer_id, joined.txn_no, joined.producer_epoch), (P0,)))
    winner = cmd.Winner(joined.producer_id, 1, {P0: 1})
    driver.do(cmd.Commit(tid, "r1", joined.txn_no, cmd.BatchName("app", 0, "1"), (winner,), 0, expires))
    driver.mark(joined.txn_no, P0, tid=tid)
    return joined


def pass_time(driver: Driver) -> None:
    """Until whatever may expire has expired, and whatever may be removed is removed."""
    driver.tick(IDLE_MS)
    driver.tick(KEPT_MS)


def is_known(driver: Driver, tid: str = "t") -> bool:
    return driver.table.knows(tid)


# ---------------------------------------------------------------- which, and when


def test_an_idle_id_expires_and_then_is_removed_from_everything(driver: Driver) -> None:
    session = used_once(driver)
    driver.tick(IDLE_MS - 1)
    assert driver.do(cmd.Describe("t")).state is TxnState.COMPLETE_COMMIT
    driver.tick(1)
    driver.tick(KEPT_MS - 1)
    assert driver.do(cmd.Describe("t")).state is TxnState.DEAD
    driver.tick(1)
    index = driver.table.index
    assert not index.entries
    assert not index.ids
    assert driver.do(cmd.ListIds()) == ()
    assert index.removed == RemovedIds(session.producer_id, 2), "the session was given 2"
    assert driver.log[-2:] == [("orphan:0", index.removed.encode()), ("txn:t", None)]
    driver.tick(60_000)  # where its last transaction would have timed out
    assert driver.table.next_deadline_ms() is None, "nothing is left to look at"


def test_every_way_out_of_dead_stands_in_the_table() -> None:
    assert set(TRANSITIONS[TxnState.DEAD, TxnState.EMPTY]) == {Trigger.TAKE_OVER, Trigger.REMOVAL}
    assert [key for key, triggers in TRANSITIONS.items() if Trigger.REMOVAL in triggers] == [
        (TxnState.DEAD, TxnState.EMPTY)
    ], "only what has expired is removed"


@pytest.mark.parametrize("state", [state for state in TxnState if state is not TxnState.DEAD])
def test_from_no_other_state_is_an_id_removed_however_late_it_is(state: TxnState) -> None:
    driver = Driver(replace(LIMITS, transactional_id_expiration_ms=1 << 40))
    session = driver.init(timeout_ms=900_000)
    if state is not TxnState.EMPTY:
        driver.enrol(session, 1, P0)
    if state not in (TxnState.EMPTY, TxnState.ONGOING):
        driver.end(session, 1, "COMMIT" in state)
    if "COMPLETE" in state:
        driver.mark(1, P0)
    assert driver.do(cmd.Describe("t")).state is state
    driver.tick(800_000)
    assert is_known(driver)
    with pytest.raises(AssertionError):
        driver.table.apply(rec.Tombstone("txn:t"))


@pytest.mark.case("hole 16")
def test_an_id_with_a_token_is_never_removed(driver: Driver) -> None:
    job(driver, "t", expires=False)
    pass_time(driver)
    driver.tick(1_000 * KEPT_MS)
    assert driver.do(cmd.Describe("t")).state is TxnState.DEAD
    assert driver.join(run="r9", attempt="9").already_committed
    assert list(driver.table.index.lasting) == ["t"]


def test_an_id_whose_tokens_expire_is_removed(driver: Driver) -> None:
    for i in range(3):
        job(driver, f"spark-job-{i}", expires=True)
    pass_time(driver)
    assert not driver.table.index.entries


def test_one_token_that_lasts_keeps_the_id_and_all_its_tokens(driver: Driver) -> None:
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 1, "1"), (), driver.fresh(), True))
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("b", 1, "2")))
    pass_time(driver)
    assert driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 1, "1"))).already_committed
    record = driver.table.index.find("t")
    assert record is not None
    assert [token.expires for token in record.tokens] == [True, False]


def test_a_token_lasts_when_a_later_commit_of_its_app_says_so(driver: Driver) -> None:
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 1, "1"), (), driver.fresh(), True))
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 2, "2")))
    pass_time(driver)
    assert is_known(driver)


@pytest.mark.case("hole 16")
def test_a_token_that_must_last_still_does_when_a_later_batch_of_its_app_may_expire(driver: Driver) -> None:
    """Else both go with the id, and a replay of the first batch is taken for new."""
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 1, "1"), (), driver.fresh()))
    driver.do(cmd.Commit("t", "r1", 0, cmd.BatchName("a", 2, "2"), (), 0, True))
    pass_time(driver)
    assert list(driver.table.index.lasting) == ["t"]
    with pytest.raises(errors.BatchRolledBackError):
        driver.do(cmd.Commit("t", "r9", 0, cmd.BatchName("a", 1, "9"), (), driver.fresh()))
    assert driver.do(cmd.Commit("t", "r9", 0, cmd.BatchName("a", 2, "9"))).already_committed


def test_what_comes_back_before_the_end_is_not_removed(driver: Driver) -> None:
    session = used_once(driver)
    driver.tick(IDLE_MS)
    driver.tick(KEPT_MS - 1)
    back = driver.init()
    assert (back.producer_id, back.next_txn_no) == (session.producer_id, 3)
    driver.tick(1)
    assert is_known(driver)
    pass_time(driver)
    driver.tick(KEPT_MS)
    assert not is_known(driver), "its second life ends like its first one"


def test_many_ids_are_removed_in_portions() -> None:
    driver = Driver(replace(LIMITS, expire_per_tick=10))
    for i in range(25):
        driver.init(f"t{i}")
    driver.tick(IDLE_MS)
    driver.tick(0)
    driver.tick(0)
    driver.tick(KEPT_MS)
    assert 10 <= len(driver.table.index.entries) < 25
    driver.tick(0)
    driver.tick(0)
    assert not driver.table.index.entries
    assert driver.table.next_deadline_ms() is None


def test_the_error_of_max_ids_says_what_is_kept_and_what_to_do() -> None:
    driver = Driver(replace(LIMITS, max_ids=3))
    job(driver, "kept", expires=False)
    for tid in ("passes-1", "passes-2"):
        used_once(driver, tid)
    with pytest.raises(errors.ResourceExhaustedError, match=r"1 of them are kept forever.*transactionalId") as caught:
        driver.init("one-more")
    assert caught.value.context["kept_for_ever"] == "1"
    pass_time(driver)
    driver.init("one-more")


# ---------------------------------------------------------------- (a) outcomes


def test_a_nobody_is_told_that_a_removed_transaction_never_began(driver: Driver) -> None:
    used_once(driver, transactions=3)
    pass_time(driver)
    for n in (1, 3):
        with pytest.raises(errors.OutcomeForgottenError, match="or it was never begun"):
            driver.outcome(n)
    with pytest.raises(errors.InvalidPidMappingError):
        driver.outcome(5)


def test_a_the_numbers_of_a_removed_id_are_nobody_elses(driver: Driver) -> None:
    used_once(driver, transactions=3)
    pass_time(driver)
    again = driver.init()
    assert again.next_txn_no == 5, "4 is the number that the session before was given, and may have noted"
    assert again.producer_epoch == 0, "a first session"
    for n in (1, 2, 3, 4):
        with pytest.raises(errors.OutcomeForgottenError, match="or it was never begun"):
            driver.outcome(n)
    assert not driver.outcome(5).begun
    driver.enrol(again, 5, P0)
    assert driver.end(again, 5).committed
    assert driver.outcome(5).committed


def test_a_other_ids_do_not_lend_their_numbers_either(driver: Driver) -> None:
    """Only the highest number of all removed ids is kept, so an id that is new begins above it, too."""
    used_once(driver, "long", transactions=5)
    used_once(driver, "short")
    pass_time(driver)
    assert driver.init("new").next_txn_no == 7
    assert driver.join(tid="joined").txn_no == 7
    assert driver.do(cmd.Commit("empty", "r1", 0, cmd.BatchName("a", 0, "1"), (), driver.fresh())).txn_no == 7


def test_a_a_run_was_given_only_what_it_opened(driver: Driver) -> None:
    job(driver, "t", expires=True)
    pass_time(driver)
    assert driver.table.index.removed.txn_no == 1


def test_a_a_driver_that_repeats_its_commit_much_later_is_told_to_look(driver: Driver) -> None:
    joined = job(driver, "t", expires=True)
    pass_time(driver)
    again = cmd.Commit(
        "t", "r1", joined.txn_no, cmd.BatchName("app", 0, "1"), (cmd.Winner(joined.producer_id, 1),), 0, True
    )
    with pytest.raises(errors.OutcomeForgottenError):
        driver.do(again)
    driver.join(attempt="2")  # a task of the job thaws before the driver does
    with pytest.raises(errors.TxnEndedError):
        driver.do(again)


@pytest.mark.parametrize("removed", [False, True])
def test_a_a_producer_that_repeats_its_commit_much_later_is_told_to_look(driver: Driver, removed: bool) -> None:
    """Not 49: that says "begin the next transaction", and the records would be there twice."""
    session = used_once(driver)
    driver.tick(IDLE_MS)
    if removed:
        driver.tick(KEPT_MS)
    with pytest.raises(errors.OutcomeForgottenError):
        driver.end(session, 1)
    with pytest.raises(errors.InvalidPidMappingError):
        driver.end(session, 3)


@pytest.mark.parametrize("removed", [False, True])
def test_a_a_producer_that_aborts_much_later_hears_that_its_session_is_over(driver: Driver, removed: bool) -> None:
    """It does not ask what became of it, and the number that it was given may never have been begun."""
    session = used_once(driver)
    driver.tick(IDLE_MS)
    if removed:
        driver.tick(KEPT_MS)
    for n in (1, 2, 3):
        with pytest.raises(errors.InvalidPidMappingError):
            driver.end(session, n, commit=False)


def test_a_a_leader_that_asks_is_not_told_that_it_was_aborted(driver: Driver) -> None:
    """It was committed, and its marker is on disk wherever it was enrolled: the asker finds it in its own log."""
    session = used_once(driver)
    pass_time(driver)
    with pytest.raises(errors.OutcomeForgottenError):
        driver.do(cmd.Resolve(session.producer_id, 1, P0.topic_id, 0))
    assert driver.do(cmd.Resolve(session.producer_id, 3, P0.topic_id, 0)).committed is False, "never given to anybody"
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.Resolve(0, 1, P0.topic_id, 0))


# ---------------------------------------------------------------- (b) zombies


def test_b_a_zombie_of_a_removed_id_does_nothing(driver: Driver) -> None:
    old = used_once(driver)
    pass_time(driver)
    for again in (False, True):
        if again:
            young = driver.init()
            assert young.producer_id != old.producer_id
        for n in (1, 2, 3):
            with pytest.raises(errors.InvalidPidMappingError):
                driver.enrol(old, n, P0)
            with pytest.raises(errors.InvalidPidMappingError):
                driver.do(cmd.Enrol(cmd.TxnName("", old.producer_id, n, 0), (P0,)))
            with pytest.raises((errors.InvalidPidMappingError, errors.OutcomeForgottenError)):
                driver.end(old, n)
    assert driver.table.index.find("t").open is None  # type: ignore[union-attr]


def test_b_a_zombie_task_and_its_driver_do_nothing(driver: Driver) -> None:
    joined = driver.join(batch=3)
    driver.do(cmd.Enrol(participant(joined), (P0,)))
    driver.do(cmd.Abort("t", "r1", joined.txn_no, "app", 3))
    driver.mark(1, P0)
    pass_time(driver)
    driver.join(run="r2", batch=3, attempt="2")
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.Renew(participant(joined), "r1"))
    with pytest.raises(errors.InvalidPidMappingError):
        driver.do(cmd.Enrol(participant(joined), (P0,)))
    with pytest.raises(errors.ProducerFencedError):
        driver.commit(joined.txn_no, cmd.Winner(joined.producer_id, 1, {P0: 1}), batch=3)
    assert driver.do(cmd.Abort("t", "r1", joined.txn_no, "app", 3)) is False


def test_b_a_session_that_goes_on_gets_a_producer_id_that_was_never_given(driver: Driver) -> None:
    """As under any unknown id (case A13), and like Kafka's: what it expects is of no transaction that can still be ended."""
    old = used_once(driver)
    pass_time(driver)
    new = driver.init(expected_producer_id=old.producer_id, expected_producer_epoch=old.producer_epoch)
    assert new.producer_id > old.producer_id
    with pytest.raises(errors.ProducerFencedError):
        driver.init(expected_producer_id=old.producer_id, expected_producer_epoch=old.producer_epoch)


def test_b_a_late_copy_of_a_first_session_is_a_session_of_its_own(driver: Driver) -> None:
    first = driver.init(nonce="a")
    pass_time(driver)
    late = driver.init(nonce="a")
    assert late.producer_id != first.producer_id


# ---------------------------------------------------------------- (c) nothing unfinished


def test_c_an_id_stays_while_a_marker_is_not_on_disk(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0, P1)
    driver.end(session, 1)
    driver.mark(1, P0)
    driver.do(cmd.MarkersCommitted("t", 1, (P1,)))
    pass_time(driver)
    assert driver.do(cmd.Describe("t")).state is TxnState.PREPARE_COMMIT
    driver.mark(1, P1)
    driver.tick(IDLE_MS - 1)
    assert driver.do(cmd.Describe("t")).state is TxnState.COMPLETE_COMMIT, "it counts from the last marker on"


def test_c_an_id_stays_while_a_groups_offsets_wait_for_its_marker(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, groups=("g",))
    driver.end(session, 1)
    pass_time(driver)
    assert is_known(driver)
    driver.mark(1, groups=("g",))
    pass_time(driver)
    assert not is_known(driver)


def test_c_an_id_stays_while_a_participant_lives(driver: Driver) -> None:
    joined = driver.join(lease_ms=2 * (IDLE_MS + KEPT_MS), max_duration_ms=100 * IDLE_MS)
    for _ in range(5):
        driver.tick(IDLE_MS + KEPT_MS)
        driver.do(cmd.Renew(participant(joined), "r1"))
    assert driver.do(cmd.Describe("t")).state is TxnState.ONGOING
    assert driver.commit(joined.txn_no).committed_rows == 0


def test_c_what_a_leader_may_have_opened_under_an_earlier_life_ends_first(driver: Driver) -> None:
    session = driver.init()
    driver.enrol(session, 1, P0)
    driver.end(session, 1)
    driver.mark(1, P0)
    driver.enrol(session, 2, P0)
    later = driver.replayed(lost=1)
    later.tick(IDLE_MS)
    later.tick(KEPT_MS)
    (markers,) = [effect for effect in later.effects if isinstance(effect, cmd.SendMarkers)]
    assert (markers.txn_no, markers.committed) == (2, False)
    assert later.table.knows("t")
    later.mark(2, P0)
    pass_time(later)
    assert not later.table.knows("t")


def test_c_what_healing_was_told_of_a_number_to_come_is_kept(driver: Driver) -> None:
    session = used_once(driver)
    assert driver.do(cmd.Resolve(session.producer_id, 3, P0.topic_id, 0)).committed is False
    pass_time(driver)
    assert is_known(driver)
    assert driver.do(cmd.Resolve(session.producer_id, 3, P0.topic_id, 0)).committed is False


def test_c_what_healing_is_told_of_an_expired_ids_next_number_is_kept_and_can_be_loaded(driver: Driver) -> None:
    session = used_once(driver)
    driver.tick(IDLE_MS)
    assert driver.do(cmd.Resolve(session.producer_id, 2, P0.topic_id, 0)).committed is False
    later = driver.replayed()
    later.tick(KEPT_MS)
    assert later.do(cmd.Describe("t")).state is TxnState.DEAD
    assert later.do(cmd.Resolve(session.producer_id, 2, P0.topic_id, 0)).committed is False


def test_c_a_tombstone_for_what_must_stay_is_a_broken_invariant() -> None:
    driver = Driver(LIMITS)
    job(driver, "token", expires=False)
    used_once(driver, "numbers")
    driver.tick(IDLE_MS)
    for tid in ("token", "numbers"):
        with pytest.raises(AssertionError):
            driver.table.apply(rec.Tombstone(f"txn:{tid}"))


# ---------------------------------------------------------------- (d) races within one tick


def test_d_a_session_that_was_asked_for_before_the_removal_asks_for_a_producer_id(driver: Driver) -> None:
    """The shell saw the id, so it brought none; the id goes in the same step, and the shell asks again with one."""
    old = used_once(driver)
    pass_time(driver)
    with pytest.raises(errors.CoordinatorNotAvailableError):
        driver.do(cmd.InitProducerId("t", 60_000, "", 0))
    assert driver.init().producer_id != old.producer_id


def test_d_a_session_in_the_tick_before_keeps_the_id(driver: Driver) -> None:
    old = used_once(driver)
    driver.tick(IDLE_MS)
    driver.now_ms += KEPT_MS
    assert driver.init().producer_id == old.producer_id
    driver.do(cmd.Tick())
    assert is_known(driver)


def test_d_an_id_that_stands_twice_among_the_deadlines_is_removed_once(driver: Driver) -> None:
    used_once(driver)
    driver.tick(IDLE_MS)
    driver.table._expiries.watch("t", driver.now_ms)
    driver.tick(KEPT_MS)
    assert [key for key, value in driver.log if value is None] == ["txn:t"]


# ---------------------------------------------------------------- (e) fail-over


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_e_a_life_that_dies_while_it_removes_leaves_all_or_nothing(lost: int) -> None:
    driver = Driver(LIMITS)
    session = used_once(driver, transactions=2)
    pass_time(driver)
    later = driver.replayed(lost=lost)
    assert later.table.knows("t") is bool(lost)
    for n in (1, 2):
        with pytest.raises(errors.OutcomeForgottenError):
            later.outcome(n)
        with pytest.raises(errors.OutcomeForgottenError):
            later.end(session, n)
    again = later.init()
    assert again.next_txn_no > 2
    later.tick(0)
    assert later.replayed(compacted=True).durable() == later.durable()


def test_e_a_record_that_took_the_tombstones_place_in_one_append_is_the_ids() -> None:
    """The newest record of a key replaces older ones of the same append, and a load takes the newest of each key alone."""
    driver = Driver(LIMITS)
    old = used_once(driver)
    pass_time(driver)
    young = driver.init()
    driver.log = [(key, value) for key, value in driver.log if value is not None]
    later = driver.replayed(compacted=True)
    assert later.table.index.ids == {young.producer_id: "t"}
    assert old.producer_id not in later.table.index.ids


def test_e_the_next_life_remembers_what_was_removed_before(driver: Driver) -> None:
    used_once(driver, transactions=4)
    pass_time(driver)
    later = driver.replayed(compacted=True)
    assert later.init().next_txn_no == 6
    used_once(later, "other")
    pass_time(later)
    assert later.replayed(compacted=True).table.index.removed == later.table.index.removed


# ---------------------------------------------------------------- (f) clocks


def test_f_a_clock_that_went_forward_at_a_fail_over_removes_nothing_that_was_in_use(driver: Driver) -> None:
    job(driver, "t", expires=True)
    driver.now_ms += 30 * 86_400_000
    later = driver.replayed()
    for _ in range(3):
        later.tick(0)
    assert later.do(cmd.Describe("t")).state is TxnState.DEAD
    later.tick(KEPT_MS - 1)
    assert later.table.knows("t"), "the time that it is kept begins when it expires"
    driver.now_ms -= 30 * 86_400_000


def test_f_a_clock_that_went_back_removes_nothing_early(driver: Driver) -> None:
    used_once(driver)
    driver.tick(IDLE_MS)
    driver.now_ms -= IDLE_MS
    later = driver.replayed()
    later.tick(KEPT_MS)
    assert later.table.knows("t")
    later.tick(IDLE_MS)
    assert not later.table.knows("t")


# ---------------------------------------------------------------- the log


def test_a_tombstone_of_another_kind_removes_no_id(driver: Driver) -> None:
    driver.init("epoch")
    driver.table.apply(rec.Tombstone("epoch"))
    assert is_known(driver, "epoch")
