"""The steps of one transactional id: `TransactionRecord` -> the next `TransactionRecord`.

Promise: only these functions make a new state, and each takes exactly one step of `states.TRANSITIONS` for the number
that it names.  They check nothing about callers (the decisions do) and never fail, except `new_id` without a producer
id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oncelog.errors import CoordinatorNotAvailableError
from oncelog.types import PartitionId
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions.orphan_records import RemovedIds
from oncelog_coordinator.core.transactions.records import (
    NOT_COUNTED,
    NOTHING_EXPECTED,
    DecidedTransaction,
    Expected,
    OpenTransaction,
    Ownership,
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

    The caller had seen the id in the shard, but its record was never committed, and the shard has replayed its log
    since.
    """


def new_id(transactional_id: str, producer_id: int, now_ms: int, removed: RemovedIds) -> TransactionRecord:
    """Returns the record of an unused id. Raises `ProducerIdNeededError` without a producer id: two ids never share
    one.

    The name may have been used and removed before, so its numbers begin above those of all removed ids: no number names
    two transactions.
    """
    if producer_id <= 0:
        raise ProducerIdNeededError(transactional_id=transactional_id)
    return TransactionRecord(transactional_id, producer_id, updated_ms=now_ms, last_txn_no=removed.txn_no)


def new_session(
    record: TransactionRecord, timeout_ms: int, nonce: str, now_ms: int, limits: Limits
) -> TransactionRecord:
    """Starts a new client session: fences older sessions, aborts an open transaction, and takes the id from a run that
    owns it.

    The first session of an id has epoch 0. Its first number was never given before.
    """
    closed = _closed_for_successor(record, now_ms, limits)
    session = Session(nonce, closed.session_epoch, closed.last_txn_no + 1)
    return replace(
        closed,
        timeout_ms=timeout_ms,
        dead=False,
        sessions=(*closed.sessions, session)[-limits.kept_nonces :],
        owner=_fence_owner(closed, limits),
        updated_ms=now_ms,
        expected=NOTHING_EXPECTED,
    )


def take_over(record: TransactionRecord, run: str, now_ms: int, limits: Limits) -> TransactionRecord:
    """Makes a new Spark run the owner of the id: fences sessions and the old run, aborts an open transaction."""
    closed = _closed_for_successor(record, now_ms, limits)
    fenced = _fence_owner(closed, limits)
    owner = replace(fenced, run=run, number=fenced.number + 1)
    return replace(closed, dead=False, owner=owner, updated_ms=now_ms, expected=NOTHING_EXPECTED)


def _closed_for_successor(record: TransactionRecord, now_ms: int, limits: Limits) -> TransactionRecord:
    """Raises the session epoch and closes every number that was given so far.

    A client's session may use the number after the last one: InitProducerId or its own END returned it, or it counts on
    from the open one. When that number was never opened, it is aborted here. So once GetOutcome has said NOT_BEGUN
    about it to that session, no later session gets it. A run was given only the numbers that it opened.
    """
    if _is_unused(record):
        return record
    closed = abort_open(record, now_ms, limits, bump_session=True)
    return closed if record.owner.run else close_unknown(closed, closed.last_txn_no + 1, now_ms, limits)


def _is_unused(record: TransactionRecord) -> bool:
    """True when the id never had a session or a run."""
    return not (record.sessions or record.session_epoch or record.owner.number or record.dead)


def _fence_owner(record: TransactionRecord, limits: Limits) -> Ownership:
    """Removes the owner and remembers it as fenced, with its newest attempt that no token covers; runs beyond the bound go
    into the watermark. Nothing is open.
    """
    owner = record.owner
    if not owner.run:
        return owner
    attempts = [attempt for app_id, batch_id, attempt in owner.ended if not _is_covered(record, app_id, batch_id)]
    fenced = (*owner.fenced, (owner.run, max([owner.ended_watermark, *attempts])))
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
    """Returns the record with the next number open if an earlier epoch of the shard may have let leaders open it, else
    unchanged.

    The end of that number must then reach every partition that such a leader leads (hole 29).
    """
    if record.open is not None or not (record.expected and record.expected.may_be_open):
        return record
    opened = OpenTransaction(record.last_txn_no + 1, started_ms, record.timeout_ms)
    return open_next(record, opened, max(record.updated_ms, started_ms))


