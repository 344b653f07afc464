"""The batches that one producer has sent to one partition, and whose outcome is not known: order, retries, doubt.

Rule 1: a batch gets its sequence once and keeps it; nothing is ever rewritten under another identity.
Rule 2: at most `max_in_flight` batches are unresolved. While one of them waits to be sent again, only the oldest
        unresolved one goes, alone; new batches wait. So the leader, which refuses gaps, never sees another order.
Rule 3: a gap refused to a batch that is not the oldest is no verdict on it: it is sent again when its turn comes.
Rule 4: a definite refusal ends the sequence: later batches can never be accepted behind the hole, so they fail with
        it, and the partition goes on under a new identity once nothing is unresolved (hole 25).
Rule 5: "not written" is said only of a batch none of whose attempts is in doubt. Otherwise `GetProducerState(settle)`
        decides (hole 22): it is final, because the call raised the producer's epoch before it answered. Inside a
        transaction nothing is settled: the abort of the transaction decides for all its batches.
Rule 6: with `at_most_once` (acks=0) a batch that may have arrived is never sent again. Without an answer
        it counts as sent; where the leader answered an error that leaves that open (a failed disk), it fails with that error.
"""

from __future__ import annotations

import enum
from typing import Final

from oncelog.core.batch.identity import Identity
from oncelog.core.batch.sequence import DUPLICATE_WINDOW, distance, last_sequence, successor
from oncelog.core.causes import because, is_unanswered, told_of
from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.attempt import AttemptState, Incident
from oncelog.errors import (
    DeliveryTimedOutError,
    ErrorCode,
    OncelogError,
    OutOfOrderSequenceError,
    RetriableError,
)


class Verdict(enum.Enum):
    """The meaning of an answer for one attempt."""

    WRITTEN = enum.auto()
    NOT_NOW = enum.auto()  # certainly not written by this attempt; try again
    IN_DOUBT = enum.auto()  # may be written; try again, the leader deduplicates
    GAP = enum.auto()  # certainly not written; an earlier batch is missing
    REFUSED = enum.auto()  # certainly not written, and never will be


_NOT_NOW: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.RESOURCE_EXHAUSTED,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.SHUTTING_DOWN,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.METADATA_UNAVAILABLE,
        ErrorCode.STALE_BROKER_EPOCH,
        # A leader that has just been chosen may hear of a new topic later than we do; metadata tells the two apart.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


# A leader without state of the producer sees a gap before the first batch that reaches it.
_GAPS: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


def judge(error: OncelogError | None) -> Verdict:
    """The verdict of one answer to a Produce, or of the failure to get one."""
    if error is None:
        return Verdict.WRITTEN
    if error.code in _GAPS:
        return Verdict.GAP
    if error.code in _NOT_NOW:
        return Verdict.NOT_NOW
    if isinstance(error, RetriableError) and "true" in (error.context.get("refused"), error.context.get("unsent")):
        return Verdict.NOT_NOW
    return Verdict.IN_DOUBT if isinstance(error, RetriableError) else Verdict.REFUSED


_UNKNOWN: Final = "the outcome is unknown"
_NOT_WRITTEN: Final = "the records were not written"
_NEVER_SENT: Final = "the records were never sent"

Resolved = list[tuple[Batch, OncelogError | None]]
"""Batches with their outcome: None = written."""


