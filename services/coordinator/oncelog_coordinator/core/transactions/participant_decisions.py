"""Decisions about transactions with many writers: join, renew, commit, abort.

Their callers, and when they call: docs/internals/spark.md#a-micro-batch-step-by-step.

Order of checks, the same for join and commit:
 1. the token equals the last committed one of its app: ALREADY_COMMITTED, before any fence, so that a retried commit or
    a replayed micro-batch is a no-op for every caller
 2. the run is fenced: PRODUCER_FENCED
 3. the token is lower: BATCH_ROLLED_BACK, before any take-over, so that a rolled-back checkpoint stops no running query
 4. this attempt of the batch has ended, or a later one began: TXN_ENDED
 5. join only: a new run takes the id over; an earlier attempt or batch that is open is aborted
 6. commit only: n, batch and attempt must be those of the open transaction, and every winner a participant of it

The list of participants is volatile on purpose: durable state is a set of partitions, not of tasks.  A coordinator that
took over in mid-transaction accepts winners that it does not know; that is safe, because they carry the right n (so
they joined this very transaction), the marker names them, and leaders check the counts per partition: missing records
are reported (TRANSACTION_DATA_LOSS), never silent.  In the epoch of the shard that opened the transaction every winner
is checked by name.

Ownership is a number that grows with each take-over.  Fenced runs are remembered by name (the last 32); an older one is
recognised by its write attempt, which begins with the planner's time: at or below the watermark of the forgotten ones
it is fenced.  Beyond that the token still makes every commit exactly-once; ownership only keeps two drivers from
disturbing each other.
"""

from __future__ import annotations

from dataclasses import replace

from oncelog.errors import (
    BatchRolledBackError,
    InvalidRequestError,
    InvalidTxnStateError,
    PolicyViolationError,
    ProducerFencedError,
    ResourceExhaustedError,
    TxnEndedError,
    UnknownParticipantError,
)
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Decision
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import checks as parts
from oncelog_coordinator.core.transactions import transaction_state as state
from oncelog_coordinator.core.transactions.client_decisions import require_room_for_id
from oncelog_coordinator.core.transactions.commands import (
    Abort,
    BatchName,
    Commit,
    CommitReply,
    Join,
    JoinReply,
    Renew,
    Winner,
)
from oncelog_coordinator.core.transactions.records import OpenTransaction, Ownership, Token, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome
from oncelog_coordinator.core.transactions.transaction_index import (
    Entry,
    ParticipantJoined,
    SignOfLife,
    TransactionIndex,
)


def join(index: TransactionIndex, command: Join, now_ms: int) -> Decision:
    """Adds a fresh producer id to the open transaction of the batch; the first join of a run takes the id over."""
    lease_ms, duration_ms = _join_times(command, index.limits)
    own_id = command.own_producer_id
    record = index.find(command.transactional_id)
    if record is None:
        require_room_for_id(index)
        record = state.new_id(command.transactional_id, command.fresh_producer_id, now_ms, index.removed)
    committed = _committed_token(record, command.batch)
    if committed is not None:
        return Decision(reply=JoinReply(already_committed=True, committed_rows=committed.rows))
    _require_may_write(record, command.owner_run, command.batch, index.limits)
    opened = record.open
    if opened is not None and record.owner.run == command.owner_run and _batch_of(opened) == command.batch:
        return _join_open(index, record, own_id, now_ms)
    assumed = parts.assume_opened(index, record, now_ms)
    parts.require_room(assumed, index.limits)
    before = _free_for(assumed, command.owner_run, now_ms, index.limits)
    after = _open_batch(before, command.batch, lease_ms, duration_ms, now_ms)
    decision = parts.decided_now(record, after, _join_reply(after, own_id))
    return replace(decision, notes=(_participant(after, own_id, now_ms),))