def with_what_leaders_heard(record: TransactionRecord) -> TransactionRecord:
    """Adds the partitions and groups that an earlier epoch may have enrolled ahead to the open transaction."""
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
    """Aborts the open transaction, if there is one; the markers fence sessions below the (new) session epoch."""
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

    `expect_next`: the client continues, so the same record enrols the partitions of this transaction in the next one.
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
        owner=_remember_ended(record, opened, limits),
        updated_ms=now_ms,
        expected=_expected_after(record.expected, opened, limits) if expect_next else NOTHING_EXPECTED,
    )
    return _absorb_ahead(closed, limits)


def _expected_after(before: Expected, opened: OpenTransaction, limits: Limits) -> Expected:
    """Keeps the most recently used partitions and groups, as many as the bound allows."""
    partitions = [*(p for p in before.partitions if p not in opened.partitions), *opened.partitions]
    groups = [*(g for g in before.groups if g not in opened.groups), *opened.groups]
    bound = limits.expected_partitions
    return Expected(tuple(partitions[-bound:]), tuple(groups[-bound:]))


def _remember_ended(record: TransactionRecord, opened: OpenTransaction, limits: Limits) -> Ownership:
    """Hole 11: a task that comes late must be refused because its attempt has ended, also after a fail-over."""
    owner = record.owner
    if not opened.joined:
        return owner
    ended = (*owner.ended, (opened.app_id, opened.batch_id, opened.write_attempt))
    dropped = ended[: -limits.ended_attempts]
    attempts = [attempt for app_id, batch_id, attempt in dropped if not _is_covered(record, app_id, batch_id)]
    return replace(
        owner, ended=ended[-limits.ended_attempts :], ended_watermark=max([owner.ended_watermark, *attempts])
    )


def _is_covered(record: TransactionRecord, app_id: str, batch_id: int) -> bool:
    """True for a batch that its token keeps out for good, whatever its run and attempt. Attempts begin with a driver's time,
    so a watermark of those that need none would keep out a driver whose clock is behind.
    """
    token = record.token_of(app_id)
    return token is not None and batch_id <= token.batch_id


def _absorb_ahead(record: TransactionRecord, limits: Limits) -> TransactionRecord:
    """Moves the last number over numbers that were recorded as aborted ahead of their turn."""
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
    """Stores the committed token of one application, beside those of others. A token that must last is never made to
    expire.
    """
    before = record.token_of(token.app_id)
    token = replace(token, expires=token.expires and (before is None or before.expires))
    others = tuple(t for t in record.tokens if t.app_id != token.app_id)
    return replace(record, tokens=tuple(sorted((*others, token), key=lambda t: t.app_id)))


def close_unknown(record: TransactionRecord, txn_no: int, now_ms: int, limits: Limits) -> TransactionRecord:
    """Records a number above the last one as finally aborted: EMPTY -> COMPLETE_ABORT."""
    ahead = tuple(sorted({*record.aborted_ahead, txn_no}))
    return _absorb_ahead(replace(record, aborted_ahead=ahead, updated_ms=now_ms), limits)


def complete(record: TransactionRecord, txn_no: int, now_ms: int) -> TransactionRecord:
    """Completes a decided transaction once all its markers are on disk: PREPARE_* -> COMPLETE_*."""
    left = tuple(item for item in record.decided if item.txn_no != txn_no)
    return replace(record, decided=left, updated_ms=now_ms)


def expire(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """Expires an idle id: keeps producer id, session epoch, last number, tokens and fences; forgets the rest."""
    assert record.open is None
    assert not record.decided
    return replace(record, dead=True, outcomes="", sessions=(), expected=NOTHING_EXPECTED, updated_ms=now_ms)
