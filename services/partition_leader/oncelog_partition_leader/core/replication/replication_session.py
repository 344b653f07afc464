"""A leader's session with one follower of one partition: which message comes next, and what the follower's answer means.

Theory of operation: a session begins with a hello. The follower's answer says where its log ends; `decide` compares that with
the leader's log (`sessions.next_step`), and `apply` moves the session to the next question, or to the stream. In the stream
messages follow each other without waiting for answers, and each answer acknowledges.

Rule 1: every step of a session is in `TRANSITIONS`; `_move` asserts that, and nothing else writes `state`.
Rule 2: one question is out at a time (ASKED). Its answer counts only in the session, by number, in which it was asked.
Rule 3: whatever goes wrong ends the session (`over`): its number is forgotten, so late answers find no session.
Rule 4: nothing is acknowledged before the stream's first message: `sent_watermark` is -1 until that was sent.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode
from oncelog_partition_leader.core.replication.sessions import (
    EndOfEpoch,
    FollowerEnd,
    Reset,
    Stream,
    Truncate,
    next_step,
)

NO_SESSION: Final = 0
"""Sessions are numbered from 1."""
_NOTHING_SENT: Final = -1


class SessionState(StrEnum):
    """The state of a session."""

    HELLO = "HELLO"
    """The next message is a hello, which begins a new session."""
    ASKED = "ASKED"
    """A hello, a truncation or a reset was sent; its answer decides what comes next."""
    TRUNCATE = "TRUNCATE"
    """The next message has the follower cut its log."""
    PREPARE = "PREPARE"
    """The leader takes a snapshot of its producer state; no message is sent meanwhile."""
    RESET = "RESET"
    """The next message has the follower drop its log and take over the snapshot."""
    STREAM = "STREAM"
    """The logs agree: batches follow each other."""


class Trigger(StrEnum):
    """The event that moves a session."""

    SENT = "the message was sent"
    AGREES = "the follower's log is the beginning of the leader's, or was reset as asked"
    DIFFERS = "the follower's log ends with batches that the leader's log does not have"
    DELETED = "the leader no longer has the follower's next record"
    SNAPSHOT = "the snapshot was taken"
    OVER = "an error, a lost answer, or another incarnation of the follower"


_S = SessionState
_T = Trigger

TRANSITIONS: Final[dict[tuple[SessionState, SessionState], tuple[Trigger, ...]]] = {
    (_S.HELLO, _S.ASKED): (_T.SENT,),
    (_S.ASKED, _S.STREAM): (_T.AGREES,),
    (_S.ASKED, _S.TRUNCATE): (_T.DIFFERS,),
    (_S.ASKED, _S.PREPARE): (_T.DELETED,),
    (_S.TRUNCATE, _S.ASKED): (_T.SENT,),
    (_S.PREPARE, _S.RESET): (_T.SNAPSHOT,),
    (_S.RESET, _S.ASKED): (_T.SENT,),
    **{(state, _S.HELLO): (_T.OVER,) for state in SessionState},
}


class Hello(NamedTuple):
    """The follower begins a session and reports the end of its log."""


Question = Hello | Truncate | Reset
"""A message to which the session waits for the answer."""


class Next(Enum):
    """The work that is due for a session after an answer."""

    NOTHING = 1
    TAKE_SNAPSHOT = 2
    SEND = 3
    SEND_WATERMARK = 4
    """Nothing but a high watermark is to be sent: with the next data, or alone after a short delay."""


class Refusal(Enum):
    """The meaning of a follower's error to the leader."""

    DEPOSED = 1
    """The follower knows a newer leader epoch: this leadership has ended."""
    CANNOT_WRITE = 2
    """The follower's disk is full, or its log has failed."""
    AGAIN = 3
    """A new session begins after a pause."""


