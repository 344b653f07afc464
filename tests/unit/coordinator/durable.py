"""The state of a shard's table as the records that say it: two tables with equal records are in equal states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.transactions.records import TransactionRecord, parse
from oncelog_coordinator.core.transactions.transaction_state import with_what_leaders_heard
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable


def durable(table: Any) -> dict[str, bytes]:
    """Returns the records of a table by key, without what is not logged."""
    if isinstance(table, TransactionTable):
        ids = [_as_logged(record) for record in table.index.records()]
        removed = [table.index.removed] if table.index.removed.txn_no else []
        return {record.key: record.encode() for record in (*ids, *table.index.orphans.values(), *removed)}
    assert isinstance(table, GroupShardTable)
    records: list[Any] = []
    for offsets in table.offsets.groups.values():
        records += (*offsets.offsets.values(), *offsets.pending.values(), *offsets.ended.values())
    for group in table.groups.groups.values():
        records += (*group.members.values(), *group.left.values(), *([group.record] if group.record.slots else []))
    for partitions in table.channels.channels.values():
        for here in partitions.values():
            records += (*here.records(), *([here.head] if here.head is not None else []))
    return {record.key: record.encode() for record in records}


def _as_logged(record: TransactionRecord) -> TransactionRecord:
    """A life hears that markers are in, and logs that with the next record; a later one doubts what this one has answered."""
    record = replace(record, decided=tuple(replace(item, was_visible=False) for item in record.decided))
    return with_what_leaders_heard(TransactionRecord.decode(parse(record.encode())))
