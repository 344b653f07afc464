"""The port through which a leadership tells what happens to its commands. Metrics and traces are its two implementations.

Rule: an observer changes nothing and raises nothing. A leadership calls it once for a group, not once for each batch, where
that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncelog.errors import OncelogError
from oncelog.trace.tracing import Tracer
from oncelog.types import PartitionId
from oncelog_partition_leader.core.appends.commands import Command
from oncelog_partition_leader.log.partition_log import Appended
from oncelog_partition_leader.partition.append_trace import AppendTraces, TracedAppends
from oncelog_partition_leader.partition.broker_metrics import AppendMetrics, BrokerMetrics


class AppendObserver(Protocol):
    """Watches the commands of one leadership."""

    def queued(self, command: Command) -> None:
        """A command waits to be decided. Runs in the context of the handler that brought it."""

    def writing(self) -> None:
        """The next group is about to be written."""

    def appended(self, commands: Sequence[Command], batches: Sequence[Appended]) -> None:
        """These commands' batches are in the leader's log, written together."""

    def committed(self, commands: Sequence[Command], high_watermark: int) -> None:
        """The high watermark has moved, and these commands are about to be answered."""

    def failed(self, command: Command, error: OncelogError) -> None:
        """A command is refused, or could not be appended."""

    def context_of(self, command: Command) -> str:
        """Returns the trace context of what is done for a command; empty = it is not traced."""
        ...


class Observers:
    """Passes each call on to two observers. The context is that of the second one."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: AppendObserver, second: AppendObserver) -> None:
        self._first = first
        self._second = second

    def queued(self, command: Command) -> None:
        """See `AppendObserver.queued`."""
        self._first.queued(command)
        self._second.queued(command)

    def writing(self) -> None:
        """See `AppendObserver.writing`."""
        self._first.writing()
        self._second.writing()

    def appended(self, commands: Sequence[Command], batches: Sequence[Appended]) -> None:
        """See `AppendObserver.appended`."""
        self._first.appended(commands, batches)
        self._second.appended(commands, batches)

    def committed(self, commands: Sequence[Command], high_watermark: int) -> None:
        """See `AppendObserver.committed`."""
        self._first.committed(commands, high_watermark)
        self._second.committed(commands, high_watermark)

    def failed(self, command: Command, error: OncelogError) -> None:
        """See `AppendObserver.failed`."""
        self._first.failed(command, error)
        self._second.failed(command, error)

    def context_of(self, command: Command) -> str:
        """See `AppendObserver.context_of`."""
        return self._second.context_of(command)


class Observed(Protocol):
    """The broker's metrics and tracer."""

    @property
    def metrics(self) -> BrokerMetrics: ...
    @property
    def tracer(self) -> Tracer | None: ...


def observe(
    host: Observed, topic: str, partition: PartitionId, followers: int, traced: TracedAppends
) -> AppendObserver:
    """Returns the observer of a new leadership. `traced` gets the appends of recorded traces, until they are committed."""
    metrics = AppendMetrics(host.metrics, topic)
    if host.tracer is None:
        return metrics
    return Observers(metrics, AppendTraces(host.tracer, topic, partition, followers, traced))
