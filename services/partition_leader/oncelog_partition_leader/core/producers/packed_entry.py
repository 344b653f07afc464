"""One producer's state outside of transactions: as an object, and as the bytes that a snapshot holds of it.

    i64 producer id | i32 epoch | i64 last seen | bool set aside | window | if set aside: i32 epoch, window
    window: i32 last sequence | i64 written | i64 end offset | u32 number of kept batches | these, 28 bytes each

Rule 1: packing keeps everything but the batches before the newest `PACKED_BATCHES`: a repeat of those is known for one by its
        sequences alone, and its offset is not (`Older`). Unpacking loses nothing. So an entry may be kept in either form.
Rule 2: an entry that a snapshot has taken is never changed: a caller that wants to change it takes a copy (`generation`).
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import Final

from oncelog.errors import CorruptMessageError
from oncelog.types import Buffer
from oncelog_partition_leader.core.producers.sequence_window import KeptBatch, SequenceWindow

PACKED_BATCHES: Final = 5
"""A process of an earlier version takes no more of them in a snapshot, and a million idle producers cost memory."""

_HEAD: Final = struct.Struct("<qiq?")
_HEAD_EPOCH: Final = struct.Struct("<i")
_COUNT: Final = struct.Struct("<I")
_COUNT_AT: Final = 20
_KEPT_FIELDS: Final = len(KeptBatch._fields)
_WINDOWS: Final = [struct.Struct("<iqqI" + "iiqIq" * count) for count in range(PACKED_BATCHES + 1)]
"""The layout of a window, by the number of its kept batches."""


class ProducerEntry:
    """One producer id. `last_seen_ms`: the log's time (largest append timestamp so far) at its newest batch.

    `set_aside`: epoch and window that the newest fence ended, so that a repeated `GetProducerState` about one of its
    batches gets the same answer. `generation`: the number of snapshots that had begun when this object was made.
    """

    __slots__ = ("generation", "last_seen_ms", "producer_epoch", "set_aside", "window")

    def __init__(self, producer_epoch: int, window: SequenceWindow, last_seen_ms: int, generation: int = 0) -> None:
        self.producer_epoch = producer_epoch
        self.window = window
        self.last_seen_ms = last_seen_ms
        self.generation = generation
        self.set_aside: tuple[int, SequenceWindow] | None = None

    def window_of(self, producer_epoch: int) -> SequenceWindow | None:
        """Returns the sequences written in an epoch; None when that epoch is too old to be kept."""
        if producer_epoch == self.producer_epoch:
            return self.window
        if self.set_aside is not None and self.set_aside[0] == producer_epoch:
            return self.set_aside[1]
        return None

    def copied(self, generation: int) -> ProducerEntry:
        """Returns a copy that may be changed. The window that was set aside is shared: it is never changed."""
        copy = ProducerEntry(self.producer_epoch, self.window.copied(), self.last_seen_ms, generation)
        copy.set_aside = self.set_aside
        return copy


# ---------------------------------------------------------------- windows


def pack_window(window: SequenceWindow) -> bytes:
    """Encodes a window."""
    kept = window.kept[-PACKED_BATCHES:]
    layout = _WINDOWS[len(kept)]
    return layout.pack(window.last_sequence, window.written, window.end_offset, len(kept), *chain.from_iterable(kept))


def unpack_window(data: Buffer, position: int) -> SequenceWindow:
    """Decodes the window that begins at `position`, of which `window_end` has found out that it is whole."""
    (count,) = _COUNT.unpack_from(data, position + _COUNT_AT)
    values = _WINDOWS[count].unpack_from(data, position)
    window = SequenceWindow(values[0], values[1], values[2])
    window.kept = [KeptBatch._make(values[at : at + _KEPT_FIELDS]) for at in range(4, len(values), _KEPT_FIELDS)]
    return window


def window_end(data: Buffer, position: int) -> int:
    """Returns the position after a window. Raises `CorruptMessageError` when it is cut off, or keeps too many batches."""
    if position + _WINDOWS[0].size > len(data):
        raise CorruptMessageError("the producer snapshot ends too early")
    (count,) = _COUNT.unpack_from(data, position + _COUNT_AT)
    if count > PACKED_BATCHES:
        raise CorruptMessageError("the producer snapshot keeps too many batches of a producer", batches=count)
    end: int = position + _WINDOWS[count].size
    if end > len(data):
        raise CorruptMessageError("the producer snapshot ends too early")
    return end


# ---------------------------------------------------------------- entries


def pack_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    """Encodes an entry."""
    aside = entry.set_aside
    head = _HEAD.pack(producer_id, entry.producer_epoch, entry.last_seen_ms, aside is not None)
    if aside is None:
        return head + pack_window(entry.window)
    return head + pack_window(entry.window) + _HEAD_EPOCH.pack(aside[0]) + pack_window(aside[1])


def unpack_entry(record: Buffer, generation: int = 0) -> ProducerEntry:
    """Decodes a whole record."""
    _, producer_epoch, last_seen_ms, has_set_aside = _HEAD.unpack_from(record)
    entry = ProducerEntry(producer_epoch, unpack_window(record, _HEAD.size), last_seen_ms, generation)
    if has_set_aside:
        at = window_end(record, _HEAD.size)
        entry.set_aside = _HEAD_EPOCH.unpack_from(record, at)[0], unpack_window(record, at + _HEAD_EPOCH.size)
    return entry


def entry_end(data: Buffer, position: int) -> int:
    """Returns the position after the record that begins here. Raises `CorruptMessageError` when it is not whole."""
    at = position + _HEAD.size
    end = window_end(data, at)
    return window_end(data, end + _HEAD_EPOCH.size) if data[at - 1] else end


def id_of(record: Buffer, position: int = 0) -> int:
    """Returns the producer id of a record."""
    producer_id: int = _HEAD.unpack_from(record, position)[0]
    return producer_id


def last_seen_of(record: Buffer) -> int:
    """Returns the time at which the producer of a record was last seen."""
    last_seen_ms: int = _HEAD.unpack_from(record)[2]
    return last_seen_ms