class ProducerWindow:
    """See the module. `now_ms` is monotonic. It has 28 methods because each rule is asked in several places."""

    def __init__(self, max_in_flight: int, at_most_once: bool = False) -> None:
        self._max_in_flight = max_in_flight
        self._at_most_once = at_most_once
        self._unresolved: list[Batch] = []  # by sequence
        self._next_sequence = 0
        self._is_broken = False
        self.identity: Identity | None = None
        self.burnt: Identity | None = None
        """The identity that a refusal ended here; it must not be used on this partition again."""

    # ------------------------------------------------------------ sending

    @property
    def is_empty(self) -> bool:
        """Nothing is unresolved."""
        return not self._unresolved

    @property
    def in_flight(self) -> int:
        """How many batches are unresolved."""
        return len(self._unresolved)

    @property
    def in_flight_bytes(self) -> int:
        """How many bytes they have."""
        return sum(len(batch.encoded) for batch in self._unresolved)

    @property
    def needs_identity(self) -> bool:
        """A new batch cannot go before `adopt`."""
        return self.identity is None

    def adopt(self, identity: Identity) -> None:
        """Begins at sequence 0 as this identity. Only while nothing is unresolved."""
        assert self.is_empty
        assert identity != self.burnt or not identity.is_idempotent
        self.identity = identity
        self._next_sequence = 0
        self._is_broken = False

    @property
    def next_sequence(self) -> int:
        """The sequence that `send_new` will give; -1 without idempotence."""
        return self._next_sequence if self.identity is not None and self.identity.is_idempotent else -1

    def may_send_new(self) -> bool:
        """True when another batch may follow what is in flight."""
        if self._is_broken or len(self._unresolved) >= self._max_in_flight:
            return False
        return all(batch.attempt.is_in_flight for batch in self._unresolved)

    def send_new(self, batch: Batch) -> None:
        """Gives the batch its sequence; it is in flight now."""
        assert self.identity is not None
        assert self.may_send_new()
        batch.identity = self.identity
        if self.identity.is_idempotent:
            batch.base_sequence = self._next_sequence
            self._next_sequence = successor(last_sequence(self._next_sequence, batch.record_count))
        self._unresolved.append(batch)
        batch.attempt.send()

    def resend(self, now_ms: int) -> Batch | None:
        """The oldest unresolved batch, if it waits to be sent again and its time has come; it is in flight now."""
        oldest = self._waiting(now_ms)
        if oldest is None or oldest.attempt.retry_at_ms > now_ms:
            return None
        oldest.attempt.send()
        return oldest

    def resend_at_ms(self, now_ms: int) -> int | None:
        """When `resend` may have something; None = nothing waits to be sent again."""
        oldest = self._waiting(now_ms)
        return None if oldest is None else oldest.attempt.retry_at_ms

    def _waiting(self, now_ms: int) -> Batch | None:
        """The oldest unresolved batch, if it waits to be sent again and has time for that."""
        oldest = self._unresolved[0] if self._unresolved else None
        if oldest is None or not oldest.attempt.waits_for_a_try or self._is_late(oldest, now_ms):
            return None
        return oldest

    @staticmethod
    def _is_late(batch: Batch, now_ms: int) -> bool:
        return batch.deadline_ms <= now_ms

    # ------------------------------------------------------------ answers

    def answered(self, batch: Batch, error: OncelogError | None, retry_at_ms: int) -> Resolved:
        """Takes the answer to the batch's attempt that is in flight."""
        if batch not in self._unresolved:
            return []
        verdict = judge(error)
        if verdict is Verdict.GAP:
            verdict = Verdict.REFUSED if batch is self._unresolved[0] else Verdict.NOT_NOW
        if verdict is Verdict.IN_DOUBT and self._at_most_once:
            verdict = Verdict.WRITTEN if is_unanswered(error) else Verdict.REFUSED
        if verdict is Verdict.WRITTEN:
            return self._written(batch, Incident.WRITTEN)
        if verdict is Verdict.REFUSED:
            assert error is not None
            return self._refused(batch, error)
        batch.attempt.wait(Incident.LOST if verdict is Verdict.IN_DOUBT else Incident.NOT_NOW, error, retry_at_ms)
        return []

    def overdue(self, now_ms: int) -> Batch | None:
        """The batch that `expire` would end."""
        oldest = self._unresolved[0] if self._unresolved else None
        if oldest is None or not oldest.attempt.waits_for_a_try or not self._is_late(oldest, now_ms):
            return None
        return None if oldest.attempt.is_in_doubt and self._can_settle(oldest) else oldest  # else `in_question` has it

    def expire(self, now_ms: int, obstacle: OncelogError | None = None) -> Resolved:
        """The outcomes that the delivery timeout decides without a question to the leader. `obstacle`: what keeps us from
        trying at the moment.
        """
        oldest = self.overdue(now_ms)
        if oldest is None:
            return []
        return self._fail_from(oldest, timed_out(oldest, obstacle), Incident.EXPIRED)

    def _written(self, batch: Batch, incident: Incident) -> Resolved:
        batch.attempt.move(incident)
        self._unresolved.remove(batch)
        self._forget_broken_identity()
        return [(batch, None)]

    def _refused(self, batch: Batch, error: OncelogError) -> Resolved:
        if batch.attempt.is_in_doubt and self._can_settle(batch):
            batch.attempt.move(Incident.CONTESTED)
            batch.attempt.refusal = error
            return []
        return self._fail_from(batch, error, Incident.REFUSED)

    def _fail_from(self, batch: Batch, error: OncelogError, incident: Incident) -> Resolved:
        """The batch fails, and with it what stands behind its hole."""
        batch.attempt.move(incident)
        if not batch.identity.is_idempotent:
            self._unresolved.remove(batch)
            return [(batch, error)]
        index = self._unresolved.index(batch)
        stranded = self._unresolved[index + 1 :]
        del self._unresolved[index:]
        self._is_broken = True
        self._forget_broken_identity()
        behind = because(OutOfOrderSequenceError(f"an earlier batch of this partition failed: {error}"), error)
        for later in stranded:
            later.attempt.move(Incident.STRANDED)
        return [(batch, error), *((later, behind) for later in stranded)]

    def _forget_broken_identity(self) -> None:
        if self._is_broken and self.is_empty:
            self.burnt, self.identity = self.identity, None
            self._is_broken = False  # no batch stands before the hole any more: new ones wait for `adopt` alone

    # ------------------------------------------------------------ doubt

    @staticmethod
    def _can_settle(batch: Batch) -> bool:
        return batch.identity.is_idempotent and not batch.identity.is_transactional

    def in_question(self, now_ms: int) -> Batch | None:
        """The batch to ask `GetProducerState(settle)` about; nothing is sent here until `settled`."""
        oldest = self._unresolved[0] if self._unresolved else None
        if oldest is None or not oldest.attempt.is_in_doubt or not self._can_settle(oldest):
            return None
        if any(batch.attempt.is_in_flight for batch in self._unresolved):
            return None
        return oldest if oldest.attempt.needs_an_answer or self._is_late(oldest, now_ms) else None

    def settled(self, batch: Batch, written: bool) -> Resolved:
        """The leader's final word on the batch in question."""
        assert batch is self._unresolved[0]
        if written:
            return self._written(batch, Incident.SETTLED)
        attempt = batch.attempt
        return self._fail_from(
            batch, attempt.refusal or _late(batch, attempt.last_error, _NOT_WRITTEN), Incident.SETTLED
        )

    def give_up(self, batch: Batch) -> Resolved:
        """The question went unanswered. The first time the caller gets the answer that the outcome is unknown; the asking goes
        on.
        """
        attempt = batch.attempt
        is_known = attempt.state is AttemptState.UNKNOWN
        attempt.move(Incident.UNANSWERED)
        return [] if is_known else [(batch, _late(batch, attempt.last_error, _UNKNOWN))]

    def unanswerable(self, batch: Batch, refusal: OncelogError) -> Resolved:
        """The leader refuses the question for good: the batch's outcome stays unknown, and nothing follows it under this
        identity. A late copy of it may still arrive, so it is never said to be unwritten.
        """
        assert batch is self._unresolved[0]
        unknown = DeliveryTimedOutError(
            f"nobody can say whether the records were written: {refusal.message}", attempts=batch.attempt.tries
        )
        return self._fail_from(batch, because(unknown, refusal), Incident.UNANSWERABLE)

    def drop(self) -> list[Batch]:
        """Forgets everything (the transaction is aborted); what was unresolved, oldest first."""
        dropped, self._unresolved = self._unresolved, []
        self.identity = None
        self._is_broken = False
        return dropped

    def unresolved(self) -> tuple[Batch, ...]:
        """By sequence."""
        return tuple(self._unresolved)

    def check(self) -> None:
        """All invariants."""
        assert len(self._unresolved) <= self._max_in_flight
        for earlier, later in zip(self._unresolved, self._unresolved[1:], strict=False):
            if earlier.identity.is_idempotent:
                assert earlier.identity == later.identity
                assert 0 < distance(earlier.base_sequence, later.base_sequence) < DUPLICATE_WINDOW
        for batch in self._unresolved:
            assert batch.attempt.state not in (AttemptState.QUEUED, AttemptState.DONE)


def timed_out(batch: Batch, obstacle: OncelogError | None = None) -> DeliveryTimedOutError:
    """Why a batch was not delivered in time: what stands in its way now, else the answer to its last attempt."""
    cause = obstacle or batch.attempt.last_error
    if batch.attempt.is_in_doubt:
        return _late(batch, cause, _UNKNOWN)
    return _late(batch, cause, _NOT_WRITTEN if batch.attempt.tries else _NEVER_SENT)


def _late(batch: Batch, cause: OncelogError | None, what: str) -> DeliveryTimedOutError:
    where = "" if cause is None else f"{told_of(cause, batch.topic, batch.partition.partition)}; "
    message = f"{where}delivery_timeout_ms passed: {what}"
    if what is _UNKNOWN:
        return because(DeliveryTimedOutError(message, attempts=batch.attempt.tries), cause)
    return because(DeliveryTimedOutError(message, attempts=batch.attempt.tries, written="false"), cause)