def _join_times(command: Join, limits: Limits) -> tuple[int, int]:
    lease_ms = command.lease_ms or limits.default_lease_ms
    duration_ms = command.max_duration_ms or limits.default_max_duration_ms
    if not 0 < lease_ms <= limits.max_lease_ms or not 0 < duration_ms <= limits.max_max_duration_ms:
        raise InvalidRequestError(
            "lease or maximal duration out of range", lease_ms=lease_ms, max_duration_ms=duration_ms
        )
    _require_batch(command.owner_run, command.batch)
    return lease_ms, duration_ms


def _require_batch(owner_run: str, batch: BatchName) -> None:
    if not owner_run or not batch.app_id or batch.batch_id < 0:
        raise InvalidRequestError("run and app id must be given, and the batch id be 0 or above")
    if max(len(owner_run), len(batch.app_id), len(batch.write_attempt)) > 256:
        raise InvalidRequestError("run, app id and write attempt have at most 256 characters")


def _committed_token(record: TransactionRecord, batch: BatchName) -> Token | None:
    """Check 1: returns the token of a batch that is committed."""
    token = record.token_of(batch.app_id)
    return token if token is not None and token.batch_id == batch.batch_id else None


def _require_may_write(record: TransactionRecord, run: str, batch: BatchName, limits: Limits) -> None:
    """Runs checks 2 to 4."""
    owner = record.owner
    if is_fenced(owner, run, batch.write_attempt):
        raise ProducerFencedError(
            "another run took this transactional id over; this one is finished. Two queries with one id do this",
            transactional_id=record.transactional_id,
            owner_run=run,
            current_run=owner.run,
        )
    token = record.token_of(batch.app_id)
    if token is None:
        if len(record.tokens) >= limits.max_apps:
            raise PolicyViolationError("too many app ids under one transactional id", limit=limits.max_apps)
    elif batch.batch_id < token.batch_id:
        raise BatchRolledBackError(
            "the batch is below the last committed one: the checkpoint went back; see option onRolledBackBatch",
            app_id=batch.app_id,
            batch_id=batch.batch_id,
            committed_batch_id=token.batch_id,
        )
    if owner.run == run and (ended := _why_ended(record, batch)):
        raise TxnEndedError(
            ended,
            transactional_id=record.transactional_id,
            app_id=batch.app_id,
            batch_id=batch.batch_id,
            write_attempt=batch.write_attempt,
        )


def _why_ended(record: TransactionRecord, batch: BatchName) -> str:
    """Returns why this attempt of its run cannot be joined any more; empty when it can."""
    if _is_older(record.open, batch):
        return "a later batch, or a later attempt to write this one, is open; this one has ended"
    if _has_ended(record.owner, batch):
        return "this attempt to write the batch has ended; to write it again, join with a write_attempt that sorts after it"
    return ""


def is_fenced(owner: Ownership, run: str, write_attempt: str) -> bool:
    """True for a run that lost the id; recognised by name or, when its name is no longer kept, by its write attempt."""
    if run == owner.run:
        return False
    if any(run == name for name, _ in owner.fenced):
        return True
    return bool(owner.fence_watermark) and write_attempt <= owner.fence_watermark


def _has_ended(owner: Ownership, batch: BatchName) -> bool:
    if any(item == tuple(batch) for item in owner.ended):
        return True
    return bool(owner.ended_watermark) and batch.write_attempt <= owner.ended_watermark


def _is_older(opened: OpenTransaction | None, batch: BatchName) -> bool:
    """True when a later batch or attempt of the same run is open. Batches of two apps compare by attempt alone."""
    if opened is None or not opened.joined:
        return False
    if opened.app_id != batch.app_id:
        return batch.write_attempt < opened.write_attempt
    return (batch.batch_id, batch.write_attempt) < (opened.batch_id, opened.write_attempt)


def _batch_of(opened: OpenTransaction) -> BatchName | None:
    return BatchName(opened.app_id, opened.batch_id, opened.write_attempt) if opened.joined else None


def _free_for(record: TransactionRecord, run: str, now_ms: int, limits: Limits) -> TransactionRecord:
    """Check 5: returns the record owned by `run` with nothing open."""
    if record.owner.run != run:
        return state.take_over(record, run, now_ms, limits)
    return state.abort_open(record, now_ms, limits)


