"""Finds the batches that must stay, though no reader gets them, since a replica that replays the log needs them.

A new replica of a compacted log has no other source for the state of its producers than the batches that are left.

Rule 1: of each producer outside of transactions the newest batch stays, emptied, and its newest fence when nothing of the
        producer follows it: a late copy is still recognised, and its sequence goes on.
Rule 2: of each txn_producer_id the marker with the highest number stays: "ended up to n" is never forgotten. Batches within
        transactions need no more than that: after the marker nothing is accepted under its name.
Rule 3: of each transaction shard the newest marker with the highest coordinator epoch stays: a deposed coordinator is refused.
Rule 4: only batches of the part that is compacted decide: what follows may be truncated again.
"""

from __future__ import annotations

from oncelog.core.batch.control import Control, Marker
from oncelog.core.batch.header import BatchHeader


class ReplayedState:
    """Sees every batch of the part that is compacted, in order; then says which must stay."""

    def __init__(self) -> None:
        self._data: dict[int, int] = {}
        self._fences: dict[int, int] = {}
        self._ended: dict[int, tuple[int, int]] = {}
        self._shards: dict[int, tuple[int, int]] = {}

    def see(self, header: BatchHeader, control: Control | None) -> None:
        """Takes the next batch of the log; `control` is the record of a control batch."""
        if isinstance(control, Marker):
            ended = (header.txn_no, header.base_offset)
            self._ended[header.txn_producer_id] = max(ended, self._ended.get(header.txn_producer_id, ended))
            spoken = (control.coordinator_epoch, header.base_offset)
            self._shards[header.txn_shard] = max(spoken, self._shards.get(header.txn_shard, spoken))
        elif control is not None:
            self._fences[header.producer_id] = header.base_offset
        elif header.producer_id >= 0 and not header.is_transactional:
            self._data[header.producer_id] = header.base_offset
            self._fences.pop(header.producer_id, None)

    def needs(self, header: BatchHeader) -> bool:
        """Returns True for a batch that must stay; only its header counts, except a control batch's record."""
        base = header.base_offset
        if header.is_control and header.is_transactional:
            return base in (self._ended[header.txn_producer_id][1], self._shards[header.txn_shard][1])
        if header.is_control:
            return self._fences.get(header.producer_id) == base
        return not header.is_transactional and self._data.get(header.producer_id) == base
