"""The possible answers of the producer state about a batch or a marker, before anything is written.

Rule: a decision only reads. A refusal is an exception of `oncelog.errors`, and leaves no trace.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from oncelog_partition_leader.core.producers.transactions import TxnSession


class Origin(enum.Enum):
    """The origin of a batch. Only a client's batch is judged; a leader has already judged the others."""

    CLIENT = 1
    REPLICATION = 2
    RECOVERY = 3


@dataclass(frozen=True, slots=True)
class Append:
    """The batch is new and may be appended."""


APPEND: Final = Append()


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already: append nothing.

    `base_offset`: of the first copy, -1 = no longer known. With `acks=all`, answer only when the high watermark
    is at or above `stable_after`, the end of the producer's newest batch (hole 10).
    """

    base_offset: int
    append_timestamp_ms: int
    stable_after: int


@dataclass(frozen=True, slots=True)
class NeedsEnrolment:
    """Ask the coordinator of `txn_shard` to enrol this partition in `name`, then decide again with it verified.

    `name` is what the caller adds to `verified`; a batch of another session does not profit from the answer.
    """

    name: TxnSession
    txn_shard: int


@dataclass(frozen=True, slots=True)
class AppendMarker:
    """Append the marker. `lost`: it commits, but this log has fewer records than expected; write it with that flag."""

    lost: bool
    records: int


@dataclass(frozen=True, slots=True)
class MarkerWritten:
    """The marker is in the log at `offset`: append nothing, answer success when the high watermark is above it."""

    offset: int


class Written(NamedTuple):
    """The answer whether a batch in doubt is in the log. `base_offset` -1: not written, or offset no longer known.

    True counts once the high watermark is at or above `stable_after`; False is final only after a fence (hole 22).
    """

    written: bool
    base_offset: int
    stable_after: int


BatchDecision = Append | Duplicate | NeedsEnrolment
MarkerDecision = AppendMarker | MarkerWritten
