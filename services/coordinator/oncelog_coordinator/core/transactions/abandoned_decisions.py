"""Decisions about transactions that their client does not end: answers to leaders, finished markers, operators.

Presumed abort: a name that was never recorded is first recorded as aborted, committed, and only then answered, so
UNKNOWN is never answered from memory (hole 6).  It is sound, because a partition is enrolled durably before it takes
data.  A number that was enrolled ahead counts as never recorded only in the epoch of the shard that enrolled it: in a
later epoch it may be open at a leader, so it is opened instead (hole 29).
"""

from __future__ import annotations

from dataclasses import replace

from oncelog.errors import InvalidPidMappingError, ResourceExhaustedError
from oncelog.types import PartitionId
from oncelog_coordinator.core.decision import Decision
from oncelog_coordinator.core.transactions import checks as parts
from oncelog_coordinator.core.transactions import transaction_state as state
from oncelog_coordinator.core.transactions.commands import (
    BecameVisible,
    Describe,
    ForceAbort,
    ListIds,
    MarkersCommitted,
    MarkersDone,
    Resolve,
    ResolveReply,
    TransactionView,
)
from oncelog_coordinator.core.transactions.orphan_records import OrphanRecord
from oncelog_coordinator.core.transactions.records import DecidedTransaction, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome
from oncelog_coordinator.core.transactions.transaction_index import (
    ForcedAbort,
    MarkersIn,
    MarkerTarget,
    TransactionIndex,
)


def resolve(index: TransactionIndex, command: Resolve, now_ms: int) -> Decision:
    """Answers with the outcome of (producer id, n): decided (with the winners exactly as in the marker), or still open.

    Raises `OutcomeForgottenError` when the winners are no longer kept.  That is after COMPLETE only: then every
    enrolled partition has its marker committed, so the asking leader finds it in its own log.
    """
    parts.require_txn_no(command.txn_no)
    transactional_id = index.ids.get(command.txn_producer_id)
    record = None if transactional_id is None else index.find(transactional_id)
    if record is None:
        return _resolve_orphan(index, command, now_ms)
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


def _resolve_orphan(index: TransactionIndex, command: Resolve, now_ms: int) -> Decision:
    """Records a number of a producer id that no transactional id has as aborted, under the producer id. The record goes when
    no number was added for long (`timeouts`); a leader that asks later gets the same answer, and a new record.

    Not when a removed id may have had this number: it may have committed, and its marker is on disk on every enrolled
    partition.
    """
    if command.txn_producer_id < 1:
        raise InvalidPidMappingError("no transaction has such a producer id", producer_id=command.txn_producer_id)
    reply = ResolveReply(False, 0)
    known = index.orphans.get(command.txn_producer_id, OrphanRecord(command.txn_producer_id, ()))
    if command.txn_no in known.aborted:
        return Decision(reply=reply)
    parts.require_not_removed(index, command.txn_no, txn_producer_id=command.txn_producer_id)
    if len(known.aborted) >= index.limits.aborted_ahead:
        raise ResourceExhaustedError("too many unknown transactions of this producer id", retry_after_ms=60_000)
    record = OrphanRecord(command.txn_producer_id, tuple(sorted((*known.aborted, command.txn_no))), now_ms)
    return Decision(reply=reply, records=(record,))


def markers_committed(index: TransactionIndex, command: MarkersCommitted) -> Decision:
    """Notes that readers see these markers; the last one wakes the callers that wait for VISIBLE. No record is written:
    a power cut of all replicas could still remove a marker, and it must then be sent again.
    """
    entry = index.entry(command.transactional_id)
    decided = None if entry is None else _decided(entry.record, command.txn_no)
    if entry is None or decided is None:
        return Decision()
    note = MarkersIn(command.transactional_id, command.txn_no, command.partitions)
    if entry.missing(decided) - set(command.partitions):
        return Decision(notes=(note,))
    return Decision(notes=(note,), notices=(BecameVisible(command.transactional_id, command.txn_no),))


def _decided(record: TransactionRecord, txn_no: int) -> DecidedTransaction | None:
    return next((item for item in record.decided if item.txn_no == txn_no), None)


def markers_done(index: TransactionIndex, command: MarkersDone, now_ms: int) -> Decision:
    """Notes markers that are on disk. Only the last one writes a record, a lazy one: if it is lost, the markers are
    sent again.
    """
    entry = index.entry(command.transactional_id)
    decided = None if entry is None else _decided(entry.record, command.txn_no)
    if entry is None or decided is None:
        return Decision()
    targets: tuple[MarkerTarget, ...] = (*command.partitions, *command.groups)
    note = MarkersIn(command.transactional_id, command.txn_no, targets, on_disk=True)
    became_visible = BecameVisible(command.transactional_id, command.txn_no)
    notices = () if entry.missing(decided) - set(targets) else (became_visible,)
    if entry.not_on_disk(decided) - set(targets):
        return Decision(notes=(note,), notices=notices)
    record = state.complete(entry.record, command.txn_no, now_ms)
    return Decision(records=(record,), notes=(note,), notices=notices, lazy=True)


def force_abort(index: TransactionIndex, command: ForceAbort, now_ms: int) -> Decision:
    """Aborts the transaction that is open, or may be open at a leader; the reply is its number, or 0 when there is
    none.

    A command that names its number touches no other one: a late copy of it finds that number decided. An older client
    names no number; within `force_abort_repeat_ms` of the last such command, another one counts as its retry and aborts
    nothing.
    """
    entry = index.entry(command.transactional_id)
    if entry is None:
        raise InvalidPidMappingError("no such transactional id", transactional_id=command.transactional_id)
    record = entry.record
    forced = entry.forced
    if not command.txn_no and forced is not None and now_ms - forced.now_ms < index.limits.force_abort_repeat_ms:
        return Decision(reply=forced.txn_no)
    opened = parts.assume_opened(index, record, now_ms)
    if opened.open is None or command.txn_no not in (0, opened.open.txn_no):
        return Decision(reply=0)
    after = state.abort_open(opened, now_ms, index.limits)
    decision = parts.decided_now(record, after, opened.open.txn_no)
    if command.txn_no:
        return decision
    return replace(decision, notes=(ForcedAbort(record.transactional_id, opened.open.txn_no, now_ms),))


def list_ids(index: TransactionIndex, command: ListIds) -> Decision:
    """Lists all ids in the wanted states, sorted by name."""
    views = (view_of(record) for record in index.records())
    chosen = [view for view in views if not command.states or view.state in command.states]
    return Decision(reply=tuple(sorted(chosen, key=lambda view: view.transactional_id)))


def describe(index: TransactionIndex, command: Describe) -> Decision:
    """Describes one id. Raises `InvalidPidMappingError` when it is unknown."""
    record = index.find(command.transactional_id)
    if record is None:
        raise InvalidPidMappingError("no such transactional id", transactional_id=command.transactional_id)
    return Decision(reply=view_of(record))


def view_of(record: TransactionRecord) -> TransactionView:
    """Builds what operators see of an id. For a decided transaction that includes the partitions that still need their
    marker.
    """
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
        may_be_open=record.last_txn_no + 1 if state.assume_opened(record, 0) is not record else 0,
    )
