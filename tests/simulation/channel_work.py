"""Channels beside everything else, under every fault: workers do all that workers do, and copy in transactions.

Rule 1: nothing that was written is lost: it is acknowledged, or a letter, or its acknowledgement was sent and may count.
Rule 2: what was acknowledged never comes again, and no record is with two owners (`channel_judge.py`).
Rule 3: each copy is there once.
Rule 4: after a power cut of all brokers rule 2 holds for what is still there, and what is written then is delivered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.channel_judge import ACK_WAIT_MS, Delivery, Judge, now_s, settle
from tests.simulation.recorded import RETRY_S
from tests.simulation.workload import PATIENT, Workload, final_read

SHARE: Final = 0.3
"""Of all runs have channels."""
JOBS: Final = "jobs"
COPIES: Final = "jobs-copied"
LETTERS: Final = "jobs-rejected"
_PARTITIONS: Final = 2
_WORK, _COPY = "work", "copy"
_PAUSE_MAX_S: Final = 0.4
_PATIENT: Final[dict[str, Any]] = dict(PATIENT)
_SESSION_S: Final = (1.0, 4.0)
_QUIET_S: Final = 12
_AFTER_DARK: Final = range(1_000_000, 1_000_020)


class ChannelWork:
    """`judge` grows while it goes on; `finish` and `after_dark` say what is wrong in the end.

    `is_there` False: this run has no channels, and nothing here does anything.
    """

    def __init__(self, workload: Workload, *, is_there: bool, fsync: bool) -> None:
        self.judge = Judge()
        self._workload = workload
        self._is_there = is_there
        self._config = {"min.insync.replicas": "2", "flush.mode": "fsync" if fsync else "replicated"}
        self._next = 0

    async def create(self) -> None:
        """Makes the topics and their channels."""
        if not self._is_there:
            return
        async with self._workload.cluster.client("jobs-setup") as client:
            for name in (JOBS, COPIES, LETTERS):
                await client.admin.create_topic(name, partitions=_PARTITIONS, replication_factor=3, config=self._config)
            await client.admin.create_channel(JOBS, _WORK, ack_wait_ms=ACK_WAIT_MS, dead_letter_topic=LETTERS)
            await client.admin.create_channel(JOBS, _COPY, ack_wait_ms=ACK_WAIT_MS)

    # ------------------------------------------------------------ processes

    def processes(self) -> list[Coroutine[Any, Any, None]]:
        """Those that are to be spawned; they end when the workload stops."""
        if not self._is_there:
            return []
        workers = [self.worker(f"jobs-worker-{i}") for i in range(2)]
        copiers = [self.copier(f"jobs-copier-{i}") for i in range(2)]
        return [self.feeder("jobs-feeder"), *workers, *copiers]

    async def feeder(self, name: str) -> None:
        """Writes numbers."""
        await self._workload.for_ever(name, self._feed)

    async def _feed(self, client: Client, name: str, random: Random) -> None:
        async with client.producer(**_PATIENT) as producer:
            while not self._workload.stopping:
                values = range(self._next, self._next + random.randint(1, 5))
                self._next = values.stop
                self.judge.perhaps_written.update(values)
                sent = [(value, await producer.send(JOBS, b"%d" % value, key=b"%d" % (value % 5))) for value in values]
                for value, delivery in sent:
                    await delivery
                    self.judge.written.add(value)
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def worker(self, name: str) -> None:
        """Works on what comes, in all ways; leaves and begins again now and then."""
        await self._workload.for_ever(name, self._work)

    async def _work(self, client: Client, name: str, random: Random) -> None:
        async with client.worker(JOBS, channel=_WORK, max_in_flight=random.choice([1, 3, 20])) as worker:
            try:
                ends_s = now_s() + random.uniform(*_SESSION_S)
                while now_s() < ends_s and not self._workload.stopping:
                    messages = await worker.getmany(timeout_ms=300)
                    for message in messages:
                        self.judge.handed_out(name, Delivery.of(message))
                    for message in messages:
                        await settle(message, self.judge, random, name)
            finally:
                self.judge.leaves(name)

    async def copier(self, name: str) -> None:
        """Copies what comes, and acknowledges it in the transaction of the copy."""
        await self._workload.for_ever(name, self._copy)

    async def _copy(self, client: Client, name: str, random: Random) -> None:
        async with (
            client.producer(transactional_id=name, transaction_timeout_ms=3_000, **_PATIENT) as producer,
            client.worker(JOBS, channel=_COPY, max_in_flight=10) as worker,
        ):
            ends_s = now_s() + random.uniform(*_SESSION_S)
            while now_s() < ends_s and not self._workload.stopping:
                messages = await worker.getmany(timeout_ms=300)
                if messages:
                    await _transact(producer, messages, aborts=random.random() < 0.2)

    # ------------------------------------------------------------ the end

    async def finish(self) -> list[str]:
        """Does the rest, when all is well again; returns what is wrong."""
        if not self._is_there:
            return []
        async with self._workload.cluster.client("jobs-last") as client:
            await self._drain(client)
            await self._copy_rest(client)
        keys = [(topic, partition) for topic in (COPIES, LETTERS) for partition in range(_PARTITIONS)]
        found = await final_read(self._workload.cluster, keys)
        copies = Counter(value for key in keys if key[0] == COPIES for _, value in found[key])
        self.judge.letters.update(value for key in keys if key[0] == LETTERS for _, value in found[key])
        return [*self.judge.anomalies, *self.judge.lost(), *self.judge.wrong_copies(copies)]

    async def _copy_rest(self, client: Client) -> None:
        async with (
            client.producer(transactional_id="jobs-last", transaction_timeout_ms=3_000) as producer,
            client.worker(JOBS, channel=_COPY, max_in_flight=10) as worker,
        ):
            while messages := await worker.getmany(timeout_ms=_QUIET_S * 1_000):
                await _transact(producer, messages, aborts=False)

    async def _drain(self, client: Client) -> None:
        """One patient worker does the rest."""
        async with client.worker(JOBS, channel=_WORK, max_in_flight=100) as worker:
            silence = 0
            while silence < _QUIET_S:
                messages = await worker.getmany(timeout_ms=1_000)
                silence = 0 if messages else silence + 1
                for message in messages:
                    self.judge.handed_out("last", Delivery.of(message))
                if messages:
                    await worker.ack(messages)
                for message in messages:
                    self.judge.acknowledged("last", Delivery.of(message))

    async def after_dark(self) -> list[str]:
        """Rule 4."""
        if not self._is_there:
            return []
        async with self._workload.cluster.client("jobs-after-dark") as client:
            for value in _AFTER_DARK:
                await _write(client, value)
            await self._drain(client)
        missing = {*_AFTER_DARK} - {*self.judge.acknowledged_s}
        return [*self.judge.anomalies, *(f"passed-over-after-dark: {value}" for value in sorted(missing))]


async def _transact(producer: Any, messages: list[Any], *, aborts: bool) -> None:
    async with producer.transaction() as txn:
        for message in messages:
            await txn.send(COPIES, message.value)
        await txn.ack(messages)
        if aborts:
            await txn.abort()


async def _write(client: Client, value: int) -> None:
    while True:
        try:
            async with client.producer(**_PATIENT) as producer:
                await producer.send_and_wait(JOBS, b"%d" % value)
                return
        except errors.OncelogError:
            await asyncio.sleep(RETRY_S)
