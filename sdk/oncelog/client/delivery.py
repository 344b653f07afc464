"""What `send` gives back: a promise of where the records will be, cheap until somebody awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from oncelog.core.accumulator import Batch
from oncelog.errors import IllegalStateError
from oncelog.stays_here import StaysHere


class RecordMetadata(NamedTuple):
    """Where a record is. `offset` -1: written, but the leader no longer knows at which offset; with acks=0: sent, and nobody
    knows whether it was written.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """Where neighbouring rows of many are: `records` rows from `base_offset` (-1: no longer known) on."""

    topic: str
    partition: int
    base_offset: int
    records: int


async def wait_done(batches: list[Batch]) -> None:
    """Returns when every batch is resolved, whichever way. Cancelling the wait changes nothing else."""
    open_batches = [batch for batch in batches if not batch.done]
    if not open_batches:
        return
    left = len(open_batches)
    all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_done(_: Batch) -> None:
        nonlocal left
        left -= 1
        if left == 0 and not all_done.done():
            all_done.set_result(None)

    for batch in open_batches:
        batch.on_done.append(on_done)
    await all_done


def _call_when_done(batches: list[Batch], function: Callable[[], object]) -> None:
    """Once, from the loop, so that nothing of the caller's runs in the midst of the sender's work."""
    loop = asyncio.get_running_loop()
    open_batches = [batch for batch in batches if not batch.done]
    left = len(open_batches)
    for batch in batches:
        batch.observed = True
    if not left:
        loop.call_soon(function)

    def on_done(_: Batch) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            loop.call_soon(function)

    for batch in open_batches:
        batch.on_done.append(on_done)


class Delivery(StaysHere):
    """A record on its way. `await` it for its `RecordMetadata`, or ask `offset` once it is done."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Waits for the acknowledgement. Raises why the record was refused, or `DeliveryTimedOutError`."""
        batch = self._batch
        batch.observed = True
        if not batch.done:
            yield from wait_done([batch]).__await__()
        return self.result()

    def done(self) -> bool:
        """True when the outcome is known."""
        return self._batch.done

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Calls `function(delivery)` from the loop when the outcome is known; at once, but not in this call, if it is.

        It asks `result()` for the outcome; a failure is the callback's, `flush` and `close` do not raise it. What the function
        itself raises goes to the loop's exception handler.
        """
        _call_when_done([self._batch], lambda: function(self))

    def result(self) -> RecordMetadata:
        """The metadata. Raises the record's error, or `IllegalStateError` before the outcome is known."""
        batch = self._batch
        if not batch.done:
            raise IllegalStateError("the record is still on its way: await it")
        batch.observed = True
        if batch.error is not None:
            raise batch.error
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        return RecordMetadata(batch.topic, batch.partition.partition, offset, batch.timestamps_ms[self._index])

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """Number of the partition, chosen at the send."""
        return self._batch.partition.partition

    @property
    def offset(self) -> int:
        """As `result().offset`."""
        return self.result().offset


class BatchDelivery(StaysHere):
    """Many rows on their way. `await` it for the ranges in which they were written."""

    __slots__ = ("_batches", "rows")

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches
        self.rows = sum(batch.record_count for batch in batches)
        """How many."""

    def __await__(self) -> Generator[Any, None, list[WrittenRange]]:
        """Waits for all acknowledgements. Raises the first failure."""
        for batch in self._batches:
            batch.observed = True
        yield from wait_done(self._batches).__await__()
        return self.result()

    def add_done_callback(self, function: Callable[[BatchDelivery], object]) -> None:
        """As `Delivery.add_done_callback`, when every outcome is known."""
        _call_when_done(self._batches, lambda: function(self))

    def done(self) -> bool:
        """True when every outcome is known."""
        return all(batch.done for batch in self._batches)

    def result(self) -> list[WrittenRange]:
        """The ranges. Raises the first failure, or `IllegalStateError` before all outcomes are known."""
        if all(batch.done for batch in self._batches):
            for batch in self._batches:  # told here: `flush` and `close` do not raise it again
                batch.observed = True
        ranges: list[WrittenRange] = []
        for batch in self._batches:
            if not batch.done:
                raise IllegalStateError("rows are still on their way: await them")
            if batch.error is not None:
                raise batch.error
            ranges.append(WrittenRange(batch.topic, batch.partition.partition, batch.base_offset, batch.record_count))
        return ranges
