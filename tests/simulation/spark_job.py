"""A Spark-like job: many writers, one transaction per micro-batch, a driver that crashes, tasks that are repeated.

The rows of a batch follow from its number, as Spark's do from its offsets; whoever writes the batch again writes the
same rows. So each value may be written many times, and must be seen once.

Rule 1: a batch is one operation of the history, from its first join until its commit is definite, whatever runs it.
Rule 2: a task's attempt that fails, or that the driver does not pick, is a loser: its data must never be seen.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from tests.simulation.history import Operation, Status
from tests.simulation.workload import Workload

APP: Final = "app"
_TASKS_MAX: Final = 3


class _DiedError(Exception):
    """A driver's or a task's process is gone; what it started goes on for a while."""


@dataclass(slots=True)
class _Batch:
    number: int
    operation: Operation
    shares: list[range]
    """Which of the operation's writes each task has."""


class SparkJob:
    """One streaming query. `main` runs it until the workload stops; `committed` counts its batches."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.committed = 0
        self.replayed = 0
        self.runs = 0
        self._workload = workload
        self._name = name
        self._run = ""
        self._attempts = 0
        self._zombies: list[asyncio.Task[ParticipantResult | None]] = []

    async def main(self, name: str) -> None:
        """To be spawned; ends with the batch that is under way when the workload stops, or with that batch open."""
        random = self._workload.cluster.world.random(name)
        client = self._workload.cluster.client(name, default_api_timeout_ms=6_000, close_timeout_ms=2_000)
        try:
            await self._batches(client, random)
        finally:
            for zombie in self._zombies:
                zombie.cancel()
            await asyncio.gather(*self._zombies, return_exceptions=True)
            await client.close()

    async def _batches(self, client: Client, random: Random) -> None:
        number = 0
        self._new_run()
        while not self._is_over():
            batch = self._plan(number, random)
            while not await self._try(client, batch, random):
                if self._is_over():
                    return  # the batch stays INFO
            number += 1
            self.committed += 1
            await asyncio.sleep(random.random() * 0.3)

    def _is_over(self) -> bool:
        return self._workload.stopping

    def _plan(self, number: int, random: Random) -> _Batch:
        operation = self._workload.begin(self._name, "batch")
        self._workload.new_writes(random, operation, random.randint(0, 6))
        count = random.randint(1, _TASKS_MAX)
        writes = len(operation.writes)
        shares = [range(writes * i // count, writes * (i + 1) // count) for i in range(count)]
        return _Batch(number, operation, shares)

    def _new_run(self) -> None:
        self.runs += 1
        self._run = f"run-{self.runs:04}"

    async def _try(self, client: Client, batch: _Batch, random: Random) -> bool:
        """One attempt of the batch. False: the query failed or its driver died; a new run goes on with the same batch."""
        self._attempts += 1
        attempt = f"{self._attempts:06}"
        try:
            already = await self._attempt(client, batch, attempt, random)
        except (errors.OncelogError, _DiedError) as error:
            self._workload.causes[f"batch {type(error).__name__}"] += 1
            if isinstance(error, errors.OncelogError) and random.random() < 0.5:
                await self._abort(client, batch)
            self._new_run()
            await asyncio.sleep(random.random() * 0.5)
            return False
        self.replayed += already
        self._workload.end(batch.operation, Status.OK)
        return True

    async def _abort(self, client: Client, batch: _Batch) -> None:
        """What Spark calls after a failure; a late one must not harm what follows."""
        numbers = [number for name, number, operation in self._workload.named if operation is batch.operation]
        try:
            await client.abort_transaction(self._names(batch), max(numbers, default=1))
        except errors.OncelogError:
            pass

    def _names(self, batch: _Batch, attempt: str = "") -> SharedBatch:
        return SharedBatch(self._name, self._run, APP, batch.number, attempt)

    async def _attempt(self, client: Client, batch: _Batch, attempt: str, random: Random) -> bool:
        """True: the batch was committed by an earlier attempt."""
        tasks = [self._task(client, batch, attempt, share, random) for share in batch.shares]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        winners = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            winners.append(result)
        if random.random() < 0.1:
            raise _DiedError("before the commit")
        written = [winner for winner in winners if winner is not None]
        if len(written) < len(winners):
            return True  # some task heard that the batch is committed already
        txn_no = written[0].txn_no
        if any(winner.txn_no != txn_no for winner in written):
            raise errors.TxnEndedError("the tasks joined different transactions")
        return await self._commit(client, batch, attempt, txn_no, written, random)

    async def _commit(
        self, client: Client, batch: _Batch, attempt: str, txn_no: int, winners: list[ParticipantResult], random: Random
    ) -> bool:
        asking = asyncio.ensure_future(
            self._ask(client, batch, attempt, txn_no, winners, random.choice(["decided", "visible"]))
        )
        if random.random() < 0.1:  # the driver dies at any moment of the commit
            await asyncio.wait([asking], timeout=random.random() * 0.02)
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])
                raise _DiedError("during the commit")
        already = await asking
        if random.random() < 0.1:
            self._new_run()
            raise_after = await self._task(client, batch, f"{attempt}-again", batch.shares[0], random)
            assert raise_after is None, "a committed batch takes no more writers"
        return already

    async def _ask(
        self, client: Client, batch: _Batch, attempt: str, txn_no: int, winners: list[ParticipantResult], wait: str
    ) -> bool:
        while True:
            try:
                reply = await client.commit_transaction(self._names(batch, attempt), txn_no, winners, wait=wait)
            except errors.CommitOutcomeUnknownError:
                if self._workload.stopping:
                    raise
                continue
            return reply.already_committed

    # ------------------------------------------------------------ tasks

    async def _task(
        self, client: Client, batch: _Batch, attempt: str, share: range, random: Random
    ) -> ParticipantResult | None:
        """Attempts of one task until one is done; some fail half-way, some go on as zombies beside the next one."""
        for number in range(4):
            fails = random.random() < 0.15
            speculative = random.random() < 0.1
            if speculative:
                extra = self._write(client, batch, attempt, f"{number}s", share, random, fails=False)
                self._zombies.append(asyncio.ensure_future(extra))
            try:
                return await self._write(client, batch, attempt, str(number), share, random, fails=fails)
            except _DiedError:
                continue
        raise errors.DeliveryTimedOutError("the task failed four times")

    async def _write(
        self, client: Client, batch: _Batch, attempt: str, task: str, share: range, random: Random, *, fails: bool
    ) -> ParticipantResult | None:
        participant = await client.join_transaction(
            self._names(batch, attempt),
            task_attempt=task,
            lease_ms=3_000,
            delivery_timeout_ms=6_000,
            request_timeout_ms=1_500,
        )
        async with participant:
            if participant.already_committed:
                return None
            self._workload.named.append((self._name, participant.txn_no, batch.operation))
            for index in share:
                (topic, partition), value = batch.operation.writes[index]
                await participant.send(topic, value=self._workload.payload(topic, value), partition=partition)
                if random.random() < 0.1:
                    await asyncio.sleep(random.random())
            if fails:
                await asyncio.sleep(random.random() * 0.05)
                raise _DiedError("the task's process died")
            return await participant.flush()
