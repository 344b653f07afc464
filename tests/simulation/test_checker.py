"""Each check of the history checker fails on a history that shows its anomaly, and none on a clean one."""

from __future__ import annotations

import pytest

from tests.simulation.checker import Final, check
from tests.simulation.history import History, Key, Operation, Status, Value

A: Key = ("t", 0)
B: Key = ("t", 1)


def write(
    history: History, status: Status, *writes: tuple[Key, Value], kind: str = "send", process: str = "p"
) -> Operation:
    operation = history.invoke(process, kind, 0)
    operation.writes = list(writes)
    history.complete(operation, status, 1)
    return operation


def poll(history: History, key: Key, *records: tuple[int, Value], process: str = "c", kind: str = "poll") -> Operation:
    operation = history.invoke(process, kind, 0)
    operation.reads = {key: list(records)}
    history.complete(operation, Status.OK, 1)
    return operation


def names(history: History, final: Final) -> set[str]:
    return {anomaly.name for anomaly in check(history, final)}


def test_a_clean_history_has_no_anomaly() -> None:
    h = History()
    write(h, Status.OK, (A, 1))
    write(h, Status.FAIL, (A, 2))
    write(h, Status.INFO, (A, 3))
    write(h, Status.OK, (A, 4), (B, 5), kind="txn")
    poll(h, A, (0, 1))
    poll(h, A, (7, 4))
    assert names(h, {A: [(0, 1), (7, 4)], B: [(3, 5)]}) == set()


def test_a_write_that_was_acknowledged_and_is_gone() -> None:
    h = History()
    write(h, Status.OK, (A, 1))
    assert names(h, {A: []}) == {"lost-write"}


def test_one_visible_value_proves_an_unknown_transaction() -> None:
    h = History()
    write(h, Status.INFO, (A, 1), (B, 2), kind="txn")
    assert names(h, {A: [(0, 1)], B: []}) == {"lost-write", "torn-transaction"}


def test_an_aborted_value_that_is_read() -> None:
    h = History()
    write(h, Status.FAIL, (A, 1))
    assert names(h, {A: [(0, 1)]}) == {"G1a-aborted-read"}


def test_a_value_twice() -> None:
    h = History()
    write(h, Status.OK, (A, 1))
    assert "duplicate" in names(h, {A: [(0, 1), (1, 1)]})


def test_two_values_at_one_offset() -> None:
    h = History()
    write(h, Status.OK, (A, 1))
    write(h, Status.OK, (A, 2))
    poll(h, A, (0, 2))
    assert "inconsistent-offsets" in names(h, {A: [(0, 1), (1, 2)]})


def test_a_value_in_the_wrong_partition() -> None:
    h = History()
    write(h, Status.INFO, (B, 1))
    assert names(h, {A: [(0, 1)]}) == {"unexpected-read"}


@pytest.mark.parametrize(
    ("reads", "anomaly"), [([(0, 1), (2, 3)], "poll-skip"), ([(0, 1), (1, 2), (0, 1)], "nonmonotonic-poll")]
)
def test_a_reader_that_skips_or_goes_back(reads: list[tuple[int, Value]], anomaly: str) -> None:
    h = History()
    for value in (1, 2, 3):
        write(h, Status.OK, (A, value))
    for record in reads:
        poll(h, A, record)
    assert anomaly in names(h, {A: [(0, 1), (1, 2), (2, 3)]})


def test_sends_of_one_process_out_of_order() -> None:
    h = History()
    write(h, Status.OK, (A, 1))
    write(h, Status.OK, (A, 2))
    assert names(h, {A: [(0, 2), (1, 1)]}) == {"nonmonotonic-send"}


def test_two_transactions_that_read_each_other() -> None:
    h = History()
    first = write(h, Status.OK, (A, 1), kind="txn", process="p")
    second = write(h, Status.OK, (B, 2), kind="txn", process="q")
    first.reads = {B: [(0, 2)]}
    second.reads = {A: [(0, 1)]}
    assert names(h, {A: [(0, 1)], B: [(0, 2)]}) == {"G1c-circular-information"}


# ------------------------------------------------------------ real time and processes


def snapshot(history: History, key: Key, end: int, *records: tuple[int, Value], kind: str = "snapshot") -> Operation:
    operation = poll(history, key, *records, process="s", kind=kind)
    operation.read_ends = {key: end}
    return operation