def _join_open(index: TransactionIndex, record: TransactionRecord, own_id: int, now_ms: int) -> Decision:
    entry = index.entry(record.transactional_id)
    if entry is not None and len(entry.participants) >= index.limits.max_participants:
        raise ResourceExhaustedError("too many participants in one transaction", limit=index.limits.max_participants)
    return Decision(reply=_join_reply(record, own_id), notes=(_participant(record, own_id, now_ms),))


def _join_reply(record: TransactionRecord, own_id: int) -> JoinReply:
    return JoinReply(
        producer_id=own_id,
        producer_epoch=record.session_epoch,
        txn_producer_id=record.producer_id,
        txn_no=record.last_txn_no,
    )


def _participant(record: TransactionRecord, own_id: int, now_ms: int) -> ParticipantJoined:
    return ParticipantJoined(record.transactional_id, record.last_txn_no, own_id, now_ms)


def renew(index: TransactionIndex, command: Renew, now_ms: int) -> Decision:
    """Renews the lease of n. Raises when n is no longer open, so that the task can stop."""
    name = command.name
    record = index.named(name.transactional_id, name.txn_producer_id).record
    if record.owner.run != command.owner_run:
        raise ProducerFencedError("another run took this transactional id over", current_run=record.owner.run)
    if record.open is None or record.open.txn_no != name.txn_no:
        raise parts.ended_error(record, name.txn_no)
    return Decision(notes=(SignOfLife(record.transactional_id, name.txn_no, now_ms),))


def commit(index: TransactionIndex, command: Commit, now_ms: int) -> Decision:
    """Writes one record that decides: the winners' data commits, all other data of n aborts, the token is stored."""
    _require_batch(command.owner_run, command.batch)
    record = index.find(command.transactional_id)
    committed = None if record is None else _committed_token(record, command.batch)
    if record is not None and committed is not None:
        return Decision(reply=_repeated(index, record, command, committed))
    if command.txn_no == 0:
        old, before = _open_empty(index, record, command, now_ms)
    else:
        old = before = _require_open(index, command)
    counts = _sum_counts(command.winners)
    parts.require_enrolled(before, counts)
    rows = sum(winner.rows for winner in command.winners)
    winners = tuple(sorted(winner.producer_id for winner in command.winners))
    decided = state.decide_open(before, Outcome.COMMITTED_WINNERS, now_ms, index.limits, counts, winners)
    after = state.with_token(decided, Token(command.batch.app_id, command.batch.batch_id, rows, command.token_expires))
    visible = all(item.txn_no != before.last_txn_no for item in after.decided)
    waits_for = () if visible else (before.last_txn_no,)
    return parts.decided_now(old, after, CommitReply(False, rows, before.last_txn_no, visible, waits_for))


def _repeated(index: TransactionIndex, record: TransactionRecord, command: Commit, token: Token) -> CommitReply:
    """Answers a commit of a batch that is committed, perhaps by another transaction than the caller names.

    A token does not name its transaction. So `waits_for` holds the named transaction when its markers are missing,
    otherwise every committed one whose markers are missing.
    """
    pending = tuple(item.txn_no for item in record.decided if item.outcome.is_commit)
    if command.txn_no in pending:
        pending = (command.txn_no,)
    number = max(pending, default=command.txn_no)
    unseen = tuple(item for item in pending if not index.is_visible(record, item))
    return CommitReply(True, token.rows, number, not unseen, unseen)


