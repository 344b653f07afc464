"""Senders of delayed records: single ones, some of which are cancelled, and whole transactions.

Rule: when a record is due goes into the history before it is sent, and a cancellation before it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.history import History, Key, Operation, Status
from tests.simulation.workload import PATIENT, Workload

_BURST_MAX: Final = 12
_CANCELLED: Final = 0.2
"""The share of single records that are cancelled, or tried to."""

_PATIENT: Final[dict[str, Any]] = dict(PATIENT)


class LaterLoad:
    """`life` tells its tasks from all others; `id_` is the transactional id, whose earlier lives it fences. `later`: partitions
    of delayed records; `beside`: those of records without delay, in the same transactions. `clock` tells the time by which
    records are due, in milliseconds since 1970.
    """

    def __init__(
        self,
        load: Workload,
        life: str,
        id_: str,
        later: Sequence[Key],
        beside: Sequence[Key],
        delays_ms: Sequence[int],
        clock: Callable[[], int],
    ) -> None:
        self._load = load
        self._life = life
        self._id = id_
        self._later = later
        self._beside = beside
        self._delays_ms = delays_ms
        self._clock = clock

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on at the same time."""
        return [
            self._load.for_ever(f"{self._life}-later", self._singles),
            self._load.for_ever(f"{self._life}-later-txn", self._transactions),
        ]

    # ------------------------------------------------------------ single records

    async def _singles(self, client: Client, name: str, random: Random) -> None:
        async with client.producer(**_PATIENT) as producer:
            for _ in range(random.randint(3, 12)):
                if self._load.stopping:
                    return
                burst = random.randint(1, _BURST_MAX)
                await asyncio.gather(*(self._single(client, producer, name, random) for _ in range(burst)))
                await asyncio.sleep(random.random())

    async def _single(self, client: Client, producer: Any, name: str, random: Random) -> None:
        operation, due = self._begin(name, "later", random, 1)
        ((topic, partition), value) = operation.writes[0]
        try:
            told = await (await producer.send(topic, b"%d" % value, partition=partition, deliver_at=due))
        except errors.OncelogError as error:
            is_refused = error.context.get("written") == "false" and not self._load.may_come_late()
            is_unwritten = is_refused or isinstance(error, errors.InvalidDelayError)
            self._load.end(operation, Status.FAIL if is_unwritten else Status.INFO, error)
            return
        self._load.end(operation, Status.OK)
        if random.random() < _CANCELLED:
            await asyncio.sleep(random.random() * 2)
            await self._cancel(client, name, value, topic, told)

    def _begin(self, name: str, kind: str, random: Random, count: int) -> tuple[Operation, datetime]:
        """An operation that writes so many delayed records, all of them due at one time."""
        operation = self._load.begin(name, kind)
        operation.due_ms = self._clock() + random.choice(self._delays_ms)
        for _ in range(count):
            operation.writes.append((random.choice(self._later), self._load.history.new_value()))
        self._load.history.will_write(operation)
        return operation, datetime.fromtimestamp(operation.due_ms / 1000, UTC)

    async def _cancel(self, client: Client, name: str, value: int, topic: str, told: Any) -> None:
        """That it does not wait any more may be the work of a try before, so it is as unknown as any other failure."""
        operation = self._load.begin(name, "cancel")
        operation.about = value
        self._load.history.will_write(operation)
        try:
            await client.admin.cancel_delayed(topic, told.partition, told.offset)
        except errors.OncelogError as error:
            self._load.end(operation, Status.INFO, error)
            return
        self._load.end(operation, Status.OK)

    # ------------------------------------------------------------ transactions

    async def _transactions(self, client: Client, name: str, random: Random) -> None:
        async with client.producer(transactional_id=self._id, transaction_timeout_ms=4_000, **_PATIENT) as producer:
            for _ in range(random.randint(2, 12)):
                if self._load.stopping or not await self._transaction(producer, name, random):
                    return
                await asyncio.sleep(random.random())

    async def _transaction(self, producer: Any, name: str, random: Random) -> bool:
        """Delayed records of one time, and jobs. False: this session is of no use any more."""
        operation, due = self._begin(name, "batch", random, random.randint(1, 4))
        late = len(operation.writes)
        for _ in range(random.randint(0, 2)):
            operation.writes.append((random.choice(self._beside), self._load.history.new_value()))
        self._load.history.will_write(operation)
        wants_abort, txn = random.random() < 0.2, producer.transaction()
        try:
            await txn.begin()
            for number, ((topic, partition), value) in enumerate(operation.writes):
                data, key = b"%d" % value, self._load.record_key(topic, value)
                options = {"deliver_at": due} if number < late else {}
                await txn.send(topic, data, key, partition, **options)
            if wants_abort:
                await txn.abort()
                self._load.end(operation, Status.FAIL)
                return True
            await self._load.commit(txn, operation)
        except errors.OncelogError as error:
            return await self._load.end_by_outcome(txn, operation, error)
        self._load.end(operation, Status.OK)
        return True


def without_cancelled(history: History) -> History:
    """The history in which a cancelled record was surely not written, and one that is perhaps cancelled perhaps.

    What else is promised of a delayed record is what is promised of all, so the checker judges it.
    """
    writers = {value: o for o in history.operations if o.kind == "later" for _, value in o.writes}
    for operation in history.operations:
        writer = writers.get(operation.about) if operation.kind == "cancel" else None
        if writer is not None and writer.status is not Status.FAIL:
            writer.status = Status.FAIL if operation.status is Status.OK else Status.INFO
    return history
