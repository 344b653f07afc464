"""The commands in the queue of a led partition, and their answers.

Rule: nothing in `core` answers a command. It returns an effect (`effects.py`), and the partition calls `finish` or `fail`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from oncelog.core.batch.control import Marker
from oncelog.core.batch.header import BatchHeader
from oncelog.errors import OncelogError
from oncelog.types import Buffer
from oncelog_partition_leader.core.producers.transactions import TxnName

ACKS_ALL = -1


class Written(NamedTuple):
    """The answer that a batch is in the log. `base_offset` -1 = written, offset no longer known."""

    base_offset: int
    append_timestamp_ms: int
    log_start_offset: int
    duplicate: bool


class Settled(NamedTuple):
    """The outcome of a batch in doubt. "Not written" is final only when the fence is committed, which `settle` asks for."""

    known: bool
    written: bool
    base_offset: int
    producer_epoch: int
    last_sequence: int


class Reply(Protocol):
    """The future that a handler awaits, as far as it is used here."""

    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def set_result(self, result: Written, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...
    def add_done_callback(self, fn: Callable[[Self], object], /) -> None: ...


@dataclass(slots=True, eq=False)
class Command:
    """A request to append, with the future that its handler awaits. `acks`: -1, 0 or 1."""

    done: Reply
    deadline_ms: int
    acks: int = ACKS_ALL
    answer: Written | None = None
    since_s: float = 0.0
    """Start of the command's present phase (queue, replication), for metrics."""

    @property
    def keys(self) -> tuple[int, ...]:
        """The producers and transactions whose state decides about this command, by producer id."""
        raise NotImplementedError

    def finish(self) -> None:
        """Answers the command: its batch is committed, or as safe as `acks` asks for."""
        if not self.done.done():
            assert self.answer is not None, "an answer comes before its commit"
            self.done.set_result(self.answer)

    def fail(self, error: OncelogError) -> None:
        """Fails the command: it is refused, or its outcome is unknown; the error says which."""
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(slots=True, eq=False)
class AppendBatch(Command):
    """A client's batch, which `batch_check` has accepted."""

    header: BatchHeader = field(kw_only=True)
    data: Buffer = field(kw_only=True)
    transactional_id: str = field(default="", kw_only=True)

    @property
    def keys(self) -> tuple[int, ...]:
        """See `Command.keys`; none for a batch without a producer."""
        header = self.header
        if header.producer_id < 0:
            return ()
        return (header.producer_id, header.txn_producer_id) if header.txn_producer_id >= 0 else (header.producer_id,)


@dataclass(slots=True, eq=False)
class AppendMarkerCommand(Command):
    """A coordinator's marker to be written."""

    name: TxnName = field(kw_only=True)
    txn_shard: int = field(kw_only=True)
    marker: Marker = field(kw_only=True)

    @property
    def keys(self) -> tuple[int, ...]:
        """See `Command.keys`."""
        return (self.name.txn_producer_id,)


@dataclass(slots=True, eq=False)
class SettleCommand(Command):
    """A `GetProducerState` about a plain batch; `settle` appends a fence when the batch was not written (hole 22)."""

    producer_id: int = field(kw_only=True)
    producer_epoch: int = field(kw_only=True)
    base_sequence: int = field(kw_only=True)
    last_sequence: int = field(kw_only=True)
    settle: bool = field(kw_only=True)
    settled: Settled | None = None

    @property
    def keys(self) -> tuple[int, ...]:
        """See `Command.keys`."""
        return (self.producer_id,)