def committed(history: History, offset: int, key: Key, value: Value, *, is_visible: bool = True) -> Operation:
    operation = write(history, Status.OK, (key, value), kind="txn")
    operation.write_offsets = {(key, value): offset}
    operation.is_visible = is_visible
    return operation


def test_a_snapshot_that_misses_what_was_acknowledged_before() -> None:
    h = History()
    write(h, Status.OK, (A, 1))
    snapshot(h, A, 0)
    assert names(h, {A: [(0, 1)]}) == {"stale-read"}


def test_a_snapshot_may_miss_what_was_acknowledged_after_it_began() -> None:
    h = History()
    early = h.invoke("s", "snapshot", 0)
    write(h, Status.OK, (A, 1))
    early.read_ends = {A: 0}
    h.complete(early, Status.OK, 1)
    assert names(h, {A: [(0, 1)]}) == set()


def test_a_snapshot_that_misses_a_commit_that_was_answered_as_visible() -> None:
    h = History()
    committed(h, 0, A, 1)
    snapshot(h, A, 0)
    assert names(h, {A: [(0, 1)]}) == {"stale-read"}


def test_a_snapshot_may_miss_a_commit_that_was_only_decided_or_that_another_one_holds_back() -> None:
    h = History()
    committed(h, 5, A, 1, is_visible=False)
    snapshot(h, A, 5)
    still_open = h.invoke("other", "txn", 0)
    still_open.writes = [(A, 9)]
    committed(h, 7, A, 2)
    snapshot(h, A, 6, (5, 1))
    assert names(h, {A: [(5, 1), (7, 2)]}) == set()


def test_below_its_end_a_snapshot_misses_nothing_that_is_committed() -> None:
    h = History()
    committed(h, 5, A, 1, is_visible=False)
    snapshot(h, A, 6)
    assert names(h, {A: [(5, 1)]}) == {"stale-read"}


def test_a_look_at_everything_misses_no_acknowledged_record() -> None:
    h = History()
    committed(h, 5, A, 1, is_visible=False)
    snapshot(h, A, 5, kind="look")
    assert names(h, {A: [(5, 1)]}) == {"stale-read"}


def session(history: History, epoch: int, producer_id: int = 7) -> Operation:
    operation = history.invoke("p", "init", 0)
    operation.session = ("id", producer_id, epoch)
    history.complete(operation, Status.OK, 1)
    return operation


def test_a_session_that_commits_after_a_newer_one_began() -> None:
    for asked_after, expected in ((True, {"fenced-session-acted"}), (False, set())):
        h = History()
        session(h, 0)
        old = h.invoke("p", "txn", 0)
        old.session, old.writes = ("id", 7, 0), [(A, 1)]
        if not asked_after:
            old.asked = h.moment()
        session(h, 1)
        if asked_after:
            old.asked = h.moment()
        h.complete(old, Status.OK, 1)
        assert names(h, {A: [(0, 1)]}) == expected


@pytest.mark.parametrize("producer_id", [3, 11])
def test_a_session_of_a_removed_id_that_commits_after_the_id_was_made_again(producer_id: int) -> None:
    """Producer ids have no order in time, so the sessions have that in which they began."""
    h = History()
    session(h, 5)
    old = h.invoke("p", "txn", 0)
    old.session, old.writes = ("id", 7, 5), [(A, 1)]
    session(h, 0, producer_id)
    young = h.invoke("q", "txn", 0)
    young.session, young.writes, young.asked = ("id", producer_id, 0), [(B, 2)], h.moment()
    h.complete(young, Status.OK, 1)
    final = {A: [(0, 1)], B: [(0, 2)]}
    assert names(h, final) == set()
    old.asked = h.moment()
    h.complete(old, Status.OK, 1)
    assert names(h, final) == {"fenced-session-acted"}


def test_transactions_that_read_each_other() -> None:
    h = History()
    one = write(h, Status.OK, (A, 1), kind="txn")
    other = write(h, Status.OK, (B, 2), kind="txn")
    one.reads, other.reads = {B: [(0, 2)]}, {A: [(0, 1)]}
    assert names(h, {A: [(0, 1)], B: [(0, 2)]}) == {"G1c-circular-information"}


def test_a_transaction_that_reads_itself() -> None:
    h = History()
    one = write(h, Status.OK, (A, 1), kind="txn")
    one.reads = {A: [(0, 1)]}
    assert names(h, {A: [(0, 1)]}) == {"dirty-read"}


