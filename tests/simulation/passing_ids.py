"""Clients that make a transactional id for one piece of work and never use it again, in a cluster that soon removes such ids.

Half of them are plain sessions, half are jobs with a driver and one task, as Spark's batch writes without a transactional id.
Some of their processes stand still until the id may be gone, and then go on as if nothing had happened; some of these find a
successor that began a session of the same id.

Rule: whoever goes on may fail, or write with success (the id was not gone). It never commits a job's batch a second time, and
where the token must last it hears that the batch is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from tests.simulation.history import Operation, Status
from tests.simulation.workload import Workload, session_of

SHARE: Final = 0.3
"""Of all runs have such clients, and short deadlines."""
EXPIRATION_MS: Final = (900, 1_800)
RETENTION_MS: Final = (400, 1_200)
APP: Final = "spark-job"
_TOKEN_EXPIRES_SHARE: Final = 0.7
_PAUSE_MAX_S: Final = 0.3
_STANDS_STILL_S: Final = (1.0, 5.0)
_TIMEOUTS: Final[dict[str, Any]] = {"delivery_timeout_ms": 4_000, "request_timeout_ms": 1_500}


def settings(random: Random) -> dict[str, int]:
    """Of the coordinators."""
    return {
        "transactional_id_expiration_ms": random.randint(*EXPIRATION_MS),
        "transactional_id_retention_ms": random.randint(*RETENTION_MS),
    }


class PassingIds:
    """`made` counts the ids, `stood_still` who went on late, `refused` which of these were refused. `problems` grows."""

    def __init__(self, workload: Workload) -> None:
        self.made = 0
        self.stood_still = 0
        self.refused = 0
        self.problems: list[str] = []
        self._workload = workload

    async def main(self, name: str) -> None:
        """To be spawned; ends when the workload stops."""
        await self._workload.for_ever(name, self._session)

    async def _session(self, client: Client, name: str, random: Random) -> None:
        self.made += 1
        id_ = f"{name}-{self.made}"
        work = self._produce if random.random() < 0.5 else self._run_job
        await work(client, id_, random)
        await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    async def _stand_still(self, random: Random) -> bool:
        """False: this process is not one that does."""
        if random.random() > 0.3:
            return False
        self.stood_still += 1
        await asyncio.sleep(random.uniform(*_STANDS_STILL_S))
        return True

    # ------------------------------------------------------------ a session

    async def _produce(self, client: Client, id_: str, random: Random) -> None:
        async with self._began(client, id_) as producer:
            if not await self._transaction(producer, id_, random) or not await self._stand_still(random):
                return
            if random.random() < 0.5:
                async with self._began(client, id_) as successor:
                    await self._transaction(successor, id_, random)
            self.refused += not await self._transaction(producer, id_, random)

    @asynccontextmanager
    async def _began(self, client: Client, id_: str) -> AsyncIterator[Any]:
        init = self._workload.begin(id_, "init")
        async with client.producer(transactional_id=id_, transaction_timeout_ms=3_000, **_TIMEOUTS) as producer:
            init.session = session_of(producer, id_)
            self._workload.end(init, Status.OK)
            yield producer

    async def _transaction(self, producer: Any, id_: str, random: Random) -> bool:
        operation = self._begin(id_, "txn", random)
        operation.session = session_of(producer, id_)
        txn = producer.transaction()
        try:
            await txn.begin()
            self._workload.named.append((id_, txn.txn_no, operation))
            for (topic, partition), value in operation.writes:
                await txn.send(topic, value=self._workload.payload(topic, value), partition=partition)
            await self._workload.commit(txn, operation)
        except errors.OncelogError as error:
            return await self._workload.end_by_outcome(txn, operation, error)
        self._workload.end(operation, Status.OK)
        return True

    def _begin(self, id_: str, kind: str, random: Random) -> Operation:
        operation = self._workload.begin(id_, kind)  # nobody fences the work of one id when that of the next one begins
        self._workload.new_writes(random, operation, random.randint(1, 3))
        return operation

    # ------------------------------------------------------------ a job

    async def _run_job(self, client: Client, id_: str, random: Random) -> None:
        operation = self._begin(id_, "batch", random)
        expires = random.random() < _TOKEN_EXPIRES_SHARE
        try:
            result = await self._task(client, id_, operation, expires)
            await self._commit(client, id_, result, expires)
        except errors.OncelogError as error:
            self._workload.end(operation, Status.INFO, error)
            return
        self._workload.end(operation, Status.OK)
        if await self._stand_still(random):
            await self._commit_again(client, id_, result, expires)

    @staticmethod
    def _batch(id_: str, expires: bool) -> SharedBatch:
        return SharedBatch(id_, f"job-{id_}", APP, 0, "1", token_expires=expires)

    async def _task(self, client: Client, id_: str, operation: Operation, expires: bool) -> ParticipantResult:
        participant = await client.join_transaction(self._batch(id_, expires), lease_ms=3_000, **_TIMEOUTS)
        async with participant:
            self._workload.named.append((id_, participant.txn_no, operation))
            for (topic, partition), value in operation.writes:
                await participant.send(topic, value=self._workload.payload(topic, value), partition=partition)
            return await participant.flush()

    async def _commit(self, client: Client, id_: str, result: ParticipantResult, expires: bool) -> bool:
        answer = await client.commit_transaction(self._batch(id_, expires), result.txn_no, [result])
        return answer.already_committed

    async def _commit_again(self, client: Client, id_: str, result: ParticipantResult, expires: bool) -> None:
        """The driver has heard nothing of its commit."""
        try:
            already = await self._commit(client, id_, result, expires)
        except errors.OncelogError as error:
            self.refused += 1
            if not expires and not error.retriable:
                self.problems.append(
                    f"token-forgotten: {id_} {result.txn_no} is committed, and its driver heard {error!r}"
                )
            return
        if not already:
            self.problems.append(f"committed-twice: {id_} {result.txn_no}")
