"""A session says what comes next, and takes each step of its table and no other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from oncelog.errors import ErrorCode
from oncelog_partition_leader.core.replication.replication_session import (
    TRANSITIONS,
    Hello,
    Next,
    Refusal,
    ReplicationSession,
    SessionState,
    is_silence,
    refusal,
)
from oncelog_partition_leader.core.replication.sessions import FollowerEnd, Reset, Stream, Truncate

S = SessionState
SNAPSHOT = b"producers"


def session(state: SessionState) -> ReplicationSession:
    """A session in this state, by the steps that lead there. Its cut and its reset are at 4."""
    made = ReplicationSession()
    paths: dict[SessionState, tuple[Callable[[], None], ...]] = {
        S.HELLO: (),
        S.ASKED: (lambda: made.asked(),),
        S.TRUNCATE: (lambda: made.asked(), lambda: made.apply(Truncate(4))),
        S.PREPARE: (lambda: made.asked(), lambda: made.apply(Reset(3))),
        S.RESET: (lambda: made.asked(), lambda: made.apply(Reset(3)), lambda: made.prepared(1, 4, SNAPSHOT)),
        S.STREAM: (lambda: made.asked(), lambda: made.apply(Stream(4))),
    }
    made.begin(1)
    for step in paths[state]:
        step()
    assert made.state is state
    return made


STEPS: dict[str, Callable[[ReplicationSession], None]] = {
    "asked": lambda s: s.asked(),
    "stream": lambda s: s.apply(Stream(0)),
    "cut": lambda s: s.apply(Truncate(0)),
    "reset": lambda s: s.apply(Reset(0)),
    "prepared": lambda s: s.prepared(1, 0, SNAPSHOT),
    "over": ReplicationSession.over,
}
LEADS: dict[str, dict[SessionState, SessionState]] = {
    "asked": {S.HELLO: S.ASKED, S.TRUNCATE: S.ASKED, S.RESET: S.ASKED},
    "stream": {S.ASKED: S.STREAM},
    "cut": {S.ASKED: S.TRUNCATE},
    "reset": {S.ASKED: S.PREPARE},
    "prepared": {S.PREPARE: S.RESET, **{state: state for state in S if state is not S.PREPARE}},
    "over": dict.fromkeys(S, S.HELLO),
}
"""Step -> from -> to. A snapshot that comes too late changes nothing; every other step that is not here is a bug."""


@pytest.mark.parametrize(("step", "state"), list(product(STEPS, S)))
def test_a_step_leads_where_the_table_says_or_nowhere(step: str, state: SessionState) -> None:
    at = session(state)
    if state in LEADS[step]:
        STEPS[step](at)
        assert at.state is LEADS[step][state]
    else:
        with pytest.raises(AssertionError, match="no step leads"):
            STEPS[step](at)
        assert at.state is state, "a refused step changes nothing"


def test_the_table_has_these_steps_and_no_other() -> None:
    taken = {(old, new) for leads in LEADS.values() for old, new in leads.items()}
    stays = {(state, state) for state in S if state is not S.HELLO}
    assert taken - stays == set(TRANSITIONS)


# ---------------------------------------------------------------- what to send


@pytest.mark.parametrize("state", [S.HELLO, S.TRUNCATE, S.RESET])
def test_a_question_is_always_news(state: SessionState) -> None:
    assert session(state).has_news(0, 0, 0)


@pytest.mark.parametrize("state", [S.ASKED, S.PREPARE])
def test_while_an_answer_or_a_snapshot_is_waited_for_nothing_is_sent(state: SessionState) -> None:
    assert not session(state).has_news(100, 100, 100)


@pytest.mark.parametrize(
    ("log_end", "high_watermark", "asked", "is_news"),
    [(4, 3, 1, False), (5, 3, 1, True), (4, 4, 1, True), (4, 3, 2, True)],
)
def test_news_of_a_stream_are_data_a_watermark_or_a_question(
    log_end: int, high_watermark: int, asked: int, is_news: bool
) -> None:
    stream = session(S.STREAM)
    stream.streamed(4, 3, 1)
    assert stream.has_news(log_end, high_watermark, asked) is is_news


def test_each_state_has_its_question() -> None:
    assert session(S.HELLO).question() == Hello()
    assert isinstance(session(S.HELLO).question(), Hello)
    assert isinstance(session(S.TRUNCATE).question(), Truncate)
    assert session(S.TRUNCATE).question() == Truncate(4)
    assert isinstance(session(S.RESET).question(), Reset)
    assert session(S.RESET).question() == Reset(4)


@pytest.mark.parametrize("state", [S.ASKED, S.PREPARE, S.STREAM])
def test_the_other_states_have_no_question(state: SessionState) -> None:
    with pytest.raises(AssertionError):
        session(state).question()


def test_data_is_sent_in_the_stream_only() -> None:
    for state in S:
        if state is not S.STREAM:
            with pytest.raises(AssertionError, match="when the logs agree"):
                session(state).streamed(1, 1, 1)


def test_a_session_begins_with_its_hello_only() -> None:
    for state in S:
        if state is not S.HELLO:
            with pytest.raises(AssertionError, match="begins with its hello"):
                session(state).begin(2)


# ---------------------------------------------------------------- answers


def end_of_epoch(epoch: int) -> tuple[int, int]:
    """The leader's epoch 1 ends at 10; it knows no other."""
    return (1, 10) if epoch >= 1 else (-1, 0)


