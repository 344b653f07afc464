"""The result of a `send`: a promise of where the records will be, cheap until a caller awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.client.home.stays_here import StaysHere
from oncelog.core.produce.accumulator import Batch
from oncelog.errors import IllegalStateError


class RecordMetadata(NamedTuple):
    """Where a record is. `offset` -1: written, but the leader no longer knows at which offset; with acks=0: sent, and not
    known to be written.
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
    _check_home(open_batches)
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


def _check_home(batches: list[Batch]) -> None:
    """Raises `IllegalStateError` where one that is open would be waited for in vain. All of them are one producer's."""
    home = next((batch.home for batch in batches if not batch.done), None)
    if home is not None:
        home.check()


def _call_when_done(batches: list[Batch], function: Callable[[], object]) -> None:
    """Once, from the loop, so that nothing of the caller's runs in the midst of the sender's work."""
    _check_home(batches)
    loop = asyncio.get_running_loop()
    open_batches = [batch for batch in batches if not batch.done]
    left = len(open_batches)
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
    """A record on its way. `await` it for its `RecordMetadata`, or ask `offset` once it is done.

    Until then it belongs to the event loop of its client: in another one a wait for it raises `IllegalStateError`.
    """

    __slots__ = ("_batch", "_index", "_is_observed")

    _is_observed: bool
    """There is no such attribute until a caller awaits, or has seen, the outcome: so that none is made with each record."""

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        """Waits for the acknowledgement. Raises why the record was refused, or `DeliveryTimedOutError`."""
        if not self._batch.done:
            yield from self._wait().__await__()
        return self.result()

    async def _wait(self) -> None:
        is_first = self._observe()
        try:
            await wait_done([self._batch])
        except BaseException:
            if is_first:  # the caller that waited is gone, and has not seen anything
                del self._is_observed
                self._batch.observed -= 1
            raise

    def _observe(self) -> bool:
        """A caller awaits the outcome, or has it: `flush` and `close` do not raise it. False: that was so before."""
        if hasattr(self, "_is_observed"):
            return False
        self._is_observed = True
        self._batch.observed += 1
        return True

    def done(self) -> bool:
        """True when the outcome is known."""
        return self._batch.done

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Calls `function(delivery)` from the loop when the outcome is known; at once, but not in this call, if it is.

        It asks `result()` for the outcome; a failure is the callback's, `flush` and `close` do not raise it. What the function
        itself raises goes to the loop's exception handler.
        """
        _call_when_done([self._batch], lambda: function(self))
        self._observe()

    def result(self) -> RecordMetadata:
        """The metadata. Raises the record's error, or `IllegalStateError` before the outcome is known."""
        batch = self._batch
        if not batch.done:
            raise IllegalStateError("the record is still on its way: await it")
        if batch.error is not None:
            self._observe()
            raise batch.error.with_traceback(None)  # each record of the batch raises it: it must not grow
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


class Part(NamedTuple):
    """Neighbouring rows of a delivery in a batch, which may hold others' rows as well."""

    batch: Batch
    first: int
    records: int


class BatchDelivery(StaysHere):
    """Many rows on their way. `await` it for the ranges in which they were written."""

    __slots__ = ("_is_observed", "_parts", "rows")

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._is_observed = False
        self.rows = sum(part.records for part in parts)
        """How many."""

    def __await__(self) -> Generator[object, None, list[WrittenRange]]:
        """Waits for all acknowledgements. Raises the first failure."""
        if not self.done():
            yield from self._wait().__await__()
        return self.result()

    async def _wait(self) -> None:
        is_first = self._observe()
        try:
            await wait_done(self._batches())
        except BaseException:
            if is_first:
                self._is_observed = False
                for part in self._parts:
                    part.batch.observed -= part.records
            raise

    def _observe(self) -> bool:
        """As `Delivery._observe`, for all rows."""
        if self._is_observed:
            return False
        self._is_observed = True
        for part in self._parts:
            part.batch.observed += part.records
        return True

    def _batches(self) -> list[Batch]:
        return list(dict.fromkeys(part.batch for part in self._parts))

    def add_done_callback(self, function: Callable[[BatchDelivery], object]) -> None:
        """As `Delivery.add_done_callback`, when every outcome is known."""
        _call_when_done(self._batches(), lambda: function(self))
        self._observe()

    def done(self) -> bool:
        """True when every outcome is known."""
        return all(part.batch.done for part in self._parts)

    def result(self) -> list[WrittenRange]:
        """The ranges. Raises the first failure, or `IllegalStateError` before all outcomes are known."""
        if not self.done():
            raise IllegalStateError("rows are still on their way: await them")
        for part in self._parts:
            if part.batch.error is not None:
                self._observe()  # told here: `flush` and `close` do not raise it again
                raise part.batch.error.with_traceback(None)
        return [_written(*part) for part in self._parts]


def _written(batch: Batch, first: int, count: int) -> WrittenRange:
    offset = batch.base_offset + first if batch.base_offset >= 0 else -1
    return WrittenRange(batch.topic, batch.partition.partition, offset, count)


class Parts:
    """Where rows were queued, one after the other; neighbours in a batch become one part."""

    def __init__(self) -> None:
        self._found: dict[Batch, list[list[int]]] = {}
        self.rows = 0
        """How many."""

    def add(self, batch: Batch, index: int) -> None:
        """The next row is at this place of the batch."""
        self.rows += 1
        spans = self._found.setdefault(batch, [])
        if spans and spans[-1][1] == index:
            spans[-1][1] = index + 1
        else:
            spans.append([index, index + 1])

    def delivery(self) -> BatchDelivery:
        """All of them, batch by batch in the order of their first rows."""
        found = self._found.items()
        return BatchDelivery([Part(batch, first, end - first) for batch, spans in found for first, end in spans])
