"""The request for a pass of compaction and its answers, as values that can be sent to another process.

Rule: a message is a line of JSON and, after it, bytes. `encode` and `decode` know nothing of what they carry.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple, Protocol

from oncelog.core.malformed import JsonObject
from oncelog.errors import OncelogError
from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.core.log.segment import SegmentIndex
from oncelog_partition_leader.log.compaction.replacement import Replacement


class Limits(NamedTuple):
    """The bounds of a pass: keys held in memory, their bytes, and bytes read and written per second (0 = no bound)."""

    keys_max: int
    key_bytes_max: int
    bytes_per_s: int


class Stretch(NamedTuple):
    """A segment as it is compacted: its offsets, and the bytes of its file that count."""

    base_offset: int
    next_offset: int
    size: int


class Job(NamedTuple):
    """One pass over the first segments of a log.

    `cleaned_to`: what lies below it was compacted before. `snapshots_to`: the last producer snapshot from which a replay may
    begin. `aborted`: a dump of the aborted index from the first segment to `aborted_end`. `held_everywhere`: see `PassRules`.
    """

    directory: str
    tag: int
    stretches: tuple[Stretch, ...]
    cleaned_to: int
    limits: Limits
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    snapshots_to: int
    aborted_end: int
    aborted: bytes
    held_everywhere: int = 0

    def encode(self) -> bytes:
        """Returns the message that asks for the pass."""
        return encode({"do": "look"} | self._asdict() | {"aborted": None}, self.aborted)

    @classmethod
    def decode(cls, values: JsonObject, aborted: bytes) -> Job:
        """The other way."""
        stretches = tuple(Stretch(*stretch) for stretch in values["stretches"])
        return cls(**values | {"stretches": stretches, "limits": Limits(*values["limits"]), "aborted": aborted})


class Written(NamedTuple):
    """A compacted segment on disk, synced, which does not count yet; and the tally of the pass up to its end.

    Unless `tally.changed` nothing goes from the old segments, and the new one is not needed.
    """

    replacement: Replacement
    index_dump: bytes
    tally: Tally

    def encode(self) -> bytes:
        """Returns the message."""
        tally = asdict(self.tally) | {"markers_gone": sorted(self.tally.markers_gone)}
        return encode({"is": "written", "replacement": self.replacement, "tally": tally}, self.index_dump)

    @classmethod
    def decode(cls, values: JsonObject, index: bytes) -> Written:
        """The other way."""
        tally = Tally(**values["tally"] | {"markers_gone": set(values["tally"]["markers_gone"])})
        return cls(Replacement(*values["replacement"]), index, tally)


Beat = Callable[[int], Awaitable[None]]
"""Gets, again and again, the number of the segment at which the work is. It raises what ends the pass."""


class PassWorker(Protocol):
    """Does the long part of a pass: it reads, and writes new files beside the log. It changes nothing that the log knows of."""

    async def look(self, job: Job, beat: Beat) -> int:
        """Reads the keys from `cleaned_to` on, as many as fit into memory; returns the offset that they go up to."""
        ...

    async def rewrite(self, first: int, end: int, beat: Beat) -> Written:
        """Rewrites the segments [first, end) of the job, as one. It is called for one group after the other, in order.

        Both raise `UnreadableError`, `StorageError` for the new file, `HelperGoneError`, and what `beat` raises.
        """
        ...


class UnreadableError(Exception):
    """A segment cannot be read; `cause` says why."""

    def __init__(self, cause: OncelogError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def encode(values: Mapping[str, object], blob: bytes = b"") -> bytes:
    """Returns a message."""
    return json.dumps(values).encode() + b"\n" + blob


def decode(message: bytes) -> tuple[JsonObject, bytes]:
    """Returns the values of a message, and the bytes after them."""
    line, _, blob = message.partition(b"\n")
    return json.loads(line), blob


def stretches_of(indexes: Sequence[SegmentIndex]) -> tuple[Stretch, ...]:
    """The stretches of segments with these indexes."""
    return tuple(Stretch(index.base_offset, index.next_offset, index.size) for index in indexes)
