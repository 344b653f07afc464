"""Decides where a consumer reads on, when the database says how far the work is.

Rule 1: the database is right and the log's offsets are a hint. Reading goes on at the database's offset whenever another record
        was read: an earlier one would repeat work, a later one would leave some out.
Rule 2: a later record is right when reading was led to the database's offset just before and found it: offsets have gaps, where
        transactions ended. A gap costs one more fetch, because nothing else shows that no other worker was there in between.
Rule 3: the log does not reach an offset when reading was led there several times and found an earlier record. Where it found
        that offset or a later one, and the database is further on by then, another worker does the partition at this time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog.types import TopicPartition

_SEEKS_MAX: Final = 3
"""A partition may move to another worker and back between a seek and the next read, but not this often in a row."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The record's work may begin."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The record was done; the next one follows."""


@dataclass(frozen=True, slots=True)
class Seek:
    """Reading goes on at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Impossible:
    """The log does not reach the offset of the database: its topic was deleted and created again."""


class Progress:
    """Keeps what one loop over a consumer has done so far, by partition."""

    def __init__(self) -> None:
        self._sought: dict[TopicPartition, int] = {}
        self._seeks: dict[TopicPartition, int] = {}

    def met(
        self, partition: TopicPartition, offset: int, next_offset: int, is_done: bool
    ) -> Begin | Skip | Seek | Impossible:
        """Decides about a record; `next_offset` and `is_done` are what the database says."""
        sought = self._sought.pop(partition, None)
        follows = sought == next_offset and offset >= next_offset
        if offset == next_offset or follows or (is_done and offset + 1 == next_offset):
            self.reached(partition, next_offset)
            return Skip() if is_done else Begin()
        if sought is not None and offset >= sought:
            self._seeks.pop(partition, None)  # rule 3
        seeks = self._seeks.get(partition, 0) + 1
        if seeks > _SEEKS_MAX:
            return Impossible()
        self._seeks[partition] = seeks
        return Seek(next_offset)

    def sought(self, partition: TopicPartition, offset: int) -> None:
        """Reading was led to this offset. Rule 2."""
        self._sought[partition] = offset

    def reached(self, partition: TopicPartition, next_offset: int) -> None:
        """The work of all records below this offset was committed, as the database says."""
        self._seeks.pop(partition, None)