def _require_open(index: TransactionIndex, command: Commit) -> TransactionRecord:
    """Runs checks 2 to 4 and 6 for a named transaction; a decided one is refused with its outcome."""
    entry = index.entry(command.transactional_id)
    if entry is None:
        parts.require_not_removed(index, command.txn_no, transactional_id=command.transactional_id)
        raise InvalidTxnStateError("no such transactional id", transactional_id=command.transactional_id)
    record = entry.record
    if record.owner.run != command.owner_run:
        raise ProducerFencedError(
            "another run owns this transactional id",
            transactional_id=record.transactional_id,
            current_run=record.owner.run,
        )
    if 0 < command.txn_no <= record.last_decided:
        raise parts.ended_error(record, command.txn_no)
    opened = record.open
    if opened is None or opened.txn_no != command.txn_no:
        raise InvalidTxnStateError("this transaction is not open", txn_no=command.txn_no)
    if _batch_of(opened) != command.batch:
        raise InvalidTxnStateError("the open transaction belongs to another batch or attempt", txn_no=command.txn_no)
    _require_winners(entry, command.winners, index.limits)
    return record


def _open_empty(
    index: TransactionIndex, record: TransactionRecord | None, command: Commit, now_ms: int
) -> tuple[TransactionRecord, TransactionRecord]:
    """For a batch that no task joined: returns the record as it was, and with a transaction opened for the batch
    (checks 2 to 5).
    """
    if command.winners:
        raise InvalidRequestError("winners belong to a transaction: name it")
    if record is None:
        require_room_for_id(index)
        record = state.new_id(command.transactional_id, command.fresh_producer_id, now_ms, index.removed)
    batch = command.batch
    _require_may_write(record, command.owner_run, batch, index.limits)
    opened = record.open
    if opened is not None and record.owner.run == command.owner_run and _batch_of(opened) == batch:
        raise InvalidTxnStateError("a transaction of this batch is open: name it", txn_no=opened.txn_no)
    free = _free_for(parts.assume_opened(index, record, now_ms), command.owner_run, now_ms, index.limits)
    limits = index.limits
    return record, _open_batch(free, batch, limits.default_lease_ms, limits.default_max_duration_ms, now_ms)


def _open_batch(
    record: TransactionRecord, batch: BatchName, lease_ms: int, duration_ms: int, now_ms: int
) -> TransactionRecord:
    """Returns the record with the next number opened for a batch."""
    opened = OpenTransaction(
        txn_no=record.last_txn_no + 1,
        started_ms=now_ms,
        timeout_ms=duration_ms,
        joined=True,
        lease_ms=lease_ms,
        app_id=batch.app_id,
        batch_id=batch.batch_id,
        write_attempt=batch.write_attempt,
    )
    return state.open_next(record, opened, now_ms)


def _require_winners(entry: Entry, winners: tuple[Winner, ...], limits: Limits) -> None:
    ids = {winner.producer_id for winner in winners}
    if len(ids) != len(winners) or any(winner.rows < 0 for winner in winners):
        raise InvalidRequestError("a winner stands twice, or has a negative number of rows")
    if len(ids) > limits.max_winners:
        raise InvalidRequestError("too many winners in one commit", limit=limits.max_winners)
    if entry.opened_here and not ids <= entry.participants:
        unknown = min(ids - entry.participants)
        raise UnknownParticipantError("a winner never joined this transaction", producer_id=unknown)


def _sum_counts(winners: tuple[Winner, ...]) -> dict[PartitionId, int]:
    total: dict[PartitionId, int] = {}
    for winner in winners:
        for partition, records in winner.counts.items():
            if records < 0:
                raise InvalidRequestError("a negative number of records", partition=partition.partition)
            total[partition] = total.get(partition, 0) + records
    return total


def abort(index: TransactionIndex, command: Abort, now_ms: int) -> Decision:
    """Aborts n when it is open, owned by the run and of this batch; otherwise does nothing. Never fails (abort() must
    not fail).
    """
    record = index.find(command.transactional_id)
    opened = None if record is None else record.open
    if record is None or opened is None or opened.txn_no != command.txn_no:
        return Decision(reply=False)
    if record.owner.run != command.owner_run or (opened.app_id, opened.batch_id) != (command.app_id, command.batch_id):
        return Decision(reply=False)
    after = state.abort_open(record, now_ms, index.limits)
    return parts.decided_now(record, after, True)
