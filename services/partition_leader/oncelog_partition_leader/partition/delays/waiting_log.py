"""Reads pieces of a waiting partition, which say which records wait, and records that are done.

Rule 1: a batch with the last time of all is a done batch: no leader takes one from a client (`batch_check`). It has one record,
        whose value is the offsets, 8 bytes each, little-endian. The producer id tells nothing: a transactional id that was not
        used for weeks is removed, and the next session has another producer id.
Rule 2: only the column of times is looked at, by batch. Checksums are checked: a record may have lain on a disk for a year.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from oncelog.core.batch.batch import decode_arrow, encode_rows, row_offset_array
from oncelog.core.batch.header import BatchHeader, BatchIdentity
from oncelog.core.batch.record import TIMESTAMP_MAX_MS
from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.delays.waiting_offsets import Offsets

if TYPE_CHECKING:
    import pyarrow as pa

_NONE = np.empty(0, np.int64)
_DONE_MS: Final = TIMESTAMP_MAX_MS
"""The time of a done batch."""


@dataclass(slots=True)
class Piece:
    """A piece of the log. `done`: offsets that earlier pieces, or this one, have shown to wait."""

    due_ms: Offsets = field(default_factory=lambda: _NONE)
    offsets: Offsets = field(default_factory=lambda: _NONE)
    done: list[int] = field(default_factory=list)


def parse(batches: Sequence[tuple[BatchHeader, memoryview]], begin: int) -> Piece:
    """Reads batches of the log, from offset `begin` on. Raises as `decode_arrow`."""
    times, offsets, piece = [], [], Piece()
    for header, data in batches:
        rows = decode_arrow(data, header)
        if header.base_timestamp_ms == _DONE_MS:
            piece.done += _done(rows, header)
            continue
        found = row_offset_array(rows, header)
        keep = found >= begin
        times.append((rows.column(0).to_numpy() + header.base_timestamp_ms)[keep])
        offsets.append(found[keep])
    if times:
        piece.due_ms, piece.offsets = np.concatenate(times), np.concatenate(offsets)
    return piece


def done_batch(offsets: Sequence[int], identity: BatchIdentity) -> bytes:
    """Returns the batch that says that these records were moved, or cancelled."""
    value = np.asarray(offsets, "<i8").tobytes()
    return encode_rows([None], [value], identity, timestamps_ms=[_DONE_MS])


def _done(rows: pa.RecordBatch, header: BatchHeader) -> list[int]:
    value = rows.column(2)[0].as_py()
    if value is None or len(value) % 8:
        raise CorruptMessageError("a done batch does not hold offsets", offset=header.base_offset)
    found: list[int] = np.frombuffer(value, "<i8").tolist()
    return found