@pytest.mark.parametrize(
    ("told", "step"),
    [
        (FollowerEnd(8, 1, 0), Stream(8)),
        (FollowerEnd(12, 1, 0), Truncate(10)),
        (FollowerEnd(12, 2, 9), Truncate(9)),
        (FollowerEnd(2, 1, 0), Reset(5)),
    ],
)
def test_an_answer_to_a_hello_is_judged_by_leader_epochs(told: FollowerEnd, step: Stream | Truncate | Reset) -> None:
    asked = session(S.ASKED)
    decided = asked.decide(told, end_of_epoch, 5, 10)
    assert (type(decided), decided) == (type(step), step)
    assert asked.state is S.ASKED, "deciding only reads"


def test_after_its_reset_a_follower_streams_from_there_whatever_was_deleted_since() -> None:
    at = session(S.RESET)
    at.asked()
    told = FollowerEnd(4, -1, 4)
    assert isinstance(at.decide(told, end_of_epoch, 6, 10), Stream)
    assert isinstance(at.decide(told._replace(log_end_offset=3), end_of_epoch, 6, 10), Reset), "not where it was asked"
    assert isinstance(at.decide(FollowerEnd(4, 0, 0), end_of_epoch, 6, 10), Reset), "its log is not empty"
    at.apply(Reset(6))
    at.prepared(1, 6, SNAPSHOT)
    assert (at.to, at.snapshot) == (6, SNAPSHOT)


def test_a_follower_that_was_not_reset_is_never_believed_to_be() -> None:
    asked = session(S.ASKED)
    asked.to = 4
    assert isinstance(asked.decide(FollowerEnd(4, -1, 4), end_of_epoch, 6, 10), Reset)


def test_an_answer_without_a_question_is_a_bug() -> None:
    for state in S:
        if state is not S.ASKED:
            with pytest.raises(AssertionError, match="belongs to a question"):
                session(state).decide(FollowerEnd(0, -1, 0), end_of_epoch, 0, 0)


def test_a_stream_begins_where_the_logs_agree_and_has_told_no_watermark() -> None:
    stream = session(S.STREAM)
    assert (stream.next_offset, stream.sent_watermark, stream.snapshot) == (4, -1, None)
    assert stream.has_news(4, 0, 0), "its first message is sent even without data"


def test_a_snapshot_for_a_session_that_is_over_is_dropped() -> None:
    preparing = session(S.PREPARE)
    preparing.prepared(2, 9, SNAPSHOT)
    assert (preparing.state, preparing.snapshot) == (S.PREPARE, None)


@pytest.mark.parametrize("state", S)
def test_what_is_over_is_forgotten(state: SessionState) -> None:
    at = session(state)
    at.sent_question = 7
    at.over()
    assert (at.state, at.number, at.snapshot, at.sent_question) == (S.HELLO, 0, None, 0)


# ---------------------------------------------------------------- what is due after an answer


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (S.HELLO, Next.SEND),
        (S.ASKED, Next.NOTHING),
        (S.TRUNCATE, Next.SEND),
        (S.PREPARE, Next.TAKE_SNAPSHOT),
        (S.RESET, Next.SEND),
        (S.STREAM, Next.SEND),
    ],
)
def test_each_state_has_its_next_work(state: SessionState, due: Next) -> None:
    assert session(state).next_work(4, 0, 0) is due


@pytest.mark.parametrize(
    ("log_end", "high_watermark", "asked", "due"),
    [(4, 3, 0, Next.NOTHING), (5, 3, 0, Next.SEND), (4, 4, 0, Next.SEND_WATERMARK), (4, 3, 1, Next.SEND_WATERMARK)],
)
def test_a_stream_that_has_begun_sends_a_watermark_later_and_data_at_once(
    log_end: int, high_watermark: int, asked: int, due: Next
) -> None:
    stream = session(S.STREAM)
    stream.streamed(4, 3, 0)
    assert stream.next_work(log_end, high_watermark, asked) is due


@pytest.mark.parametrize("code", ErrorCode)
def test_each_error_of_a_follower_has_its_meaning(code: ErrorCode) -> None:
    fenced, storage = code is ErrorCode.FENCED_LEADER_EPOCH, code is ErrorCode.STORAGE_ERROR
    usual = Refusal.CANNOT_WRITE if storage else Refusal.AGAIN
    assert refusal(code, 6, 5) is (Refusal.DEPOSED if fenced else usual)
    assert refusal(code, 5, 5) is usual, "an older session of this epoch"
    assert refusal(code, -1, 5) is usual, "it does not say which epoch it knows"
    assert is_silence(code) is (code in (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT))


def test_a_later_session_has_told_no_watermark_and_keeps_no_snapshot() -> None:
    at = session(S.STREAM)
    at.streamed(9, 8, 0)
    at.over()
    at.asked()
    at.apply(Stream(9))
    assert at.sent_watermark == -1
    at = session(S.RESET)
    at.asked()
    at.apply(Truncate(2))
    assert at.snapshot is None, "a cut carries no snapshot, and its answer is not that to a reset"
