"""What the queue of a led partition takes, and what it answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog.core.batch.control import Marker
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import OncelogError
from oncelog.types import Buffer
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_partition_leader.partition.append_trace import AppendTrace

ACKS_ALL = -1


class Written(NamedTuple):
    """A batch is in the log. `base_offset` -1 = written, offset no longer known."""

    base_offset: int
    append_timestamp_ms: int
    log_start_offset: int
    duplicate: bool


class Settled(NamedTuple):
    """What became of a batch in doubt. Not written is final only when the fence was appended (`fenced`)."""

    known: bool
    written: bool
    base_offset: int
    producer_epoch: int
    last_sequence: int


@dataclass(slots=True, eq=False)
class Command:
    """Something to append, with the future of whoever waits. `acks`: -1, 0 or 1."""

    done: asyncio.Future[Written]
    deadline_ms: int
    acks: int = ACKS_ALL
    answer: Written | None = None
    trace: AppendTrace | None = field(default=None, kw_only=True)
    since_s: float = 0.0
    """When the phase began in which it is, for metrics."""

    def finish(self) -> None:
        """The answer is committed, or as good as `acks` wants."""
        if not self.done.done():
            assert self.answer is not None, "an answer comes before its commit"
            self.done.set_result(self.answer)

    def fail(self, error: OncelogError) -> None:
        """Refused, or the outcome is unknown: the error says which."""
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(slots=True, eq=False)
class AppendBatch(Command):
    """A client's batch, already checked by itself."""

    header: BatchHeader = field(kw_only=True)
    data: Buffer = field(kw_only=True)
    transactional_id: str = field(default="", kw_only=True)


@dataclass(slots=True, eq=False)
class AppendMarkerCommand(Command):
    """A coordinator's marker."""

    name: TxnName = field(kw_only=True)
    txn_shard: int = field(kw_only=True)
    marker: Marker = field(kw_only=True)


@dataclass(slots=True, eq=False)
class SettleCommand(Command):
    """What became of a plain batch; `settle` appends a fence when it was not written (hole 22)."""

    producer_id: int = field(kw_only=True)
    producer_epoch: int = field(kw_only=True)
    base_sequence: int = field(kw_only=True)
    last_sequence: int = field(kw_only=True)
    settle: bool = field(kw_only=True)
    settled: Settled | None = None
