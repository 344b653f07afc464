"""Consume, transform, produce: two members of a group copy one topic to another, their offsets inside their transactions.

Rule 1: a copy is judged by the two topics at the end: the same values in the same order, each of them once.
Rule 2: the members join, leave and fail at their own times, so partitions change hands while transactions are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.consume.consumer import Consumer
from oncelog.client.produce.producer import Producer
from oncelog.types import TopicPartition
from tests.simulation.history import Key, Records
from tests.simulation.recorded import RETRY_S
from tests.simulation.topics import COPY, PARTITIONS, WORK
from tests.simulation.workload import Workload


class Patience(NamedTuple):
    """How a member works. `flushes`: it waits for its records before it sends their offsets.

    One that is patient for longer than the group's session comes back from a freeze with an open transaction, and then only
    the group's epoch stands between its offsets and those of who has its partitions now.
    """

    transaction_timeout_ms: int
    call_timeout_ms: int
    flushes: bool


HASTY: Final = Patience(4_000, 6_000, flushes=False)
PATIENT: Final = Patience(20_000, 15_000, flushes=True)


class Copier:
    """`name`: of its members and their transactional ids, and with an s of the group; `group`: one that it shares with others;
    `members`: one for each of these.

    `committed` counts its transactions, `moved` the partitions that its members were given, `trouble` is its last error.
    After `finish_at` was given it ends when it has copied all of it.
    """

    def __init__(
        self,
        workload: Workload,
        source: str = WORK,
        target: str = COPY,
        name: str = "copier",
        group: str = "",
        members: Sequence[Patience] = (HASTY, HASTY),
    ) -> None:
        self.committed = 0
        self.moved = 0
        self.trouble: errors.OncelogError | None = None
        self.ends: dict[Key, int] | None = None
        self._workload = workload
        self._source, self._target, self._name = source, target, name
        self._group = group or f"{name}s"
        self._members = members
        self._reached: set[Key] = set()

    def finish_at(self, ends: dict[Key, int]) -> None:
        """The source ends here: copy what is left."""
        self.ends = ends

    async def main(self) -> None:
        """To be spawned; ends only after `finish_at`."""
        named = [(f"{self._name}-{number}", patience) for number, patience in enumerate(self._members)]
        await asyncio.gather(*(self._member(name, patience) for name, patience in named))

    @property
    def _is_done(self) -> bool:
        return self.ends is not None and self._reached >= self.ends.keys()

    async def _member(self, name: str, patience: Patience) -> None:
        random = self._workload.cluster.world.random(name)
        client = self._workload.cluster.client(
            name, default_api_timeout_ms=patience.call_timeout_ms, close_timeout_ms=2_000
        )
        try:
            while not self._is_done:
                try:
                    await self._session(client, name, patience, random)
                except errors.OncelogError as error:
                    self._workload.causes[f"copier {type(error).__name__}"] += 1
                    self.trouble = error
                    await asyncio.sleep(RETRY_S)
        finally:
            await client.close()

    async def _session(self, client: Client, name: str, patience: Patience, random: Random) -> None:
        """One life of a member: it joins the group, and begins at the committed offsets of what it is given."""
        async with (
            client.producer(
                transactional_id=name,
                transaction_timeout_ms=patience.transaction_timeout_ms,
                delivery_timeout_ms=patience.call_timeout_ms,
            ) as producer,
            client.consumer(group_id=self._group, auto_offset_reset="earliest", fetch_max_wait_ms=100) as consumer,
        ):
            consumer.subscribe(self._source, on_assigned=self._given)
            for _ in range(random.randint(5, 30)):
                await self._look_at_the_end(consumer)
                if self._is_done:
                    return
                await self._copy_some(producer, consumer, random, flushes=patience.flushes)

    def _given(self, partitions: list[TopicPartition]) -> None:
        self.moved += len(partitions)

    async def _look_at_the_end(self, consumer: Consumer) -> None:
        """Notes what is copied to its end: everything that was returned in this session is committed by now."""
        for key in consumer.assignment() if self.ends else ():
            if await consumer.position(key) >= self.ends[key]:
                self._reached.add(key)

    async def _copy_some(self, producer: Producer, consumer: Consumer, random: Random, *, flushes: bool) -> None:
        records = await consumer.getmany(timeout_ms=200, max_records=random.randint(1, 40))
        if not records:
            return
        async with producer.transaction() as txn:
            for record in records:
                await txn.send(self._target, value=record.value, partition=record.partition)
            if flushes:
                await txn.flush()
            await txn.send_offsets(records)
        self.committed += 1


def differences(
    source: dict[Key, Records], copy: dict[Key, Records], names: tuple[str, str] = (WORK, COPY)
) -> list[str]:
    """One sentence per partition whose copy is not its source. `names`: of the two topics."""
    found = []
    for p in range(PARTITIONS):
        want = [value for _, value in source[names[0], p]]
        have = [value for _, value in copy[names[1], p]]
        if want != have:
            at = next(
                (i for i, (a, b) in enumerate(zip(want, have, strict=False)) if a != b), min(len(want), len(have))
            )
            found.append(
                f"partition {p}: {len(want)} values, {len(have)} copied; from index {at}:"
                f" {want[at : at + 4]} is {have[at : at + 4]} in the copy"
            )
    return found
