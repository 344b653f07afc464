"""Decisions about a client's own transactions: sessions, enrolment, end, outcome.

Every check is equality of the name (producer id, n); the session epoch only fences.  So a late copy of any message of n
finds n decided and gets n's answer, and can never touch n+1 (docs/internals/protocol.md#what-names-a-transaction).
"""

from __future__ import annotations

from oncelog.errors import (
    InvalidPidMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    OncelogError,
    ProducerFencedError,
    ResourceExhaustedError,
    TxnAbortedError,
)
from oncelog_coordinator.core.decision import Decision
from oncelog_coordinator.core.transactions import checks as parts
from oncelog_coordinator.core.transactions import transaction_state as state
from oncelog_coordinator.core.transactions.commands import (
    End,
    EndReply,
    Enrol,
    GetOutcome,
    InitProducerId,
    OutcomeReply,
    SessionReply,
)
from oncelog_coordinator.core.transactions.records import OpenTransaction, TransactionRecord
from oncelog_coordinator.core.transactions.states import Outcome, TxnState
from oncelog_coordinator.core.transactions.transaction_index import SignOfLife, TransactionIndex


def init_producer_id(index: TransactionIndex, command: InitProducerId, now_ms: int) -> Decision:
    """Starts a new session at once: the same record aborts an open transaction, and the session gets the next number.

    The same nonce gets the same answer (a replayed request must not fence the current session).
    """
    if not 0 < command.timeout_ms <= index.limits.transaction_max_timeout_ms:
        raise InvalidTransactionTimeoutError(
            "the transaction time-out is not above zero, or above the maximum",
            timeout_ms=command.timeout_ms,
            maximum_ms=index.limits.transaction_max_timeout_ms,
        )
    record = index.find(command.transactional_id)
    if record is None:
        require_room_for_id(index)
        record = state.new_id(command.transactional_id, command.fresh_producer_id, now_ms, index.removed)
    else:
        known = _same_nonce(record, command.nonce)
        if known is not None:
            return Decision(reply=known)
        _require_expected(record, command)
    before = parts.assume_opened(index, record, now_ms)
    after = state.new_session(before, command.timeout_ms, command.nonce, now_ms, index.limits)
    reply = SessionReply(after.producer_id, after.session_epoch, after.last_txn_no + 1)
    return parts.decided_now(record, after, reply)


def require_room_for_id(index: TransactionIndex) -> None:
    """Raises `ResourceExhaustedError` when the shard has as many ids as it may hold."""
    if len(index.entries) >= index.limits.max_ids:
        raise ResourceExhaustedError(
            f"this shard knows too many transactional ids. {len(index.lasting)} of them are kept forever, since they hold the "
            "token of a committed batch: use an id again instead of a new one for each run (Spark: option transactionalId). "
            "The others are removed some time after their last use; transactional_id_expiration_ms and "
            "transactional_id_retention_ms of the coordinators say when",
            retry_after_ms=1_000,
            limit=index.limits.max_ids,
            kept_for_ever=len(index.lasting),
        )


def _same_nonce(record: TransactionRecord, nonce: str) -> SessionReply | None:
    for session in record.sessions:
        if nonce and session.nonce == nonce:
            return SessionReply(record.producer_id, session.producer_epoch, session.next_txn_no)
    return None


def _require_expected(record: TransactionRecord, command: InitProducerId) -> None:
    if command.expected_producer_id <= 0:
        return
    given = (command.expected_producer_id, command.expected_producer_epoch)
    if given != (record.producer_id, record.session_epoch):
        raise ProducerFencedError(
            "the id has another producer id or a newer session than expected",
            transactional_id=command.transactional_id,
            expected_epoch=command.expected_producer_epoch,
            current_epoch=record.session_epoch,
        )


def enrol(index: TransactionIndex, command: Enrol, now_ms: int) -> Decision:
    """Records partitions and groups durably; opens n when it is the next. When all are enrolled already, no record is
    written.

    Partitions that the record of the last decision enrolled ahead are durable already: the request is answered at once,
    and the record that says that n is open is lazy (decision 0017). Order of checks: mapping 49, session 90, decided
    (ended or aborted), then n must be open or next.
    """
    name = command.name
    record = index.named(name.transactional_id, name.txn_producer_id).record
    parts.require_txn_no(name.txn_no)
    parts.require_session(record, name.producer_epoch)
    before = record
    if record.open is None or record.open.txn_no != name.txn_no:
        before = _opened_for(index, record, name.txn_no, now_ms)
    after = state.enrol(before, command.partitions, command.groups, now_ms)
    assert after.open is not None
    if len(after.open.partitions) + len(after.open.groups) > index.limits.max_partitions:
        raise ResourceExhaustedError("too many partitions in one transaction", limit=index.limits.max_partitions)
    parts.require_fits(after.open, index.limits)
    life = (SignOfLife(record.transactional_id, name.txn_no, now_ms),)
    if after.open == record.open:
        return Decision(notes=life)
    durable = record.expected.covers(command.partitions, command.groups)
    return Decision(records=(after,), notes=life, lazy=durable)


