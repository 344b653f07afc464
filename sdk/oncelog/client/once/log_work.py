"""The work of one record, where the log remembers what was done: what it writes is committed with the record's offset and id.

Rule 1: what the body sends is written at the end of the block, in one transaction with the offset, so a slow body keeps no
        transaction open.
Rule 2: an error that leaves the block writes nothing; the record comes again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple

from oncelog import errors
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.value_types import Headers


class Output(NamedTuple):
    """A record that the work writes; the fields are the parameters of `Transaction.send`."""

    topic: str
    value: object
    key: object
    partition: int | None
    timestamp_ms: int | None
    headers: Headers


class LogWork:
    """See the module. Given by `OnceInLog.each`; enter it with `async with`, before you ask for the next one."""

    def __init__(
        self,
        record: ConsumerRecord,
        record_id: str,
        fencing: int,
        commit: Callable[[LogWork], Awaitable[None]],
    ) -> None:
        self.record = record
        """The record that is worked on."""
        self.record_id = record_id
        """The record's own id; empty: it has none."""
        self.fencing = fencing
        """A number that grows whenever another worker takes the partition over.

        Give it to external systems with what you write there, and have them refuse a smaller one than they have seen.
        """
        self.outputs: list[Output] = []
        """For this package: what the body sent."""
        self.is_entered = False
        """For this package: the block has begun."""
        self.is_ended = False
        """For this package: nothing more can be done with this object."""
        self.is_committed = False
        """The block has ended, and all that it sent is committed."""
        self._commit = commit

    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Writes a record at the end of the block. Parameters are those of `Producer.send`; what it refuses, the end raises."""
        self._check_open()
        self.outputs.append(Output(topic, value, key, partition, timestamp_ms, headers))

    def _check_open(self) -> None:
        if not self.is_entered or self.is_ended:
            raise errors.IllegalStateError("work goes on within its block only: `async with work:`")

    async def __aenter__(self) -> LogWork:
        if self.is_entered or self.is_ended:
            raise errors.IllegalStateError("a work is entered once: the loop gives another one for the next record")
        self.is_entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commits, or writes nothing when the block raised.

        Raises `WorkFencedError` when another worker took over, and why else nothing was committed;
        `CommitOutcomeUnknownError` leaves it open: the record comes again unless it was.
        """
        self.is_ended = True
        if kind is None:
            await self._commit(self)
            self.is_committed = True
