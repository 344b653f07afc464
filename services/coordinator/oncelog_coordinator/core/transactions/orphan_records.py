"""The log records of a transaction shard about numbers that no transactional id has any more: orphans and removed ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict

from oncelog_coordinator.core.transactions.records import TransactionRecord, dump

ORPHAN_KEY: Final = "orphan:"
_REMOVED_KEY: Final = "orphan:0"


class OrphanForm(TypedDict):
    """The JSON of an `OrphanRecord`, and of `RemovedIds`, which alone has `removed`: a producer id and a number."""

    pid: int
    aborted: list[int]
    at_ms: NotRequired[int]
    removed: NotRequired[list[int]]


@dataclass(frozen=True, slots=True)
class OrphanRecord:
    """Numbers of a producer id that no transactional id has; recorded as aborted before a leader gets that answer.

    `closed_ms`: when the last of them was; 0 = an older version has written the record.
    """

    producer_id: int
    aborted: tuple[int, ...]
    closed_ms: int = 0

    @property
    def key(self) -> str:
        """One key per producer id."""
        return f"{ORPHAN_KEY}{self.producer_id}"

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return dump({"pid": self.producer_id, "aborted": list(self.aborted), "at_ms": self.closed_ms})

    @staticmethod
    def decode(value: OrphanForm) -> OrphanRecord:
        """Builds the record from what `parse` returned."""
        return OrphanRecord(value["pid"], tuple(value["aborted"]), value.get("at_ms", 0))


@dataclass(frozen=True, slots=True)
class RemovedIds:
    """All that is kept of removed transactional ids: upper bounds of their producer ids and of the numbers that were
    given.

    So no outcome is ever claimed for a number that a removed id may have had, and a later id never gets such a number.
    In the log it looks like an `OrphanRecord` of the producer id 0, which is never allocated: an older version reads it
    as that.
    """

    producer_id: int = 0
    txn_no: int = 0

    @property
    def key(self) -> str:
        """One key for all removed ids."""
        return _REMOVED_KEY

    def may_have_had(self, txn_no: int, producer_id: int | None = None) -> bool:
        """True when a removed id, with this producer id or any, may have had a transaction with this number."""
        return 0 < txn_no <= self.txn_no and (producer_id is None or 0 < producer_id <= self.producer_id)

    def with_id(self, record: TransactionRecord) -> RemovedIds:
        """Returns the bounds with one more removed id."""
        return RemovedIds(max(self.producer_id, record.producer_id), max(self.txn_no, record.last_given))

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return dump({"pid": 0, "aborted": [], "removed": [self.producer_id, self.txn_no]})

    @staticmethod
    def decode(value: OrphanForm) -> RemovedIds:
        """Builds the record from what `parse` returned."""
        producer_id, txn_no = value["removed"]
        return RemovedIds(int(producer_id), int(txn_no))
