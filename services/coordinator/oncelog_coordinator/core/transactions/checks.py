"""Helpers that the decisions about transactions share: checks that refuse, errors, and the decision that ends numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from oncelog.errors import (
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidTxnStateError,
    OncelogError,
    OutcomeForgottenError,
    PolicyViolationError,
    ProducerFencedError,
    TxnAbortedError,
    TxnEndedError,
)
from oncelog.types import PartitionId
from oncelog_coordinator.core import sizes
from oncelog_coordinator.core.decision import Decision, TransactionEnded
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import transaction_state as state
from oncelog_coordinator.core.transactions.commands import BecameVisible, SendMarkers, TxnName
from oncelog_coordinator.core.transactions.records import DecidedTransaction, OpenTransaction, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome
from oncelog_coordinator.core.transactions.transaction_index import TransactionIndex

RETRY_AFTER_MS = 5
"""Suggested to callers that have to retry: markers usually take a few milliseconds."""


class Where(TypedDict):
    """The context of an error about the number of a transaction."""

    transactional_id: str
    txn_no: int


def require_session(record: TransactionRecord, producer_epoch: int) -> None:
    """Raises `ProducerFencedError` unless the caller's session is the current one."""
    if producer_epoch != record.session_epoch:
        raise ProducerFencedError(
            "another session of this transactional id exists; this one is finished",
            transactional_id=record.transactional_id,
            producer_epoch=producer_epoch,
            current_epoch=record.session_epoch,
        )


def ended_error(record: TransactionRecord, txn_no: int) -> OncelogError:
    """Returns the refusal for a decided transaction: TXN_ABORTED when it is known to be aborted, else TXN_ENDED."""
    context: Where = {"transactional_id": record.transactional_id, "txn_no": txn_no}
    if record.outcome_of(txn_no) is Outcome.ABORTED:
        return TxnAbortedError("the transaction was aborted; go on with the next one", **context)
    return TxnEndedError("the transaction is decided; nothing can join or change it", **context)


def forgotten_error(record: TransactionRecord, txn_no: int) -> OncelogError:
    """Returns the refusal for an outcome that is no longer kept; it is never guessed (hole 15)."""
    return OutcomeForgottenError(
        "the transaction is complete and its outcome is no longer kept, or it was never begun; read the topic to learn it",
        transactional_id=record.transactional_id,
        txn_no=txn_no,
    )


def require_not_removed(
    index: TransactionIndex, txn_no: int, *, transactional_id: str = "", txn_producer_id: int | None = None
) -> None:
    """For an unknown id: raises `OutcomeForgottenError` when a removed id may have had this number."""
    if index.removed.may_have_had(txn_no, txn_producer_id):
        raise OutcomeForgottenError(
            "no such transactional id is known (any more), so its outcome is not known, or it was never begun; "
            "read the topic to learn it",
            transactional_id=transactional_id,
            txn_no=txn_no,
        )


def require_remembered(index: TransactionIndex, name: TxnName) -> None:
    """Raises `OutcomeForgottenError` for a number of an expired or removed id.

    It may have been committed, so a retried commit must not be refused like a call with an unknown producer id: that
    error says that a new session is all the caller needs.
    """
    owner = index.ids.get(name.txn_producer_id)
    record = None if owner is None else index.find(owner)
    if record is None:
        require_not_removed(
            index, name.txn_no, transactional_id=name.transactional_id, txn_producer_id=name.txn_producer_id
        )
    elif record.dead and record.is_forgotten(name.txn_no) and name.transactional_id in ("", owner):
        raise forgotten_error(record, name.txn_no)


def not_next_error(record: TransactionRecord, txn_no: int) -> OncelogError:
    """Returns the refusal for a number that is neither open nor next: n+1 while n is open may be early (retry), others
    are bugs.
    """
    context: Where = {"transactional_id": record.transactional_id, "txn_no": txn_no}
    last = record.last_txn_no
    if record.open is not None and txn_no == last + 1:
        return ConcurrentTransactionsError(
            "the transaction before this one is still open", retry_after_ms=RETRY_AFTER_MS, last_txn_no=last, **context
        )
    return InvalidTxnStateError("this is not the next transaction of the id", last_txn_no=last, **context)


def is_next(record: TransactionRecord, txn_no: int) -> bool:
    """True when n may be opened or closed now."""
    return record.open is None and txn_no == record.last_txn_no + 1


