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
Rule 5: producer state is rebuilt from a snapshot and the batches after it (`state_replay`).
"""

from __future__ import annotations

from typing import Final

from oncelog.core.batch.header import partition_tag
from oncelog.errors import CorruptMessageError, OncelogError, StorageError, UnsupportedMessageFormatError
from oncelog_partition_leader.core.log.aborted_index import AbortedIndex
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
from oncelog_partition_leader.log.recovery.log_folder import check_identity
from oncelog_partition_leader.log.recovery.segment_recovery import SegmentScan, load_index, move_tail
from oncelog_partition_leader.log.segment_file import LOG_SUFFIX, Segment
from oncelog_partition_leader.log.segments import Recovered
from oncelog_partition_leader.log.state_replay import (
    ScannedStates,
    replay,
    replay_states,
    require_end,
    snapshot_at_or_below,
)
from oncelog_runtime.ports import Disk

_STRAY: Final = (".tmp", ".swap", ".deleted", ".cleaned")
_NO_LIMIT: Final = 1 << 63


async def recover(disk: Disk, directory: str, config: LogConfig) -> Recovered:
    """Opens or creates the log in `directory`. Raises `StorageError` (reason rot, identity, or the disk's own)."""
    identity = Identity.of_directory(directory)
    await check_identity(disk, directory, identity)
    await finish_interrupted(disk, directory)
    recovery = _Recovery(disk, directory, config, partition_tag(identity.topic_id, identity.partition))
    await disk.run(recovery.look)
    if recovery.removed:
        await disk.sync_dir(directory)
        await disk.run(recovery.scan)
    return await recovery.finish()


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
        self._scans: list[SegmentScan] = []
        """One per segment that was scanned, in the order of the segments."""
        self._scanned: ScannedStates | None = None
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
            if segment.base_offset != self._covered_offset or not load_index(self._disk, segment, self._aborted):
                return
            self._covered_offset = segment.next_offset
            if segment.index.size < segment.file.size:
                return
        if self._clean == (self._segments[-1].next_offset, self._segments[-1].file.size):
            self._first_uncovered = len(self._segments)

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
        """Takes every good batch that the index does not cover; False when the log was cut in this segment."""
        interval_bytes = self._config.index_interval_bytes
        scan = SegmentScan(segment, self._tag, interval_bytes, self._synced, self._epochs, self._scanned)
        self._scans.append(scan)
        later = self._segments[number + 1 :]
        try:
            scan.run(later[0].base_offset if later else _NO_LIMIT)
        except (CorruptMessageError, UnsupportedMessageFormatError) as error:
            self._stop(number + 1, str(error))
            return False
        return True

    def _states_to_scan(self) -> ScannedStates | None:
        """Returns the producer state at the covered end, to which the scan adds what it reads; None = it is replayed later."""
        states = self._snapshot(self._covered_offset)
        return ScannedStates(states) if states.end_offset == self._covered_offset else None

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
        scanned = self._first_uncovered < len(self._segments)
        try:
            producers = self._producers() if self._is_empty else await self._disk.run(self._producers)
            if scanned and not self._is_empty:
                await self._rewrite_tail()  # it reads a part of what lies before the tail
        except OncelogError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError("the log cannot be replayed", reason="rot", cause=error.message) from error
        if not self._is_empty:
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
        for scan in self._scans:
            tail = scan.tail
            if tail is not None:
                moved = await move_tail(self._disk, self._directory, scan, tail)
                if moved is not None:
                    self._segments.insert(self._segments.index(scan.segment) + 1, moved)
            await scan.segment.file.sync()
        last = self._segments[-1]
        if not last.index.size:
            last.remove()
            self._segments.pop()
        if not last.index.size or self._end <= self._synced:
            fresh = Segment(self._disk, self._directory, self._end)
            fresh.open_new()
            self._segments.append(fresh)

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
        for entry in replay(states, self._segments, self._tag, self._end):
            if entry.marker_offset >= limit:
                self._aborted.add(entry)
        require_end(states, self._end)
        if self._has_snapshot_above(began):
            # A newer snapshot knows of batches that compaction has removed from what was replayed.
            return replay_states(self._disk, self._directory, self._config, self._segments, self._tag, self._end)
        return states

    def _snapshot(self, offset: int) -> ProducerStates:
        first = self._segments[0].base_offset
        return snapshot_at_or_below(self._disk, self._directory, self._config, offset, first)

    def _has_snapshot_above(self, offset: int) -> bool:
        return any(offset < one <= self._end for one in snapshot_offsets(self._disk, self._directory))
