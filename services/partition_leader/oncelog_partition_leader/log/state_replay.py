"""Producer state from a snapshot and the batches after it.

Rule 1: a snapshot is used when it is sound and of the offset that names it; instead of a damaged one an older one is used
        (S16).
Rule 2: a replay comes exactly to the offset that was asked for, or it is refused: the log is rotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oncelog.core.batch.control import control_of
from oncelog.errors import CorruptMessageError, OncelogError, StorageError
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import snapshot_offsets, snapshot_path
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.segment_file import Located, Segment
from oncelog_runtime.ports import Disk


def replay_states(
    disk: Disk, directory: str, config: LogConfig, segments: Sequence[Segment], tag: int, end_offset: int
) -> ProducerStates:
    """Rebuilds the producer state at `end_offset`, a batch's beginning or the log end; the aborted index is not touched.

    Raises `CorruptMessageError` for a damaged batch, and `StorageError`.
    """
    states = snapshot_at_or_below(disk, directory, config, end_offset, segments[0].base_offset)
    for _ in replay(states, segments, tag, end_offset):
        pass
    require_end(states, end_offset)
    return states


def require_end(states: ProducerStates, end_offset: int) -> None:
    """Raises `StorageError` (rot) when a replay did not come to its end: the snapshot before it ends within a batch."""
    if states.end_offset != end_offset:
        raise StorageError(
            "the producer snapshot does not end where a batch begins", reason="rot", end_offset=states.end_offset
        )


def states_from(snapshot: bytes | None, offset: int, config: LogConfig) -> ProducerStates:
    """Returns the producer state of a log that begins at `offset`: the leader's snapshot, or an empty one.

    Raises `CorruptMessageError` for a snapshot that is damaged or of a later offset.
    """
    if snapshot is None:
        states = ProducerStates(config.producer_id_expiration_ms)
    else:
        states = ProducerStates.restore(snapshot, config.producer_id_expiration_ms)
        if states.end_offset > offset:
            raise CorruptMessageError("the snapshot is of a later offset", end_offset=states.end_offset)
    states.end_offset = offset
    return states


def snapshot_at_or_below(
    disk: Disk, directory: str, config: LogConfig, offset: int, first_offset: int
) -> ProducerStates:
    """Loads the newest sound snapshot; without one, an empty state, if the log still has its first batch.

    Raises `StorageError` (rot): without a snapshot, a log that lost its head does not show what its producers wrote.
    """
    for end_offset in reversed(snapshot_offsets(disk, directory)):
        if not first_offset <= end_offset <= offset:
            continue
        try:
            states = ProducerStates.restore(
                disk.read_file(snapshot_path(directory, end_offset)), config.producer_id_expiration_ms
            )
            if states.end_offset == end_offset:
                return states
        except CorruptMessageError:
            continue
    if first_offset > 0:
        raise StorageError("the producer state of this log is lost", reason="rot")
    return ProducerStates(config.producer_id_expiration_ms)


def replay(states: ProducerStates, segments: Sequence[Segment], tag: int, end_offset: int) -> Iterator[AbortedEntry]:
    """Applies every batch from the state's end to `end_offset`; yields the entries for the aborted index.

    Raises `CorruptMessageError` for a batch that does not begin where the one before it ended.
    """
    for segment in segments:
        if segment.next_offset <= states.end_offset:
            continue
        for batch in _from_offset(segment, states.end_offset, tag):
            header = batch.header
            if header.base_offset != states.end_offset:
                if states.end_offset >= end_offset:
                    return
                raise CorruptMessageError("a batch has another offset than follows", base_offset=header.base_offset)
            if header.base_offset >= end_offset:
                return
            control = None
            if header.is_control:
                control = control_of(memoryview(batch.data)[batch.start : batch.start + header.batch_length])
            entry = states.apply(header, header.base_offset, control)
            if entry is not None:
                yield entry


def _from_offset(segment: Segment, offset: int, tag: int) -> Iterable[Located]:
    _, position = segment.index.position_below(offset)
    for batch in segment.walk(position, segment.index.size, tag, bodies=True):
        if batch.header.base_offset >= offset:
            yield batch


class ScannedStates:
    """Producer state to which a scan applies what it reads, so that the same batches are not read twice."""

    def __init__(self, states: ProducerStates) -> None:
        self.began = states.end_offset
        self.states = states
        self.aborted: list[AbortedEntry] = []

    def apply(self, batch: Located) -> None:
        """Applies the next batch of the scan. One that cannot be applied ends that: the replay finds out why, and says so."""
        header, control = batch.header, None
        if header.base_offset != self.states.end_offset:
            return
        if header.is_control:
            try:
                control = control_of(memoryview(batch.data)[batch.start : batch.start + header.batch_length])
            except OncelogError:
                return
        entry = self.states.apply(header, header.base_offset, control)
        if entry is not None:
            self.aborted.append(entry)