def _opened_for(index: TransactionIndex, record: TransactionRecord, txn_no: int, now_ms: int) -> TransactionRecord:
    """Returns the record with n open. Raises when a client may not open n."""
    if txn_no <= record.last_decided or txn_no in record.aborted_ahead:
        raise parts.ended_error(record, txn_no)
    if not parts.is_next(record, txn_no):
        raise parts.not_next_error(record, txn_no)
    _require_no_owner(record)
    parts.require_room(record, index.limits)
    return state.open_next(record, OpenTransaction(txn_no, now_ms, record.timeout_ms), now_ms)


def _require_no_owner(record: TransactionRecord) -> None:
    if record.owner.run:
        raise InvalidTxnStateError(
            "a Spark run owns this transactional id; it opens by JoinTransaction and ends by CommitTransaction",
            transactional_id=record.transactional_id,
        )


def end(index: TransactionIndex, command: End, now_ms: int) -> Decision:
    """Decides n. A repeated END gets the first outcome. A transaction that enrolled nothing is closed too (hole 20)."""
    name = command.name
    if command.commit:
        parts.require_remembered(index, name)
    record = index.named(name.transactional_id, name.txn_producer_id).record
    parts.require_txn_no(name.txn_no)
    if name.txn_no <= record.last_decided or name.txn_no in record.aborted_ahead:
        return _ended_before(index, record, command)
    parts.require_session(record, name.producer_epoch)
    _require_no_owner(record)
    before = record
    if record.open is None or record.open.txn_no != name.txn_no:
        if not parts.is_next(record, name.txn_no):
            raise parts.not_next_error(record, name.txn_no)
        before = parts.assume_opened(index, record, now_ms)
        if before.open is None:
            before = state.open_next(record, OpenTransaction(name.txn_no, now_ms, record.timeout_ms), now_ms)
    counts = command.counts if command.commit else {}
    parts.require_enrolled(before, counts)
    outcome = Outcome.COMMITTED if command.commit else Outcome.ABORTED
    after = state.decide_open(before, outcome, now_ms, index.limits, counts, expect_next=True)
    visible = all(item.txn_no != name.txn_no for item in after.decided)
    return parts.decided_now(before, after, EndReply(command.commit, visible, name.txn_no))


def _ended_before(index: TransactionIndex, record: TransactionRecord, command: End) -> Decision:
    """Answers END of a decided n. An older session gets a success for its own commit; otherwise it is fenced, because
    the number it would use next belongs to its successor.
    """
    name = command.name
    outcome = record.outcome_of(name.txn_no)
    if outcome is not None and outcome.is_commit is command.commit:
        if not command.commit:
            parts.require_session(record, name.producer_epoch)
        return Decision(reply=EndReply(command.commit, index.is_visible(record, name.txn_no), name.txn_no))
    parts.require_session(record, name.producer_epoch)
    if outcome is None:
        raise parts.forgotten_error(record, name.txn_no)
    raise _other_outcome(record, name.txn_no, outcome)


def _other_outcome(record: TransactionRecord, txn_no: int, outcome: Outcome) -> OncelogError:
    context: parts.Where = {"transactional_id": record.transactional_id, "txn_no": txn_no}
    if outcome is Outcome.ABORTED:
        return TxnAbortedError("the transaction was aborted; go on with the next one", outcome="ABORTED", **context)
    return InvalidTxnStateError("the transaction is committed", outcome="COMMITTED", **context)


def get_outcome(index: TransactionIndex, command: GetOutcome) -> Decision:
    """Answers with the outcome of n: decided, forgotten (raises `OutcomeForgottenError`), not decided yet, or not begun
    yet.

    Every number below the last one has an outcome or is forgotten: skipped numbers are closed as aborted. So only
    numbers above it are not begun; the next one is excepted when an earlier epoch of the shard may have let leaders
    open it.
    """
    record = index.find(command.transactional_id)
    if record is None:
        parts.require_not_removed(index, command.txn_no, transactional_id=command.transactional_id)
        raise InvalidPidMappingError("no such transactional id", transactional_id=command.transactional_id)
    parts.require_txn_no(command.txn_no)
    if record.is_forgotten(command.txn_no):
        raise parts.forgotten_error(record, command.txn_no)
    outcome = record.outcome_of(command.txn_no)
    if outcome is None:
        begun = record.state_of(command.txn_no) is TxnState.ONGOING
        return Decision(reply=OutcomeReply(None, False, begun), confirm=True)
    return Decision(reply=OutcomeReply(outcome.is_commit, index.is_visible(record, command.txn_no)))
