"""The steps of one transactional id: `TransactionRecord` -> the next `TransactionRecord`.

Promise: these functions are the only ones that make a new state, and each takes exactly one step of `states.TRANSITIONS`
for the number that it names.  They check nothing about callers (that is the decisions' work) and never fail, but for
`new_id` without a producer id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oncelog.errors import CoordinatorNotAvailableError
from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.records import (
    NOT_COUNTED,
    NOTHING_EXPECTED,
    DecidedTransaction,
    Expected,
    OpenTransaction,
    Ownership,
    RemovedIds,
    Session,
    Target,
    Token,
    TransactionRecord,
)
from oncelog_coordinator.core.transactions.states import Outcome

Counts = Mapping[PartitionId, int]
"""Acknowledged records per partition."""


class ProducerIdNeededError(CoordinatorNotAvailableError):
    """A new transactional id needs a producer id: ask again.

    The caller had seen the id in the shard; an earlier life knew it by a record that was never committed.
    """


def new_id(transactional_id: str, producer_id: int, now_ms: int, removed: RemovedIds) -> TransactionRecord:
    """An id that nobody uses. Raises `ProducerIdNeededError` without a producer id: two ids never share one.

    It may have been used and removed, so its numbers begin above all of those: a number is never one of two transactions.
    """
    if producer_id <= 0:
        raise ProducerIdNeededError(transactional_id=transactional_id)
    return TransactionRecord(transactional_id, producer_id, updated_ms=now_ms, last_txn_no=removed.txn_no)


def new_session(
    record: TransactionRecord, timeout_ms: int, nonce: str, now_ms: int, limits: Limits
) -> TransactionRecord:
    """A new session of a client: fences the old ones, aborts what is open, and owns the id instead of any run.

    The first session of an id has epoch 0. Its number is one that nobody was given before.
    """
    closed = _closed_for_successor(record, now_ms, limits)
    session = Session(nonce, closed.session_epoch, closed.last_txn_no + 1)
    return replace(
        closed,
        timeout_ms=timeout_ms,
        dead=False,
        sessions=(*closed.sessions, session)[-limits.kept_nonces :],
        owner=_fence_owner(closed.owner, limits),
        updated_ms=now_ms,
        expected=NOTHING_EXPECTED,
    )


def take_over(record: TransactionRecord, run: str, now_ms: int, limits: Limits) -> TransactionRecord:
    """A new Spark run owns the id: fences sessions and the old run, aborts what is open."""
    closed = _closed_for_successor(record, now_ms, limits)
    fenced = _fence_owner(closed.owner, limits)
    owner = replace(fenced, run=run, number=fenced.number + 1)
    return replace(closed, dead=False, owner=owner, updated_ms=now_ms, expected=NOTHING_EXPECTED)


def _closed_for_successor(record: TransactionRecord, now_ms: int, limits: Limits) -> TransactionRecord:
    """The session epoch grows, and every number that anybody was given so far has its outcome.

    A client's session holds the number after the last one, as InitProducerId or its own END has told it, or as it can tell by
    itself while that last one is open. When that was never opened, it is aborted here. So where GetOutcome said NOT_BEGUN to
    the session of its next number, that is nobody else's later. A run was given only what it opened.
    """
    if _is_unused(record):
        return record
    closed = abort_open(record, now_ms, limits, bump_session=True)
    return closed if record.owner.run else close_unknown(closed, closed.last_txn_no + 1, now_ms, limits)


def _is_unused(record: TransactionRecord) -> bool:
    """Nobody ever had a session or a run of this id."""
    return not (record.sessions or record.session_epoch or record.owner.number or record.dead)


def _fence_owner(owner: Ownership, limits: Limits) -> Ownership:
    """Nobody owns the id; the old owner is remembered, and what is over the bound goes into the watermark."""
    if not owner.run:
        return owner
    fenced = (*owner.fenced, (owner.run, owner.newest_attempt))
    dropped = fenced[: -limits.fenced_runs]
    return Ownership(
        number=owner.number,
        fenced=fenced[-limits.fenced_runs :],
        fence_watermark=max([owner.fence_watermark, *(attempt for _, attempt in dropped)]),
    )


def open_next(record: TransactionRecord, opened: OpenTransaction, now_ms: int) -> TransactionRecord:
    """Opens the next number: EMPTY -> ONGOING."""
    owner = record.owner
    if opened.joined:
        owner = replace(owner, newest_attempt=max(owner.newest_attempt, opened.write_attempt))
    after = replace(record, last_txn_no=opened.txn_no, open=opened, owner=owner, dead=False, updated_ms=now_ms)
    return with_what_leaders_heard(after)


def assume_opened(record: TransactionRecord, started_ms: int) -> TransactionRecord:
    """The record with the next number open when an earlier life may have let leaders open it, else as it is.

    Whatever ends that number must then reach every partition that such a leader leads.
    """
    if record.open is not None or not (record.expected and record.expected.may_be_open):
        return record
    opened = OpenTransaction(record.last_txn_no + 1, started_ms, record.timeout_ms)
    return open_next(record, opened, max(record.updated_ms, started_ms))


def with_what_leaders_heard(record: TransactionRecord) -> TransactionRecord:
    """An open transaction holds all that an earlier life may have told leaders about it."""
    expected = record.expected
    if record.open is None or not expected.may_be_open:
        return record
    return enrol(record, expected.partitions, expected.groups, record.updated_ms)


def enrol(
    record: TransactionRecord, partitions: Iterable[PartitionId], groups: Iterable[str], now_ms: int
) -> TransactionRecord:
    """Adds partitions and groups to the open transaction: ONGOING -> ONGOING."""
    opened = record.open
    assert opened is not None
    opened = replace(
        opened,
        partitions=tuple(sorted({*opened.partitions, *partitions})),
        groups=tuple(sorted({*opened.groups, *groups})),
    )
    return replace(record, open=opened, updated_ms=now_ms)


def abort_open(
    record: TransactionRecord, now_ms: int, limits: Limits, *, bump_session: bool = False
) -> TransactionRecord:
    """Aborts what is open, if anything is; the markers fence sessions below the (new) session epoch."""
    if bump_session:
        record = replace(record, session_epoch=record.session_epoch + 1)
    return record if record.open is None else decide_open(record, Outcome.ABORTED, now_ms, limits)


def decide_open(
    record: TransactionRecord,
    outcome: Outcome,
    now_ms: int,
    limits: Limits,
    counts: Counts | None = None,
    winners: tuple[int, ...] | None = None,
    *,
    expect_next: bool = False,
) -> TransactionRecord:
    """Gives the open transaction its outcome: ONGOING -> PREPARE_*, or COMPLETE_* when nothing was enrolled.

    `expect_next`: the client goes on, so the partitions of this transaction are enrolled in the next one with it.
    """
    opened = record.open
    assert opened is not None
    default = NOT_COUNTED if not counts else 0
    targets = tuple(Target(*p, (counts or {}).get(p, default)) for p in opened.partitions)
    decided = record.decided
    if targets or opened.groups:
        item = DecidedTransaction(opened.txn_no, outcome, record.session_epoch, targets, opened.groups, winners)
        decided = (*decided, item)
    closed = replace(
        record,
        open=None,
        decided=decided,
        outcomes=(record.outcomes + outcome.value)[-limits.kept_outcomes :],
        owner=_remember_ended(record.owner, opened, limits),
        updated_ms=now_ms,
        expected=_expected_after(record.expected, opened, limits) if expect_next else NOTHING_EXPECTED,
    )
    return _absorb_ahead(closed, limits)


def _expected_after(before: Expected, opened: OpenTransaction, limits: Limits) -> Expected:
    """What was used last, and what was used before that as long as there is room."""
    partitions = [*(p for p in before.partitions if p not in opened.partitions), *opened.partitions]
    groups = [*(g for g in before.groups if g not in opened.groups), *opened.groups]
    bound = limits.expected_partitions
    return Expected(tuple(partitions[-bound:]), tuple(groups[-bound:]))


def _remember_ended(owner: Ownership, opened: OpenTransaction, limits: Limits) -> Ownership:
    """Hole 11: a task that comes late must hear that its attempt has ended, also after fail-over."""
    if not opened.joined:
        return owner
    ended = (*owner.ended, (opened.app_id, opened.batch_id, opened.write_attempt))
    dropped = ended[: -limits.ended_attempts]
    return replace(
        owner,
        ended=ended[-limits.ended_attempts :],
        ended_watermark=max([owner.ended_watermark, *(attempt for _, _, attempt in dropped)]),
    )


def _absorb_ahead(record: TransactionRecord, limits: Limits) -> TransactionRecord:
    """The next number may have been recorded as aborted before its turn came."""
    while record.open is None and record.last_txn_no + 1 in record.aborted_ahead:
        number = record.last_txn_no + 1
        record = replace(
            record,
            last_txn_no=number,
            aborted_ahead=tuple(n for n in record.aborted_ahead if n != number),
            outcomes=(record.outcomes + Outcome.ABORTED.value)[-limits.kept_outcomes :],
        )
    return record


def with_token(record: TransactionRecord, token: Token) -> TransactionRecord:
    """Stores the committed token of one application, beside those of all others. What must last is never made to expire."""
    before = record.token_of(token.app_id)
    token = replace(token, expires=token.expires and (before is None or before.expires))
    others = tuple(t for t in record.tokens if t.app_id != token.app_id)
    return replace(record, tokens=tuple(sorted((*others, token), key=lambda t: t.app_id)))


def close_unknown(record: TransactionRecord, txn_no: int, now_ms: int, limits: Limits) -> TransactionRecord:
    """Records a number above the last one as aborted for ever: EMPTY -> COMPLETE_ABORT."""
    ahead = tuple(sorted({*record.aborted_ahead, txn_no}))
    return _absorb_ahead(replace(record, aborted_ahead=ahead, updated_ms=now_ms), limits)


def complete(record: TransactionRecord, txn_no: int, now_ms: int) -> TransactionRecord:
    """All markers of a decided transaction are in: PREPARE_* -> COMPLETE_*."""
    left = tuple(item for item in record.decided if item.txn_no != txn_no)
    return replace(record, decided=left, updated_ms=now_ms)


def expire(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """The id was idle too long: keeps producer id, session epoch, last number, tokens and fences; forgets the rest."""
    assert record.open is None
    assert not record.decided
    return replace(record, dead=True, outcomes="", sessions=(), expected=NOTHING_EXPECTED, updated_ms=now_ms)