def require_room(record: TransactionRecord, limits: Limits) -> None:
    """Raises `ConcurrentTransactionsError` while transactions of an id that wait for their markers, or for the disks
    that hold them, are too many, too large, or too old.

    An open transaction counts as one that waits: the caller is about to end it.
    """
    unsynced = len(record.decided) + (record.open is not None)
    pending = unsynced - sum(item.was_visible for item in record.decided)
    is_full = pending >= limits.max_pending_transactions or unsynced >= limits.max_unsynced_transactions
    if is_full or _pending_bytes(record) > limits.max_pending_bytes:
        raise ConcurrentTransactionsError(
            "too many transactions of this id wait for their markers, or for the disks of replicas that hold them",
            retry_after_ms=RETRY_AFTER_MS,
            pending=pending,
            unsynced=unsynced,
        )
    if record.decided and record.last_txn_no + 1 - record.decided[0].txn_no >= limits.max_number_span:
        raise ConcurrentTransactionsError(
            "an old transaction of this id waits for its markers: see which partition has no leader",
            retry_after_ms=RETRY_AFTER_MS,
            txn_no=record.decided[0].txn_no,
        )


def require_fits(opened: OpenTransaction, limits: Limits) -> None:
    """Raises `PolicyViolationError` when the partitions and groups of one transaction would make its record too large."""
    partitions, groups, limit = len(opened.partitions), len(opened.groups), limits.max_enrolled_bytes
    if sizes.may_exceed(partitions, groups, limit) and sizes.enrolled_bytes(partitions, opened.groups) > limit:
        raise PolicyViolationError(
            "the partitions and groups of this transaction are too many bytes together: use several transactions",
            limit_bytes=limit,
        )


def assume_opened(index: TransactionIndex, record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """Applies `state.assume_opened`, with a start no later than the end of this shard's replay. Raises like `require_room`."""
    started_ms = now_ms if index.loaded_at_ms is None else min(now_ms, index.loaded_at_ms)
    opened = state.assume_opened(record, started_ms)
    if opened is not record:
        require_room(record, index.limits)
    return opened


def require_txn_no(txn_no: int) -> None:
    """Raises `InvalidRequestError` for a number below 1."""
    if txn_no < 1:
        raise InvalidRequestError("transaction numbers begin at 1", txn_no=txn_no)


def require_enrolled(record: TransactionRecord, counted: Iterable[PartitionId]) -> None:
    """Raises `InvalidRequestError` when records are counted on a partition that was never enrolled.

    A leader acknowledges a record only after its partition was enrolled durably, so this is a bug of the caller.
    """
    assert record.open is not None
    unknown = set(counted) - set(record.open.partitions)
    if unknown:
        topic_id, partition = min(unknown)
        raise InvalidRequestError(
            "records are counted on a partition that is not part of the transaction",
            topic_id=topic_id,
            partition=partition,
        )


def send_markers(record: TransactionRecord, decided: DecidedTransaction) -> SendMarkers:
    """Builds the effect that sends the markers of one decided transaction."""
    return SendMarkers(
        transactional_id=record.transactional_id,
        txn_producer_id=record.producer_id,
        txn_no=decided.txn_no,
        session_epoch=decided.session_epoch,
        committed=decided.outcome.is_commit,
        winners=decided.winners,
        targets=decided.targets,
        groups=decided.groups,
    )


def decided_now(old: TransactionRecord, new: TransactionRecord, reply: object, *, timed_out: bool = False) -> Decision:
    """Builds the decision that writes `new`, answers `reply`, and sends the markers of every number decided in this step."""
    pending = {item.txn_no: item for item in new.decided}
    effects: list[SendMarkers | BecameVisible] = []
    ended: list[TransactionEnded] = []
    for number in range(old.last_decided + 1, new.last_decided + 1):
        if number in pending:
            effects.append(send_markers(new, pending[number]))
        else:
            effects.append(BecameVisible(new.transactional_id, number))
        if number in pending or not _was_only_given(old, new, number):
            ended.append(_ended(old, new, number, timed_out=timed_out))
    return Decision(reply=reply, records=(new,), effects=tuple(effects), ended=tuple(ended))


def _was_only_given(old: TransactionRecord, new: TransactionRecord, number: int) -> bool:
    """True for a number that a session was given and never used: its abort does not count as the end of a transaction."""
    began = old.open is not None and old.open.txn_no == number
    return not began and new.outcome_of(number) is Outcome.ABORTED


def _ended(old: TransactionRecord, new: TransactionRecord, number: int, *, timed_out: bool) -> TransactionEnded:
    outcome = new.outcome_of(number)
    committed = outcome is not None and outcome.is_commit
    began = old.open is not None and old.open.txn_no == number
    duration_ms = max(0, new.updated_ms - old.open.started_ms) if old.open is not None and began else -1
    return TransactionEnded("committed" if committed else "timed_out" if timed_out else "aborted", duration_ms)


def _pending_bytes(record: TransactionRecord) -> int:
    """Returns the bytes of everything that waits for markers, or for the disks that hold them. In one pass, since every
    enrolment calls it.
    """
    partitions = winners = groups_bytes = 0
    for item in record.decided:
        partitions += len(item.targets)
        if item.winners:
            winners += len(item.winners)
        if item.groups:
            groups_bytes += sizes.enrolled_bytes(0, item.groups)
    return partitions * sizes.PARTITION_BYTES + winners * sizes.ID_BYTES + groups_bytes