def test_a_value_that_was_said_to_be_unwritten_and_was_written_again() -> None:
    h = History()
    write(h, Status.FAIL, (A, 1))
    write(h, Status.OK, (A, 1))
    assert names(h, {A: [(3, 1)]}) == set()
    assert "duplicate" in names(h, {A: [(0, 1), (3, 1)]})


def test_a_value_that_was_said_to_be_unwritten_is_read() -> None:
    h = History()
    write(h, Status.FAIL, (A, 1))
    assert names(h, {A: [(0, 1)]}) == {"G1a-aborted-read"}


# ------------------------------------------------------------ readers to the end, and ids


def three(history: History) -> Final:
    for value in (1, 2, 3):
        write(history, Status.OK, (A, value))
    return {A: [(0, 1), (1, 2), (2, 3)]}


@pytest.mark.parametrize("kind", ["consume", "txn"])
@pytest.mark.parametrize(
    ("reads", "anomalies"),
    [
        ([(0, 1), (2, 3)], {"int-poll-skip"}),
        ([(1, 2), (0, 1)], {"int-nonmonotonic-poll"}),
        ([(1, 2), (2, 3)], set()),
    ],
)
def test_neighbours_within_one_read_follow_each_other(
    kind: str, reads: list[tuple[int, Value]], anomalies: set[str]
) -> None:
    h = History()
    final = three(h)
    poll(h, A, *reads, kind=kind)
    assert names(h, final) == anomalies


def test_a_member_of_a_group_may_begin_anywhere_after_its_assignment_changed() -> None:
    h = History()
    final = three(h)
    poll(h, A, (2, 3), kind="consume")
    poll(h, A, (0, 1), kind="consume")
    assert names(h, final) == set()


@pytest.mark.parametrize(
    ("reads", "anomalies"),
    [
        ([(0, 1), (2, 3)], {"peek-skip"}),
        ([(0, 1), (1, 2), (1, 2)], {"nonmonotonic-peek"}),
        ([(0, 1), (1, 2), (2, 3)], set()),
    ],
)
def test_who_reads_everything_uncommitted_misses_and_repeats_nothing(
    reads: list[tuple[int, Value]], anomalies: set[str]
) -> None:
    h = History()
    final = three(h)
    for record in reads:
        poll(h, A, record, kind="peek")
    assert names(h, final) == anomalies


def test_aborted_records_are_steps_of_an_uncommitted_reader_too() -> None:
    h = History()
    write(h, Status.OK, (A, 1))
    write(h, Status.FAIL, (A, 2), kind="txn")
    write(h, Status.OK, (A, 3))
    final: Final = {A: [(0, 1), (2, 3)]}
    poll(h, A, (0, 1), (1, 2), (2, 3), kind="peek", process="c")
    assert names(h, final) == set()
    poll(h, A, (0, 1), (2, 3), kind="peek", process="d")
    assert names(h, final) == {"peek-skip"}


@pytest.mark.parametrize("kind", ["poll", "peek"])
def test_a_reader_that_ends_has_seen_everything(kind: str) -> None:
    for seen, anomalies in (((0, 1, 2), set()), ((0, 1), {"unseen"})):
        h = History()
        final = three(h)
        poll(h, A, *(final[A][i] for i in seen), kind=kind)
        drained = h.invoke("c", "drained", 2)
        drained.read_ends = {A: 3}
        h.complete(drained, Status.OK, 2)
        assert names(h, final) == anomalies


def test_an_end_that_was_named_is_where_seeing_ends() -> None:
    h = History()
    final = three(h)
    poll(h, A, (0, 1), (1, 2))
    drained = h.invoke("c", "drained", 2)
    drained.read_ends = {A: 2}
    h.complete(drained, Status.OK, 2)
    assert names(h, final) == set()


def test_a_producer_id_that_two_transactional_ids_were_given() -> None:
    for id_, expected in (("id", set()), ("other", {"id-given-twice"})):
        h = History()
        session(h, 0)
        again = session(h, 1)
        again.session = (id_, 7, 1)
        assert names(h, {}) == expected


def test_a_session_that_was_given_twice() -> None:
    h = History()
    session(h, 3)
    session(h, 3)
    assert names(h, {}) == {"session-given-twice"}
