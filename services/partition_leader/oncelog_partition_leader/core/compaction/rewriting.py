"""Decides what each batch of a log becomes when the log is compacted, and makes the bytes of the new segments.

Theory of operation: `take` gets whole batches in the order of the log, many at a time, and returns the batches of the new
segment; `end` returns what is left at the segment's end. Keys of many batches are looked up at once.

Rule 1: every offset stays where it is, and so do the offsets that a batch covers, its producer, sequences, transaction and
        leader epoch. What is removed leaves a gap batch of 120 bytes for all neighbours of one leader epoch, so a log has no
        gap between its batches, and a missing batch is still seen as a loss.
Rule 2: a record stays unless a newer one of its key is in `KeyOffsets`. Records without a key stay.
Rule 3: data of an aborted transaction, and of writers that did not win, goes. Data of a transaction that lost records stays as
        it is, and takes part in nothing.
Rule 4: a tombstone, and a marker all of whose data is gone, gets a delete horizon in the first pass that cleans it, and goes in
        a pass after that time. Nothing at or above `bound` gets a horizon or goes by it: older values of its key may be left.
        Nothing at or above `held_everywhere` goes by it either: a replica whose log ends below a tombstone or a marker has
        what it ends, a value or an open transaction, and must still be sent it.
Rule 5: what a replay needs stays (`ReplayedState`), and so does the marker of a transaction that is open in a producer
        snapshot from which a replay may begin: without it the transaction would stay open.
Rule 6: a marker never goes in the pass that removes the last of its data: a reader that has that data in hand still finds
        the transaction in the aborted index.
Rule 7: a batch of which nothing has to change stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from oncelog.core.batch.batch import decode_arrow, encode_compacted, row_offset_array
from oncelog.core.batch.header import (
    CODEC_NONE,
    COMPACTED,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_SHARD,
    BatchHeader,
    read_header,
    rewritten,
)
from oncelog.errors import OncelogError
from oncelog.types import Buffer
from oncelog_partition_leader.core.compaction.key_offsets import KeyOffsets
from oncelog_partition_leader.core.compaction.plan import NEVER_MS
from oncelog_partition_leader.core.compaction.replayed_state import ReplayedState
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.core.log.segment import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_HORIZON: Final = -1
_NO_TIME: Final = -1


class Batch(NamedTuple):
    """A whole batch of the log, checked; `data` is exactly it."""

    header: BatchHeader
    data: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRules:
    """The fixed part of one pass. `bound`: the end of the part whose keys are in the `KeyOffsets`.

    `held_everywhere`: the end of the part that every assigned replica holds.
    """

    now_ms: int
    delete_retention_ms: int
    bound: int
    held_everywhere: int = 0


@dataclass(slots=True)
class Tally:
    """The result of a pass so far."""

    records_seen: int = 0
    records_kept: int = 0
    bytes_seen: int = 0
    bytes_kept: int = 0
    changed: bool = False
    horizon_ms: int = NEVER_MS
    """When the first of the tombstones and markers that were kept for their time may go."""
    held_back_ms: int = NEVER_MS
    """The same for those that not every replica holds yet."""
    held_back_to: int = 0
    """The end of the last one of them."""
    markers_gone: set[int] = field(default_factory=set)


TxnNames = AbstractSet[tuple[int, int]]
"""(txn_producer_id, txn_no)"""


class Skipped:
    """The aborted transactions of a log, by name."""

    def __init__(self, entries: Iterable[AbortedEntry]) -> None:
        self._by_name: dict[tuple[int, int], list[AbortedEntry]] = {}
        for entry in entries:
            self._by_name.setdefault((entry.txn_producer_id, entry.txn_no), []).append(entry)

    def _entries(self, header: BatchHeader) -> list[AbortedEntry]:
        if not header.is_transactional:
            return []
        return self._by_name.get((header.txn_producer_id, header.txn_no), [])

    def skips(self, header: BatchHeader) -> bool:
        """Returns True for a data batch that no read_committed reader gets."""
        name = (header.producer_id, header.txn_producer_id, header.txn_no)
        return any(entry.skips(*name) for entry in self._entries(header))

    def is_lost(self, header: BatchHeader) -> bool:
        """Returns True for a data batch of a committed transaction that lost records here."""
        return any(entry.lost for entry in self._entries(header))


def add_keys(batches: Sequence[Batch], skipped: Skipped, keys: KeyOffsets) -> None:
    """Adds the keys of all data that a reader gets. Raises as `decode_arrow`, but not for other payloads than records."""
    columns, offsets = [], []
    for header, data in batches:
        if header.is_control or not header.record_count or skipped.skips(header):
            continue
        rows = _decoded(header, data)
        if rows is not None:
            columns.append(rows.column(1))
            offsets.append(row_offset_array(rows, header))
    if columns:
        keys.add(pa.concat_arrays(columns), np.concatenate(offsets))


def _decoded(header: BatchHeader, data: memoryview) -> pa.RecordBatch | None:
    """The records of a batch; None for a payload that is not keys and values, which stays as it is."""
    try:
        return decode_arrow(data, header, check_crc=False)
    except OncelogError:
        return None


class Rewriter:
    """Rewrites the batches of a log, from its first to its last segment that is compacted."""

    def __init__(
        self, rules: PassRules, keys: KeyOffsets, skipped: Skipped, state: ReplayedState, open_names: TxnNames
    ) -> None:
        self._rules = rules
        self._keys = keys
        self._skipped = skipped
        self._state = state
        self._open_names = open_names
        self._with_data: set[tuple[int, int]] = set()
        self._had_data: set[tuple[int, int]] = set()
        self._gap: BatchHeader | None = None
        self._out: list[Buffer] = []
        self.tally = Tally()

    def take(self, batches: Sequence[Batch]) -> list[Buffer]:
        """Returns the batches that stay of the next ones of the log."""
        decoded = self._decoded(batches)
        for batch in batches:
            self.tally.bytes_seen += len(batch.data)
            self._judge(batch, decoded.get(batch.header.base_offset))
        return self._taken()

    def end(self) -> list[Buffer]:
        """Returns the rest at the end of a segment."""
        self._flush_gap()
        return self._taken()

    def _taken(self) -> list[Buffer]:
        out, self._out = self._out, []
        self.tally.bytes_kept += sum(map(len, out))
        return out

    # ------------------------------------------------------------ which records are the last of their keys

    def _decoded(self, batches: Sequence[Batch]) -> dict[int, tuple[pa.RecordBatch, NDArray[np.bool_]]]:
        """The records of each batch with data, and which of them are not replaced by newer ones, by base offset."""
        found: list[tuple[BatchHeader, pa.RecordBatch]] = []
        for header, data in batches:
            if not header.is_control and header.record_count and not self._skipped.skips(header):
                rows = _decoded(header, data)
                if rows is not None:
                    found.append((header, rows))
        if not found:
            return {}
        offsets = np.concatenate([row_offset_array(rows, header) for header, rows in found])
        newest = self._keys.newest(pa.concat_arrays([rows.column(1) for _, rows in found]))
        kept, result, at = newest <= offsets, {}, 0
        for header, rows in found:
            result[header.base_offset] = rows, kept[at : at + rows.num_rows]
            at += rows.num_rows
        return result

    # ------------------------------------------------------------ one batch

    def _judge(self, batch: Batch, decoded: tuple[pa.RecordBatch, NDArray[np.bool_]] | None) -> None:
        header = batch.header
        if header.is_control:
            self._control(batch)
        elif not header.record_count:
            self._emptied(batch)
        elif decoded is not None:
            self.tally.records_seen += header.record_count
            self._data(batch, *decoded)
        elif self._skipped.skips(header) and not self._skipped.is_lost(header):
            self.tally.records_seen += header.record_count
            self._remove(header)
        else:
            self._keep_data(batch)

    def _emptied(self, batch: Batch) -> None:
        if self._state.needs(batch.header):
            self._keep(batch.data)
        else:
            self._remove(batch.header, is_news=batch.header.producer_id != NO_PRODUCER_ID)

    def _control(self, batch: Batch) -> None:
        header = batch.header
        if not header.is_transactional:
            if self._state.needs(header):
                self._keep(batch.data)
            else:
                self._remove(header)
            return
        name = (header.txn_producer_id, header.txn_no)
        has_data, had_data = name in self._with_data, name in self._had_data
        self._with_data.discard(name)
        self._had_data.discard(name)
        if has_data or header.next_offset > self._rules.bound:
            self._keep(batch.data)
        elif header.delete_horizon_ms == NO_HORIZON:
            self._keep_until_horizon(header, batch.data)
        elif not had_data and self._may_go(header) and not self._state.needs(header) and name not in self._open_names:
            self.tally.markers_gone.add(header.base_offset)
            self._remove(header)
        else:
            self._note_horizon(header)
            self._keep(batch.data)

    def _data(self, batch: Batch, rows: pa.RecordBatch, kept: NDArray[np.bool_]) -> None:
        header = batch.header
        in_bound = header.next_offset <= self._rules.bound
        tombstones = _tombstones(rows)
        if tombstones is not None and in_bound and self._may_go(header):
            kept = kept & ~tombstones
        count = int(np.count_nonzero(kept))
        if not count:
            self._remove_records(header)
            return
        waits = in_bound and tombstones is not None and bool((kept & tombstones).any())
        if waits and header.delete_horizon_ms == NO_HORIZON:
            header = self._with_horizon(header)
        elif waits:
            self._note_horizon(header)
        if count < rows.num_rows:
            self._keep_some(header, rows, kept, count)
        else:
            self._keep_data(batch, header)

    def _keep_some(self, header: BatchHeader, rows: pa.RecordBatch, kept: NDArray[np.bool_], count: int) -> None:
        self._note_data(header, count)
        self.tally.changed = True
        deltas = (row_offset_array(rows, header)[kept] - header.base_offset).astype(np.int32)
        if header.is_compacted:
            rows = rows.drop_columns(["offset_delta"])
        self._keep(encode_compacted(rows.filter(pa.array(kept)), pa.array(deltas), header))

    def _keep_data(self, batch: Batch, header: BatchHeader | None = None) -> None:
        """Keeps all records of a batch, perhaps with a new horizon."""
        header = header or batch.header
        self._note_data(header, header.record_count)
        if header is batch.header:
            self._keep(batch.data)
        else:
            self.tally.changed = True
            self._keep(rewritten(header, batch.data[HEADER_BYTES:]))

    def _note_data(self, header: BatchHeader, count: int) -> None:
        self.tally.records_kept += count
        if header.is_transactional:
            self._with_data.add((header.txn_producer_id, header.txn_no))

    def _remove_records(self, header: BatchHeader) -> None:
        """Removes all records of a batch; the batch stays, empty, where a replay needs it."""
        if self._state.needs(header):
            self.tally.changed = True
            self._keep(rewritten(_emptied(header), b""))
        else:
            self._remove(header)

    # ------------------------------------------------------------ horizons

    def _may_go(self, header: BatchHeader) -> bool:
        is_past = header.delete_horizon_ms != NO_HORIZON and header.delete_horizon_ms <= self._rules.now_ms
        return is_past and self._is_held_everywhere(header)

    def _is_held_everywhere(self, header: BatchHeader) -> bool:
        return header.next_offset <= self._rules.held_everywhere

    def _with_horizon(self, header: BatchHeader) -> BatchHeader:
        header = header._replace(delete_horizon_ms=self._rules.now_ms + self._rules.delete_retention_ms)
        self._note_horizon(header)
        return header

    def _keep_until_horizon(self, header: BatchHeader, data: memoryview) -> None:
        self.tally.changed = True
        self._keep(rewritten(self._with_horizon(header), data[HEADER_BYTES:]))

    def _note_horizon(self, header: BatchHeader) -> None:
        """Notes when a next pass is due; what is kept beyond its horizon, because a replay needs it, asks for none."""
        tally, horizon_ms = self.tally, header.delete_horizon_ms
        if not self._is_held_everywhere(header):
            tally.held_back_ms = min(tally.held_back_ms, horizon_ms)
            tally.held_back_to = max(tally.held_back_to, header.next_offset)
        elif horizon_ms >= self._rules.now_ms:
            tally.horizon_ms = min(tally.horizon_ms, horizon_ms)

    # ------------------------------------------------------------ the bytes

    def _keep(self, data: Buffer) -> None:
        self._flush_gap()
        self._out.append(data)

    def _remove(self, header: BatchHeader, *, is_news: bool = True) -> None:
        self.tally.changed = self.tally.changed or is_news
        if header.is_transactional and not header.is_control:
            self._had_data.add((header.txn_producer_id, header.txn_no))
        gap = self._gap
        if gap is not None and (
            gap.leader_epoch != header.leader_epoch or header.last_offset - gap.base_offset > RELATIVE_OFFSET_MAX
        ):
            self._flush_gap()
            gap = None
        if gap is None:
            self._gap = _gap_like(header)
            return
        self.tally.changed = True
        self._gap = gap._replace(
            last_offset_delta=header.last_offset - gap.base_offset, append_timestamp_ms=header.append_timestamp_ms
        )

    def _flush_gap(self) -> None:
        if self._gap is not None:
            self._out.append(rewritten(self._gap, b""))
            self._gap = None


def from_offset_on(data: Buffer, offset: int) -> Buffer:
    """Cuts the first of these batches off below `offset`, when it is a gap; else returns them as they are."""
    header = read_header(data)
    if header.base_offset >= offset or not is_gap(header):
        return data
    return b"".join((from_offset(header, offset), memoryview(data)[header.batch_length :]))


def from_offset(header: BatchHeader, offset: int) -> bytes:
    """The part of a gap batch from `offset` on, for a follower whose log ends within it."""
    assert is_gap(header), "the offsets of a batch with content are never divided"
    assert header.base_offset < offset <= header.last_offset, "the offset lies within the gap"
    return rewritten(header._replace(base_offset=offset, last_offset_delta=header.last_offset - offset), b"")


def is_gap(header: BatchHeader) -> bool:
    """Returns True for a batch that stands for removed offsets, and for nothing else."""
    return header.is_compacted and not header.record_count and header.producer_id == NO_PRODUCER_ID


def _emptied(header: BatchHeader) -> BatchHeader:
    return header._replace(
        delete_horizon_ms=NO_HORIZON,
        codec=CODEC_NONE,
        attributes=(header.attributes | COMPACTED) & ~LOG_APPEND_TIME,
        record_count=0,
        base_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
        uncompressed_length=0,
    )


def _gap_like(header: BatchHeader) -> BatchHeader:
    """The gap of one batch."""
    return _emptied(header)._replace(
        attributes=COMPACTED,
        schema_id=0,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        txn_producer_id=NO_PRODUCER_ID,
        txn_no=0,
        txn_shard=NO_SHARD,
    )


def _tombstones(rows: pa.RecordBatch) -> NDArray[np.bool_] | None:
    """Which records are tombstones: a key and a null value. None when there are none."""
    keys, values = rows.column(1), rows.column(2)
    if not values.null_count:
        return None
    found = ~values.is_valid().to_numpy(zero_copy_only=False)
    if keys.null_count:
        found &= keys.is_valid().to_numpy(zero_copy_only=False)
    return found if found.any() else None
