"""Opens a log: finds out which of its files can be trusted, where it ends, and the state that follows from it.

    identity -> interrupted compaction -> recovery point -> segments -> indexes -> scan -> cut or quarantine
             -> producer state by replay

Rule 1: a checkpoint is trusted by its checksums; everything after it is scanned, bodies too: a field is used only after
        its checksum was checked.
Rule 2: a bad batch at or above the recovery point is a torn tail: the log is cut there, and nothing after it is used,
        be it whole or not (S3-S5). Below it, or missing there, it is rot: the log is quarantined, its files stay (S19).
Rule 3: the recovery point can be too low, never too high; so a tail is never taken for rot, and rot between it and the true
        synced end is cut like a torn tail, which is safe too: this replica then rejoins as one that lost its tail.
Rule 4: after an unclean stop the tail that was not synced is written again, into a new file, and nothing is appended to
        an old one: after a failed sync the kernel may show bytes that are not on the disk, and say of the next sync
        that it succeeded (S9).
Rule 5: producer state is rebuilt from a snapshot and the batches after it. Instead of a damaged one an older one is used
        (S16).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.core.batch.control import control_of
from oncelog.core.batch.header import HEADER_BYTES, check_body, partition_tag, read_header
from oncelog.errors import CorruptMessageError, OncelogError, StorageError, UnsupportedMessageFormatError
from oncelog_partition_leader.core.log.aborted_index import AbortedEntry, AbortedIndex, load_entries
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CUSTODY,
    IDENTITY,
    LEADER_EPOCHS,
    RESETTING,
    Identity,
    RecoveryPoint,
    numbered,
    read_clean,
    snapshot_offsets,
    snapshot_path,
)
from oncelog_partition_leader.log.compaction.replacement import finish_interrupted
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.segment_file import INDEX_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX, Located, Segment
from oncelog_runtime.ports import Disk

_log = logging.getLogger(__name__)
_STRAY: Final = (".tmp", ".swap", ".deleted", ".cleaned")
_COPY_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Recovered:
    """A log as `PartitionLog` takes it over. `scanned`: the last stop was not clean. `lost_tail`: its end was cut off."""

    tag: int
    segments: list[Segment]
    point: RecoveryPoint
    producers: ProducerStates
    epochs: LeaderEpochs
    aborted: AbortedIndex
    log_end_offset: int
    scanned: bool
    lost_tail: bool
    has_new_names: bool = False
    """Names in its directory may not be durable yet: the next sync is to include it."""


async def recover(disk: Disk, directory: str, config: LogConfig, now_ms: int) -> Recovered:
    """Opens or creates the log in `directory`. Raises `StorageError` (reason rot, identity, or the disk's own)."""
    identity = Identity.of_directory(directory)
    await _check_identity(disk, directory, identity)
    await finish_interrupted(disk, directory)
    recovery = _Recovery(disk, directory, config, partition_tag(identity.topic_id, identity.partition))
    await disk.run(recovery.look)
    if recovery.removed:
        await disk.sync_dir(directory)
        await disk.run(recovery.scan)
    return await recovery.finish()


async def _check_identity(disk: Disk, directory: str, identity: Identity) -> None:
    """Refuses another partition's directory (S26); writes the identity into a new one, and again when it is damaged.

    A file without a valid checksum is judged by the batches beside it, which carry the partition's tag. Raises
    `StorageError`: reason identity when all speaks for another partition, rot when nothing fits together.
    """
    path = f"{directory}/{IDENTITY}"
    await make_directory(disk, directory)
    read = Identity.decode(disk.read_file(path)) if disk.exists(path) else None
    found, proven = read if read is not None else (None, False)
    if found == identity:
        return
    if proven:
        raise StorageError("this directory belongs to another partition", reason="identity")
    has_segments = numbered(disk.list(directory), LOG_SUFFIX)
    tags = await disk.run(lambda: _first_tags(disk, directory)) if has_segments else set()
    if found is not None and tags and tags == {found.tag}:
        raise StorageError("this directory belongs to another partition", reason="identity")
    if tags - {identity.tag}:
        raise StorageError("neither the folder's name nor its identity fits its batches", reason="rot")
    if disk.exists(path):
        _log.warning("%s is damaged and written anew: its batches say whose log it is", path)
    await disk.write_atomic(path, identity.encode())


def _first_tags(disk: Disk, directory: str) -> set[int]:
    """Returns the partition tags of the first batch of each segment, as far as these are sound."""
    tags: set[int] = set()
    for base in numbered(disk.list(directory), LOG_SUFFIX):
        segment = Segment(disk, directory, base)
        try:
            data = segment.file.read(0, HEADER_BYTES)
            header = read_header(data, 0, segment.file.size)
            data = segment.file.read(0, header.batch_length)
            check_body(data, header)
            tags.add(header.partition_tag)
        except (CorruptMessageError, UnsupportedMessageFormatError):
            continue  # empty, torn or rotten: the scan finds out which
        finally:
            segment.close()
    return tags


async def make_directory(disk: Disk, directory: str) -> None:
    """Creates a directory and its parents, durably; also syncs the name of an existing one, whose creator may have crashed."""
    parts = directory.split("/")
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    missing = [path for path in paths if not disk.exists(path)]
    if missing:
        disk.make_dirs(directory)
    for path in missing or [directory]:
        await disk.sync_dir(path.rpartition("/")[0])


def replay_states(
    disk: Disk, directory: str, config: LogConfig, segments: Sequence[Segment], tag: int, end_offset: int
) -> ProducerStates:
    """Rebuilds the producer state at `end_offset`, a batch's beginning or the log end; the aborted index is not touched.

    Raises `CorruptMessageError` for a damaged batch, and `StorageError`.
    """
    states = _snapshot_at_or_below(disk, directory, config, end_offset, segments[0].base_offset)
    for _ in _replay(states, segments, tag, end_offset):
        pass
    _require_end(states, end_offset)
    return states


def _require_end(states: ProducerStates, end_offset: int) -> None:
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


async def begin_anew(
    disk: Disk, directory: str, point: RecoveryPoint, segments: Sequence[Segment], states: ProducerStates
) -> Segment:
    """Replaces a log's files by an empty log that begins at `states.end_offset`; returns its one segment.

    A crash in the middle leaves an empty log at 0 (`RESETTING`). Raises `StorageError`.
    """
    offset = states.end_offset
    await point.store(RESETTING, 0)
    for segment in segments:
        segment.remove()
    for end_offset in snapshot_offsets(disk, directory):
        disk.remove(snapshot_path(directory, end_offset))
    disk.remove(f"{directory}/{LEADER_EPOCHS}")
    fresh = Segment(disk, directory, offset)
    fresh.open_new()
    await fresh.file.sync()
    await disk.write_atomic(snapshot_path(directory, offset), await disk.run(states.snapshot))
    await disk.sync_dir(directory)
    await point.store(offset, offset)
    return fresh


def _snapshot_at_or_below(
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


def _replay(states: ProducerStates, segments: Sequence[Segment], tag: int, end_offset: int) -> Iterator[AbortedEntry]:
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


def _copy(disk: Disk, segment: Segment, position: int, path: str) -> None:
    """Appends a segment's bytes from `position` on to a new file."""
    disk.remove(path)
    target = disk.open(path, create=True)
    while data := segment.file.read(position, _COPY_BYTES):
        target.append([data])
        position += len(data)
    target.close()


class _Recovery:
    """The state of one recovery, step by step.

    Its fields are what is known of the log so far: each of its methods adds to them.
    """

    def __init__(self, disk: Disk, directory: str, config: LogConfig, tag: int) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._tag = tag
        self._point = RecoveryPoint(disk, directory)
        self._segments: list[Segment] = []
        self._epochs = LeaderEpochs()
        self._aborted = AbortedIndex()
        self._clean: tuple[int, int] | None = None
        self._covered_offset = 0
        self._first_uncovered = 0
        self._tails: dict[int, _Tail] = {}
        self._scanned: _ScannedStates | None = None
        self._synced = 0
        self._end = 0
        self._lost_tail = False
        self._is_empty = False
        """True when there is one segment without a byte: nothing on disk has to be made durable, or written again."""
        self.removed = False
        """True when files were removed: the directory is to be synced before anything is written."""

    # ------------------------------------------------------------ what there is

    def look(self) -> None:
        """Prepares, and scans too, unless the directory has to be synced before."""
        self.prepare()
        if not self.removed:
            self.scan()

    def prepare(self) -> None:
        """Reads the small files, removes stray ones, and lists the segments."""
        for name in self._disk.list(self._directory):
            if name.endswith(_STRAY):
                self._remove(name)
        known = self._point.read()
        if known and self._point.end_offset == RESETTING:
            self._wipe()
        if self._disk.exists(f"{self._directory}/{CLEAN_SHUTDOWN}"):
            self._clean = read_clean(self._disk.read_file(f"{self._directory}/{CLEAN_SHUTDOWN}"))
            self._remove(CLEAN_SHUTDOWN)
        bases = numbered(self._disk.list(self._directory), LOG_SUFFIX)
        self._segments = [Segment(self._disk, self._directory, base) for base in self._kept(bases)]
        self._check_start()
        self._is_empty = len(self._segments) == 1 and not self._segments[0].file.size

    def _kept(self, bases: list[int]) -> list[int]:
        """Finishes an interrupted retention: keeps the segments from which the log can be recovered, removes older ones."""
        snapshots = snapshot_offsets(self._disk, self._directory)
        starts = [base for base in bases if base <= self._point.log_start_offset and base in snapshots]
        first = max(starts, default=0)
        for base in bases:
            if base < first:
                Segment(self._disk, self._directory, base).remove()
                self.removed = True
        return [base for base in bases if base >= first]

    def _remove(self, name: str) -> None:
        self._disk.remove(f"{self._directory}/{name}")
        self.removed = True

    def _wipe(self) -> None:
        """Empties the log, after a replacement of the whole log that was interrupted."""
        self._lost_tail = True
        for name in self._disk.list(self._directory):
            if name not in (IDENTITY, CUSTODY):
                self._remove(name)
        self._point.end_offset = self._point.log_start_offset = 0

    def _check_start(self) -> None:
        point = self._point
        if not self._segments:
            if point.end_offset > point.log_start_offset:
                raise StorageError("synced segments are missing", reason="rot", recovery_point=point.end_offset)
            self._make_first()
        if self._segments[0].base_offset > point.log_start_offset:
            raise StorageError("the first segment is missing", reason="rot", log_start_offset=point.log_start_offset)

    def _make_first(self) -> None:
        segment = Segment(self._disk, self._directory, self._point.log_start_offset)
        segment.open_new()
        self._segments = [segment]

    # ------------------------------------------------------------ what can be trusted, and the rest

    def scan(self) -> None:
        """Loads the part that checkpoints cover, scans the rest, and finds the log end."""
        self._load_covered()
        self._load_epochs()
        self._synced = max(self._synced, self._point.end_offset, self._covered_offset)
        self._end = self._segments[0].base_offset
        if self._first_uncovered < len(self._segments):
            self._scanned = self._states_to_scan()
        for number, segment in enumerate(self._segments):
            if number and segment.base_offset != self._end:
                self._stop(number, "a segment is missing")
                return
            if number >= self._first_uncovered and not self._scan_segment(number, segment):
                return
            self._end = segment.next_offset
        if self._end < self._point.end_offset:
            raise StorageError("synced batches are missing", reason="rot", log_end_offset=self._end)

    def _load_covered(self) -> None:
        """Loads the indexes of the segments, up to the first one whose indexes do not cover its file."""
        self._covered_offset = self._segments[0].base_offset
        for number, segment in enumerate(self._segments):
            self._first_uncovered = number
            if segment.base_offset != self._covered_offset or not self._load_index(segment):
                return
            self._covered_offset = segment.next_offset
            if segment.index.size < segment.file.size:
                return
        if self._clean == (self._segments[-1].next_offset, self._segments[-1].file.size):
            self._first_uncovered = len(self._segments)

    def _load_index(self, segment: Segment) -> bool:
        """Loads offset index and aborted index together, or neither (S14, S15)."""
        try:
            data = self._disk.read_file(segment.path + INDEX_SUFFIX)
            index = SegmentIndex.load(data, segment.base_offset, segment.file.size)
            data = self._disk.read_file(segment.path + TXN_INDEX_SUFFIX)
            entries = load_entries(data, index.base_offset, index.next_offset)
        except (CorruptMessageError, StorageError):
            return False
        for entry in entries:
            self._aborted.add(entry)
        segment.index, segment.indexed_bytes = index, index.size
        return True

    def _load_epochs(self) -> None:
        """Loads the epoch table up to the covered end; without it everything is scanned (S17)."""
        path = f"{self._directory}/{LEADER_EPOCHS}"
        try:
            self._epochs = LeaderEpochs.load(self._disk.read_file(path), self._covered_offset)
            self._epochs.truncate_tail(self._covered_offset)
        except (CorruptMessageError, StorageError):
            self._epochs = LeaderEpochs(self._segments[0].base_offset)
            if self._covered_offset > self._segments[0].base_offset:
                self._forget_covered()

    def _forget_covered(self) -> None:
        for segment in self._segments:
            segment.index = SegmentIndex(segment.base_offset)
        self._aborted = AbortedIndex()
        self._first_uncovered = 0
        self._synced = max(self._synced, self._covered_offset)
        self._covered_offset = self._segments[0].base_offset

    def _scan_segment(self, number: int, segment: Segment) -> bool:
        """Takes every good batch that the index does not cover; False when the log was cut in this segment.

        Batches at or above the next segment's base were moved there by an earlier recovery, and are cut off here.
        """
        later = self._segments[number + 1 :]
        limit = later[0].base_offset if later else 1 << 63
        try:
            for batch in segment.walk(segment.index.size, segment.file.size, self._tag, bodies=True):
                if batch.header.base_offset >= limit:
                    segment.file.truncate(batch.position)
                    break
                self._take(segment, batch)
        except (CorruptMessageError, UnsupportedMessageFormatError) as error:
            self._stop(number + 1, str(error))
            return False
        return True

    def _take(self, segment: Segment, batch: Located) -> None:
        header = batch.header
        if header.base_offset != segment.next_offset:
            raise CorruptMessageError("a batch has another offset than follows", base_offset=header.base_offset)
        self._epochs.assign(header.leader_epoch, header.base_offset, header.next_offset)
        segment.index.add(header, self._config.index_interval_bytes)
        if header.next_offset > self._synced:
            tail = self._tails.get(segment.base_offset)
            if tail is None:
                index = SegmentIndex(header.base_offset)
                tail = self._tails[segment.base_offset] = _Tail(batch.position, index)
            tail.index.add(header, self._config.index_interval_bytes)
        if self._scanned is not None:
            self._scanned.apply(batch)

    def _states_to_scan(self) -> _ScannedStates | None:
        """Returns the producer state at the covered end, to which the scan adds what it reads; None = it is replayed later."""
        states = self._snapshot(self._covered_offset)
        return _ScannedStates(states) if states.end_offset == self._covered_offset else None

    def _stop(self, keep: int, why: str) -> None:
        """Ends the log with segment `keep - 1`: a torn tail is cut off there, rot is refused."""
        last = self._segments[keep - 1]
        self._end = last.next_offset
        if self._end < self._synced:
            raise StorageError("a synced part of the log is damaged", reason="rot", offset=self._end, cause=why)
        self._lost_tail = True
        for later in reversed(self._segments[keep:]):
            later.remove()
        del self._segments[keep:]
        if last.file.size > last.index.size:
            last.file.truncate(last.index.size)
        for end_offset in snapshot_offsets(self._disk, self._directory):
            if end_offset > self._end:
                self._disk.remove(snapshot_path(self._directory, end_offset))

    # ------------------------------------------------------------ the state that follows

    async def finish(self) -> Recovered:
        """Replays the producer state, and makes the recovered log durable."""
        try:
            producers = self._producers() if self._is_empty else await self._disk.run(self._producers)
        except OncelogError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError("the log cannot be replayed", reason="rot", cause=error.message) from error
        scanned = self._first_uncovered < len(self._segments)
        if not self._is_empty:
            if scanned:
                await self._rewrite_tail()
            await self._disk.sync_dir(self._directory)
        self._epochs.truncate_tail(self._end)
        self._epochs.truncate_head(self._point.log_start_offset)
        if not self._point.is_stored(self._end, self._point.log_start_offset):
            await self._point.store(self._end, self._point.log_start_offset)
        return Recovered(
            self._tag,
            self._segments,
            self._point,
            producers,
            self._epochs,
            self._aborted,
            self._end,
            scanned,
            self._lost_tail,
            has_new_names=self._is_empty,
        )

    async def _rewrite_tail(self) -> None:
        """Makes the tail durable in new files; the last segment is a new file afterwards."""
        for segment in self._segments[self._first_uncovered :]:
            tail = self._tails.get(segment.base_offset)
            if tail is not None:
                await self._move_tail(segment, tail)
            await segment.file.sync()
        last = self._segments[-1]
        if not last.index.size:
            last.remove()
            self._segments.pop()
        if not last.index.size or self._end <= self._synced:
            fresh = Segment(self._disk, self._directory, self._end)
            fresh.open_new()
            self._segments.append(fresh)

    async def _move_tail(self, segment: Segment, tail: _Tail) -> None:
        """Copies the tail of a segment into a file of its own, and only then cuts it off."""
        position, interval_bytes = tail.position, self._config.index_interval_bytes
        moved = Segment(self._disk, self._directory, tail.index.base_offset)
        swap = f"{moved.path}{LOG_SUFFIX}.swap"
        await self._disk.run(lambda: _copy(self._disk, segment, position, swap))
        rest = await self._disk.run(lambda: segment.index_until(position, self._tag, interval_bytes))
        file = self._disk.open(swap)
        await file.sync()
        file.close()
        if position == 0:
            segment.remove((INDEX_SUFFIX, TXN_INDEX_SUFFIX))
            segment.close()
        self._disk.rename(swap, f"{moved.path}{LOG_SUFFIX}")
        await self._disk.sync_dir(self._directory)
        if position:
            segment.file.truncate(position)
            segment.index, moved.index = rest, tail.index
            self._segments.insert(self._segments.index(segment) + 1, moved)

    def _producers(self) -> ProducerStates:
        scanned = self._scanned
        if (
            scanned is not None
            and scanned.states.end_offset == self._end
            and not self._has_snapshot_above(scanned.began)
        ):
            for entry in scanned.aborted:
                self._aborted.add(entry)
            return scanned.states
        limit = min(self._covered_offset, self._end)
        states = self._snapshot(limit)
        began = states.end_offset
        for entry in _replay(states, self._segments, self._tag, self._end):
            if entry.marker_offset >= limit:
                self._aborted.add(entry)
        _require_end(states, self._end)
        if self._has_snapshot_above(began):
            # A newer snapshot knows of batches that compaction has removed from what was replayed.
            return replay_states(self._disk, self._directory, self._config, self._segments, self._tag, self._end)
        return states

    def _snapshot(self, offset: int) -> ProducerStates:
        first = self._segments[0].base_offset
        return _snapshot_at_or_below(self._disk, self._directory, self._config, offset, first)

    def _has_snapshot_above(self, offset: int) -> bool:
        return any(offset < one <= self._end for one in snapshot_offsets(self._disk, self._directory))


@dataclass(slots=True)
class _Tail:
    """The part of a segment that may not be on disk: where it begins in the file, and its index as a segment of its own."""

    position: int
    index: SegmentIndex


class _ScannedStates:
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


async def set_aside(disk: Disk, directory: str) -> str:
    """Moves a quarantined log out of the way, so that a new one can be opened there; returns its new path."""
    number = 0
    while disk.exists(f"{directory}.quarantined-{number}"):
        number += 1
    kept = f"{directory}.quarantined-{number}"
    disk.rename(directory, kept)
    await disk.sync_dir(directory.rpartition("/")[0])
    return kept
