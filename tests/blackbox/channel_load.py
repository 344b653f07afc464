"""Workers of channels, in a process of the load: they do all that workers may do, and journal each step before it is taken.

Rule 1: a record is noted as delivered at the time when the SDK looked whether it is still the worker's own: a process that is
        frozen between that and its note would be blamed for what happened meanwhile.
Rule 2: what is said of a record is noted before it is sent, and again when it is confirmed. A transaction says it
        when its commit is asked for; what it gives back is noted before it is aborted.
Rule 3: who is `last` ends when nothing is left in any channel and nothing waits for its time; others leave when asked to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.blackbox.round_topics import COPY_CHANNEL, LATE_CHANNEL, WORK_CHANNEL, RoundTopics
from tests.simulation.channel_judge import Delivery, settle
from tests.simulation.history import Operation, Status
from tests.simulation.recorded import RETRY_S, Session
from tests.simulation.workload import PATIENT, Workload

COPIER: Final = "-copier"
"""How the name of a worker ends that copies."""
EMPTIED: Final = "emptied"
"""The kind of the operation that says that nothing is left."""
_SESSION_S: Final = (3.0, 15.0)
_AT_ONCE: Final = (1, 10, 100)
_LOOK_S: Final = 1.0

_PATIENT: Final[dict[str, Any]] = dict(PATIENT)


class ChannelLoad:
    """`life` tells the workers of this process from all others; `id_` is the transactional id of its copier, whose earlier
    lives it fences; `is_last`: see rule 3.
    """

    def __init__(self, load: Workload, topics: RoundTopics, life: str, id_: str, *, is_last: bool) -> None:
        self._load = load
        self._topics = topics
        self._life = life
        self._id = id_
        self._is_last = is_last
        self._said: dict[Delivery, Operation] = {}
        self._is_empty = not is_last

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on at the same time."""
        workers = [self._sessions(f"{self._life}-worker-{number}", self._work) for number in range(2)]
        others = [
            self._sessions(f"{self._life}{COPIER}", self._copy),
            self._sessions(f"{self._life}-late", self._take_late),
        ]
        return [*workers, *others, *([self._look_until_empty()] if self._is_last else [])]

    @property
    def _is_over(self) -> bool:
        return bool(self._load.stopping) and self._is_empty

    async def _sessions(self, name: str, session: Session) -> None:
        """One session after the other, with one client."""
        random = self._load.cluster.world.random(name)
        client = self._load.cluster.client(name, default_api_timeout_ms=10_000, close_timeout_ms=2_000)
        try:
            while not self._is_over:
                try:
                    await session(client, name, random)
                except errors.OncelogError as error:
                    self._load.note(name, "worker", error)
                    await asyncio.sleep(RETRY_S)
        finally:
            await client.close()

    async def _look_until_empty(self) -> None:
        """Rule 3."""
        while not self._is_over:
            await asyncio.sleep(_LOOK_S)
            if self._load.stopping and await self._looks_empty():
                self._load.end(self._load.begin(self._life, EMPTIED), Status.OK)
                self._is_empty = True

    async def _looks_empty(self) -> bool:
        try:
            async with self._load.cluster.client(f"{self._life}-looks") as client:
                waiting = sum(one.waiting for one in await client.admin.describe_delayed(self._topics.later))
                described = [await client.admin.describe_channel(*channel) for channel in self._topics.channels]
        except errors.OncelogError as error:
            self._load.note(self._life, "describe", error)
            return False
        return waiting + sum(one.depth for channel in described for one in channel.partitions) == 0

    # ------------------------------------------------------------ workers

    async def _work(self, client: Client, name: str, random: Random) -> None:
        """Each record for itself. In the end it leaves in good order, or with records that it has not settled."""
        async with client.worker(
            self._topics.jobs, channel=WORK_CHANNEL, max_in_flight=random.choice(_AT_ONCE)
        ) as worker:
            ends_s, under_way = time.monotonic() + random.uniform(*_SESSION_S), set[asyncio.Task[None]]()
            try:
                while time.monotonic() < ends_s and not self._is_over:
                    messages = await self._taken(name, worker)
                    if self._load.stopping and messages:  # it is time to come to an end
                        await self._acknowledge(worker, name, messages)
                    else:
                        under_way |= {asyncio.create_task(settle(one, self, random, name)) for one in messages}
                    under_way = _without_done(under_way)
                if random.random() < 0.5:
                    await asyncio.gather(*under_way)
            finally:
                self._leaves(name)
                for task in under_way:
                    task.cancel()
                await asyncio.gather(*under_way, return_exceptions=True)

    async def _copy(self, client: Client, name: str, random: Random) -> None:
        """Many at a time, in one transaction."""
        async with (
            client.producer(transactional_id=self._id, transaction_timeout_ms=4_000, **_PATIENT) as producer,
            client.worker(self._topics.jobs, channel=COPY_CHANNEL, max_in_flight=random.choice(_AT_ONCE)) as worker,
        ):
            ends_s = time.monotonic() + random.uniform(*_SESSION_S)
            try:
                while time.monotonic() < ends_s and not self._is_over:
                    messages = await self._taken(name, worker)
                    if messages:
                        await self._copy_these(producer, messages, name, aborts=random.random() < 0.2)
            finally:
                self._leaves(name)

    async def _copy_these(self, producer: Any, messages: list[Any], name: str, *, aborts: bool) -> None:
        operation, deliveries = self._load.begin(name, "txn-ack"), [Delivery.of(message) for message in messages]
        txn = producer.transaction()
        try:
            await txn.begin()
            for message in messages:
                await txn.send(self._topics.done, message.value, key=message.key)
            await txn.ack(messages)
            if aborts:
                self._give_back(name, deliveries)
                await txn.abort()
                self._load.end(operation, Status.FAIL)
                return
            for delivery in deliveries:
                self.says(name, delivery)
            await self._load.commit(txn, operation)
        except errors.OncelogError as error:
            self._give_back(name, deliveries)
            if not await self._load.end_by_outcome(txn, operation, error):
                raise
            return
        self._load.end(operation, Status.OK)
        for delivery in deliveries:
            self.acknowledged(name, delivery)

    def _give_back(self, name: str, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self.gives_back(name, delivery)

    async def _take_late(self, client: Client, name: str, random: Random) -> None:
        """Acknowledges all that comes, many at a time."""
        async with client.worker(self._topics.later, channel=LATE_CHANNEL, max_in_flight=100) as worker:
            ends_s = time.monotonic() + random.uniform(*_SESSION_S)
            try:
                while time.monotonic() < ends_s and not self._is_over:
                    messages = await self._taken(name, worker)
                    if messages:
                        await self._acknowledge(worker, name, messages)
            finally:
                self._leaves(name)

    async def _acknowledge(self, worker: Any, name: str, messages: list[Any]) -> None:
        deliveries = [Delivery.of(message) for message in messages]
        for delivery in deliveries:
            self.says(name, delivery)
        await worker.ack(messages)
        for delivery in deliveries:
            self.acknowledged(name, delivery)

    # ------------------------------------------------------------ notes

    async def _taken(self, name: str, worker: Any) -> list[Any]:
        """What comes next, noted; nothing after a while."""
        messages: list[Any] = await worker.getmany(timeout_ms=300)
        for message in messages:
            self._delivered(name, worker, message)
        return messages

    def _delivered(self, name: str, worker: Any, message: Any) -> None:
        """Rule 1."""
        operation = self._load.begin(name, "deliver")
        hold = message._held
        operation.reads = {(message.topic, message.partition): [(message.offset, int(message.value))]}
        operation.held = (hold.leader_epoch, worker._receiver.seen_ms, hold.until_ms)
        self._load.end(operation, Status.OK)

    def says(self, worker: str, delivery: Delivery) -> None:
        """Rule 2."""
        self._said[delivery] = self._about(worker, "ack", delivery)

    def acknowledged(self, _worker: str, delivery: Delivery) -> None:
        """Rule 2."""
        self._load.end(self._said.pop(delivery), Status.OK)

    def rejected(self, _worker: str, delivery: Delivery) -> None:
        """Rule 2."""
        operation = self._said.pop(delivery)
        operation.kind = "reject"
        self._load.end(operation, Status.OK)

    def gives_back(self, worker: str, delivery: Delivery) -> None:
        """Rule 2."""
        self._about(worker, "nack", delivery)

    def _about(self, worker: str, kind: str, delivery: Delivery) -> Operation:
        operation = self._load.begin(worker, kind)
        operation.about = delivery.value
        self._load.history.will_write(operation)
        return operation

    def _leaves(self, worker: str) -> None:
        """It is about to say so, and settles nothing more."""
        self._load.begin(worker, "leave")


def _without_done(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Those that go on. Raises what one of the others raised."""
    for task in tasks:
        if task.done():
            task.result()
    return {task for task in tasks if not task.done()}
