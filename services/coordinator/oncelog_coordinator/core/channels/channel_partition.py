"""The state of a channel on one partition, as the newest records of its keys say it.

Rule 1: a block or an acknowledgement counts while the head is there, names as many seeks as it does, and (a block) does not lie
        before `settled_before`. What counts no more is *outdated*: forgotten here, and its key is kept until a tombstone is
        written. So a seek, or the end of a channel, writes one record for each partition, however much is forgotten.
Rule 2: the order in which records are applied does not matter. Without a head nothing is known to be outdated; `loaded` says
        that there will be none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from oncelog_coordinator.core.channels.channel_records import (
    PENDING,
    SETTLED,
    ChannelHead,
    ChannelPartitionId,
    PendingAcks,
    RetriedBlock,
    Retry,
    SettledBlock,
    parse_channel_key,
)
from oncelog_coordinator.core.channels.offset_ranges import ALL_SETTLED, BLOCK, from_offset_on, is_set

TxnKey = tuple[int, int]
"""(txn_producer_id, txn_no)"""
BlockRecord = SettledBlock | RetriedBlock


@dataclass(slots=True)
class ChannelPartition:
    """Reads and changes the state; `ChannelTable` decides."""

    id: ChannelPartitionId
    head: ChannelHead | None = None
    settled: dict[int, SettledBlock] = field(default_factory=dict)
    """By the number of the block, as the next ones."""
    retried: dict[int, RetriedBlock] = field(default_factory=dict)
    pending: dict[TxnKey, PendingAcks] = field(default_factory=dict)
    outdated: dict[str, None] = field(default_factory=dict)
    """Keys of records that count no more."""

    @property
    def is_empty(self) -> bool:
        """True when no record of it is left."""
        return self.head is None and not (self.settled or self.retried or self.pending or self.outdated)

    # ------------------------------------------------------------ reading

    def bits(self) -> dict[int, int]:
        """Returns the settled offsets as bit maps by block; what lies before `settled_before` is not to be looked at."""
        return {block: record.bits for block, record in self.settled.items()}

    def retries(self, block: int) -> Iterator[Retry]:
        """Yields the records of a block that were given back and are not settled, by offset."""
        record = self.retried.get(block)
        if record is None or self.head is None:
            return
        bits = {block: self.settled[block].bits} if block in self.settled else {}
        for item in record.retries():
            if item.offset >= self.head.settled_before and not is_set(item.offset, bits):
                yield item

    def remembered_retries(self) -> int:
        """Returns how many retried records stand in the log."""
        return sum(map(len, self.retried.values()))

    def settled_bits(self, block: int) -> int:
        """Returns the settled offsets of a block from `settled_before` on."""
        record = self.settled.get(block)
        if record is None or self.head is None:
            return 0
        return from_offset_on(block, record.bits, self.head.settled_before)

    def pending_ranges(self) -> int:
        """Returns the number of ranges in all open transactions."""
        return sum(len(item.ranges) for item in self.pending.values())

    # ------------------------------------------------------------ writing

    def put_head(self, head: ChannelHead) -> list[PendingAcks]:
        """Takes a head. Returns the acknowledgements that are outdated by it."""
        before, self.head = self.head, head
        if before is not None and before.seeks == head.seeks and _block(before) == _block(head):
            return []  # the usual case costs nothing
        return self._forget([record for record in self.records() if self._is_outdated(record)])

    def drop_head(self) -> list[PendingAcks]:
        """Forgets everything, as the head was removed. Returns the acknowledgements that are outdated by that."""
        self.head = None
        return self.loaded()

    def put_block(self, record: BlockRecord) -> None:
        """Takes a block."""
        blocks: dict[int, SettledBlock] | dict[int, RetriedBlock]
        blocks = self.settled if isinstance(record, SettledBlock) else self.retried
        if self.head is not None and self._is_outdated(record):
            blocks.pop(record.block, None)
            self.outdated[record.key] = None
        else:
            self.outdated.pop(record.key, None)
            blocks[record.block] = record  # type: ignore[assignment]

    def put_pending(self, record: PendingAcks) -> bool:
        """Takes acknowledgements of a transaction. Returns False when they are outdated."""
        if self.head is not None and record.seeks != self.head.seeks:
            self.outdated[record.key] = None
            return False
        self.outdated.pop(record.key, None)
        self.pending[record.txn_producer_id, record.txn_no] = record
        return True

    def drop(self, key: str) -> list[PendingAcks]:
        """Forgets the record of a key, by a tombstone. Returns the acknowledgements that it held."""
        parsed = parse_channel_key(key)
        assert parsed is not None, f"{key} is another core's"
        _, kind, numbers = parsed
        self.outdated.pop(key, None)
        if kind == PENDING:
            gone = self.pending.pop((numbers[0], numbers[1]), None)
            return [] if gone is None else [gone]
        blocks: dict[int, SettledBlock] | dict[int, RetriedBlock] = self.settled if kind == SETTLED else self.retried
        blocks.pop(numbers[0], None)
        return []

    def loaded(self) -> list[PendingAcks]:
        """Forgets what has no head. Returns the acknowledgements among it."""
        return [] if self.head is not None else self._forget(list(self.records()))

    def _is_outdated(self, record: BlockRecord | PendingAcks) -> bool:
        assert self.head is not None, "nothing is outdated without a head"
        if record.seeks != self.head.seeks:
            return True
        return not isinstance(record, PendingAcks) and (record.block + 1) * BLOCK <= self.head.settled_before

    def records(self) -> Iterator[BlockRecord | PendingAcks]:
        """Yields all records but the head."""
        yield from self.settled.values()
        yield from self.retried.values()
        yield from self.pending.values()

    def _forget(self, records: Iterable[BlockRecord | PendingAcks]) -> list[PendingAcks]:
        gone: list[PendingAcks] = []
        for record in records:
            self.outdated[record.key] = None
            if isinstance(record, SettledBlock):
                del self.settled[record.block]
            elif isinstance(record, RetriedBlock):
                del self.retried[record.block]
            else:
                del self.pending[record.txn_producer_id, record.txn_no]
                gone.append(record)
        return gone

    # ------------------------------------------------------------ checking

    def check(self) -> None:
        """Asserts every invariant."""
        assert not self.is_empty, "nothing is kept of a partition without records"
        if self.head is None:
            assert not any(self.records()), "what has no head is outdated"
            return
        assert not any(self._is_outdated(record) for record in self.records())
        assert not self.outdated.keys() & {record.key for record in self.records()}
        before, bits = self.head.settled_before, self.bits()
        assert before >= 0 or not any(self.records()), "where the channel begins is written first"
        assert all(0 < found <= ALL_SETTLED for found in bits.values())
        assert before < 0 or not is_set(before, bits), "what is settled from `settled_before` on counts as before it"


def _block(head: ChannelHead) -> int:
    return head.settled_before // BLOCK