class ReplicationSession:
    """The session of one partition with one incarnation of one follower. `number`: 0 = none has begun."""

    __slots__ = ("next_offset", "number", "sent_question", "sent_watermark", "snapshot", "state", "to")

    def __init__(self) -> None:
        self.state = SessionState.HELLO
        self.number = NO_SESSION
        self.next_offset = 0
        """The offset from which the next message of the stream sends."""
        self.sent_watermark = _NOTHING_SENT
        self.sent_question = 0
        """The newest question (`Confirming.asked`) that a message of this session's stream took along."""
        self.to = 0
        """The offset of the truncation or the reset that comes next."""
        self.snapshot: bytes | None = None

    # ------------------------------------------------------------ what to send

    def has_news(self, log_end: int, high_watermark: int, asked: int) -> bool:
        """Returns True when there is a message to send: a question of the session, data, a watermark, or `asked`."""
        if self.state is SessionState.STREAM:
            return self.sent_question < asked or self.next_offset < log_end or self.sent_watermark < high_watermark
        return self.state not in (SessionState.ASKED, SessionState.PREPARE)

    def question(self) -> Question:
        """Returns the question that comes next; outside of the stream only."""
        if self.state is SessionState.HELLO:
            return Hello()
        if self.state is SessionState.TRUNCATE:
            return Truncate(self.to)
        assert self.state is SessionState.RESET, "in the other states no question is to be sent"
        assert self.snapshot is not None, "a reset was prepared"
        return Reset(self.to)

    def begin(self, number: int) -> None:
        """Gives the session its number, with which its hello is sent."""
        assert self.state is SessionState.HELLO, "a session begins with its hello"
        self.number = number

    def asked(self) -> None:
        """Notes that a question of the session was sent. A question to the leader goes with the stream: only its messages say
        what the follower takes over.
        """
        self._move(SessionState.ASKED)

    def streamed(self, next_offset: int, high_watermark: int, question: int) -> None:
        """Notes a message of the stream, with everything below `next_offset`."""
        assert self.state is SessionState.STREAM, "data is sent when the logs agree"
        self.next_offset, self.sent_watermark, self.sent_question = next_offset, high_watermark, question

    # ------------------------------------------------------------ what answers mean

    def decide(
        self, told: FollowerEnd, end_of_epoch: EndOfEpoch, log_start: int, log_end: int
    ) -> Stream | Truncate | Reset:
        """Returns what comes after the answer to a question. `log_start`, `log_end`: of the leader's log."""
        assert self.state is SessionState.ASKED, "an answer belongs to a question"
        if self.snapshot is not None and told.last_epoch < 0 and told.log_end_offset == self.to:
            return Stream(self.to)  # it was reset as asked; records deleted since are found when it streams
        return next_step(told, end_of_epoch, log_start, log_end)

    def apply(self, step: Stream | Truncate | Reset) -> None:
        """Takes the step that `decide` returned."""
        self.snapshot = None
        if isinstance(step, Stream):
            self._move(SessionState.STREAM)
            self.next_offset, self.sent_watermark = step.next_offset, _NOTHING_SENT
        elif isinstance(step, Truncate):
            self._move(SessionState.TRUNCATE)
            self.to = step.to
        else:
            self._move(SessionState.PREPARE)

    def prepared(self, number: int, at: int, snapshot: bytes) -> None:
        """Takes the snapshot that was made for session `number`; it is dropped when that session has ended."""
        if self.number == number and self.state is SessionState.PREPARE:
            self._move(SessionState.RESET)
            self.to, self.snapshot = at, snapshot

    def next_work(self, log_end: int, high_watermark: int, asked: int) -> Next:
        """Returns what is due after an answer was taken."""
        if self.state is SessionState.PREPARE:
            return Next.TAKE_SNAPSHOT
        if not self.has_news(log_end, high_watermark, asked):
            return Next.NOTHING
        is_first = self.sent_watermark == _NOTHING_SENT
        if self.state is SessionState.STREAM and not is_first and self.next_offset >= log_end:
            return Next.SEND_WATERMARK
        return Next.SEND

    def over(self) -> None:
        """Ends the session: late answers do not count. The next message is a hello."""
        self._move(SessionState.HELLO)
        self.number = NO_SESSION
        self.snapshot = None
        self.sent_question = 0

    def _move(self, to: SessionState) -> None:
        assert (self.state, to) in TRANSITIONS, f"no step leads from {self.state} to {to}"
        self.state = to


def refusal(code: ErrorCode, known_epoch: int, epoch: int) -> Refusal:
    """Returns what an error in a follower's answer means. `known_epoch`: the follower's, -1 = it does not say."""
    if code == ErrorCode.FENCED_LEADER_EPOCH and known_epoch > epoch:
        return Refusal.DEPOSED
    return Refusal.CANNOT_WRITE if code == ErrorCode.STORAGE_ERROR else Refusal.AGAIN


def is_silence(code: ErrorCode) -> bool:
    """Returns True for the error of a call that the follower did not answer: it may be dead."""
    return code in (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT)
