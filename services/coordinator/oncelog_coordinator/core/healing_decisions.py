"""Decisions that end what nobody ends: answers to leaders, markers that are in, time, operators.

Presumed abort: a name that was never recorded is first recorded as aborted, committed, and only then answered, so UNKNOWN
is never spoken from memory (hole 6).  It is sound, because a partition is enrolled durably before it takes data.  The
number that was enrolled ahead is such a name only to the life that enrolled it: to a later one it may be open.
"""

from __future__ import annotations

from oncelog.errors import InvalidPidMappingError, ResourceExhaustedError
from oncelog.types import PartitionId
from oncelog_coordinator.core import decision_parts as parts
from oncelog_coordinator.core import transaction_state as state
from oncelog_coordinator.core.commands import (
    BecameVisible,
    Describe,
    ForceAbort,
    ListIds,
    MarkersDone,
    Resolve,
    ResolveReply,
    TransactionView,
)
from oncelog_coordinator.core.decision import Decision
from oncelog_coordinator.core.records import DecidedTransaction, OrphanRecord, TransactionRecord
from oncelog_coordinator.core.states import Outcome
from oncelog_coordinator.core.transaction_index import MarkersIn, MarkerTarget, TransactionIndex


def resolve(index: TransactionIndex, command: Resolve, now_ms: int) -> Decision:
    """What became of (producer id, n): with winners exactly as the marker has them, or ongoing, or aborted.

    Raises `OutcomeForgottenError` when who won is no longer kept.  That is after COMPLETE only: then every enrolled
    partition has its marker committed, so the asker finds it in its own log.
    """
    parts.require_txn_no(command.txn_no)
    transactional_id = index.ids.get(command.txn_producer_id)
    record = None if transactional_id is None else index.find(transactional_id)
    if record is None:
        return _resolve_orphan(index, command)
    number = command.txn_no
    if record.open is not None and record.open.txn_no == number:
        return Decision(reply=ResolveReply(None, record.session_epoch), confirm=True)
    pending = next((item for item in record.decided if item.txn_no == number), None)
    if pending is not None:
        return Decision(reply=_resolved(pending, command))
    outcome = record.outcome_of(number)
    if outcome is not None and outcome is not Outcome.COMMITTED_WINNERS:
        return Decision(reply=ResolveReply(outcome.is_commit, record.session_epoch))
    if outcome is not None or record.is_forgotten(number):
        raise parts.forgotten_error(record, number)
    opened = parts.assume_opened(index, record, now_ms)
    if opened.last_txn_no == number:
        return Decision(reply=ResolveReply(None, record.session_epoch), records=(opened,))
    if len(record.aborted_ahead) >= index.limits.aborted_ahead:
        raise ResourceExhaustedError("too many unknown transactions of this id", retry_after_ms=60_000)
    after = state.close_unknown(record, number, now_ms, index.limits)
    return Decision(reply=ResolveReply(False, record.session_epoch), records=(after,))


def _resolved(decided: DecidedTransaction, command: Resolve) -> ResolveReply:
    return ResolveReply(
        committed=decided.outcome.is_commit,
        session_epoch=decided.session_epoch,
        winners=decided.winners,
        expected_records=decided.expected_on(command.topic_id, command.partition) if command.topic_id else -1,
    )


def _resolve_orphan(index: TransactionIndex, command: Resolve) -> Decision:
    """A producer id that no transactional id has: its numbers are recorded as aborted under the producer id."""
    reply = ResolveReply(False, 0)
    known = index.orphans.get(command.txn_producer_id, OrphanRecord(command.txn_producer_id, ()))
    if command.txn_no in known.aborted:
        return Decision(reply=reply)
    if len(known.aborted) >= index.limits.aborted_ahead:
        raise ResourceExhaustedError("too many unknown transactions of this producer id", retry_after_ms=60_000)
    record = OrphanRecord(command.txn_producer_id, tuple(sorted((*known.aborted, command.txn_no))))
    return Decision(reply=reply, records=(record,))


def markers_done(index: TransactionIndex, command: MarkersDone, now_ms: int) -> Decision:
    """Markers are in. Only the last one writes a record, and in no hurry: what is lost of it is sent again."""
    entry = index.entry(command.transactional_id)
    record = None if entry is None else entry.record
    if entry is None or record is None:
        return Decision()
    decided = next((item for item in record.decided if item.txn_no == command.txn_no), None)
    if decided is None:
        return Decision()
    targets: tuple[MarkerTarget, ...] = (*command.partitions, *command.groups)
    note = MarkersIn(command.transactional_id, command.txn_no, targets)
    if entry.missing(decided) - set(targets):
        return Decision(notes=(note,))
    return Decision(
        records=(state.complete(record, command.txn_no, now_ms),),
        notes=(note,),
        notices=(BecameVisible(command.transactional_id, command.txn_no),),
        lazy=True,
    )


def force_abort(index: TransactionIndex, command: ForceAbort, now_ms: int) -> Decision:
    """Aborts what is open; the reply is its number."""
    record = index.find(command.transactional_id)
    if record is None:
        raise InvalidPidMappingError("no such transactional id", transactional_id=command.transactional_id)
    if record.open is None:
        return Decision(reply=0)
    return parts.decided_now(record, state.abort_open(record, now_ms, index.limits), record.open.txn_no)


def list_ids(index: TransactionIndex, command: ListIds) -> Decision:
    """All ids, sorted."""
    views = (view_of(record) for record in index.records())
    chosen = [view for view in views if not command.states or view.state in command.states]
    return Decision(reply=tuple(sorted(chosen, key=lambda view: view.transactional_id)))


def describe(index: TransactionIndex, command: Describe) -> Decision:
    """One id."""
    record = index.find(command.transactional_id)
    if record is None:
        raise InvalidPidMappingError("no such transactional id", transactional_id=command.transactional_id)
    return Decision(reply=view_of(record))


def view_of(record: TransactionRecord) -> TransactionView:
    """What operators see; of a decided transaction the partitions that markers travel to."""
    opened = record.open
    newest = record.decided[-1] if record.decided else None
    partitions: tuple[PartitionId, ...] = ()
    groups: tuple[str, ...] = ()
    if opened is not None:
        partitions, groups = opened.partitions, opened.groups
    elif newest is not None and newest.txn_no == record.last_txn_no:
        partitions = tuple(PartitionId(t.topic_id, t.partition) for t in newest.targets)
        groups = newest.groups
    return TransactionView(
        transactional_id=record.transactional_id,
        producer_id=record.producer_id,
        producer_epoch=record.session_epoch,
        txn_no=record.last_txn_no,
        state=record.state,
        started_ms=opened.started_ms if opened is not None else 0,
        timeout_ms=opened.timeout_ms if opened is not None else record.timeout_ms,
        partitions=partitions,
        groups=groups,
        owner_run=record.owner.run,
        tokens=tuple((token.app_id, token.batch_id) for token in record.tokens),
    )
