"""One pass of compaction over a log: has a worker read and rewrite its segments, and the log take over what is written.

Rule 1: the reading and writing is done by a `PassWorker`, in brokers by another process. The log goes on beside it. Whenever
        the worker says how far it is, and under the log's lock before each replacement, the pass looks whether the log has
        the rest of its segments. If not, it ends, and nothing of it is left.
Rule 2: segments that were deleted by retention behind the worker are no reason to end: what lies above them is compacted.
Rule 3: a segment from which nothing goes is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from oncelog.errors import OncelogError
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.log.compaction.pass_job import Job, PassWorker, UnreadableError, Written
from oncelog_partition_leader.log.compaction.replacement import remove_cleaned
from oncelog_partition_leader.log.segment_file import Segment
from oncelog_runtime.ports import Disk


class AbandonedError(Exception):
    """The log was changed beside the pass, which ends without a trace."""


class PassHost(Protocol):
    """The log that is compacted."""

    def has(self, segments: Sequence[Segment]) -> bool:
        """Returns True while these are neighbours in the log, and nothing was cut off from it."""
        ...

    def has_deleted(self, segments: Sequence[Segment]) -> bool:
        """Returns True when all of these were deleted from the beginning of the log, and nothing was cut off from it."""
        ...

    def unreadable(self, error: OncelogError) -> OncelogError:
        """Fails the log, of which a part cannot be read; returns the error to raise."""
        ...

    async def replace(self, group: Sequence[Segment], written: Written) -> None:
        """Replaces neighbours. Raises `AbandonedError` when they are not in the log any more, and `StorageError`."""
        ...


class CompactionPass:
    """One pass over `segments`, which are the log's, from its first one on; `job` names the same ones."""

    def __init__(self, host: PassHost, disk: Disk, worker: PassWorker, segments: Sequence[Segment], job: Job) -> None:
        self._host = host
        self._disk = disk
        self._worker = worker
        self._segments = segments
        self._job = job

    async def run(self, groups: Sequence[tuple[int, int]]) -> tuple[int, Tally]:
        """Compacts each group; returns how far the keys went, and what was done. Raises `AbandonedError`, `StorageError`."""
        await self._remove_cleaned()
        bound = await self._look()
        tally = Tally()
        for first, end in groups:
            if not self._host.has_deleted(self._segments[first:end]):
                tally = await self._rewrite(first, end)
        return bound, tally

    async def _look(self) -> int:
        at = 0

        async def beat(number: int) -> None:
            nonlocal at
            at = number
            self._need(self._segments[at:])

        try:
            return await self._worker.look(self._job, beat)
        except UnreadableError as error:
            self._need(self._segments[at:])
            raise self._host.unreadable(error.cause) from error

    async def _rewrite(self, first: int, end: int) -> Tally:
        group = self._segments[first:end]

        async def beat(_number: int) -> None:
            self._need(group)

        try:
            written = await self._worker.rewrite(first, end, beat)
            if written.tally.changed:
                await self._host.replace(group, written)
        except UnreadableError as error:
            self._need(group)
            raise self._host.unreadable(error.cause) from error
        finally:
            await self._remove_cleaned()
        return written.tally

    async def _remove_cleaned(self) -> None:
        """Removes what was written in vain; in a thread, since the removal of a large file takes long."""
        await self._disk.run(partial(remove_cleaned, self._disk, self._job.directory))

    def _need(self, segments: Sequence[Segment]) -> None:
        if not self._host.has(segments):
            raise AbandonedError
