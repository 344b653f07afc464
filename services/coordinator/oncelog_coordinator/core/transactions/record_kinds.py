"""All kinds of record in the log of a transaction shard, told apart by their keys."""

from __future__ import annotations

from oncelog.core.malformed import MALFORMED
from oncelog.errors import CorruptMessageError
from oncelog_coordinator.core.transactions.orphan_records import OrphanForm, OrphanRecord, RemovedIds
from oncelog_coordinator.core.transactions.records import EpochRecord, Tombstone, TransactionRecord, parse


def _orphan_or_removed(value: OrphanForm) -> OrphanRecord | RemovedIds:
    return RemovedIds.decode(value) if "removed" in value else OrphanRecord.decode(value)


TransactionLogRecord = EpochRecord | TransactionRecord | OrphanRecord | RemovedIds | Tombstone


def decode_transaction_record(key: str, value: bytes) -> TransactionLogRecord:
    """Decodes a record of a transaction shard's log. Raises `CorruptMessageError` for a record that this version cannot
    read.
    """
    kind = key.partition(":")[0]
    decoder = {"epoch": EpochRecord.decode, "txn": TransactionRecord.decode, "orphan": _orphan_or_removed}.get(kind)
    if decoder is None:
        raise CorruptMessageError("a record of the shard's log has an unknown kind", kind=kind)
    try:
        record: TransactionLogRecord = decoder(parse(value))  # type: ignore[assignment]
    except MALFORMED as error:
        raise CorruptMessageError("a record of the shard's log cannot be read", key=key) from error
    if record.key != key:
        raise CorruptMessageError("a record of the shard's log has another key than its value says", key=key)
    return record
