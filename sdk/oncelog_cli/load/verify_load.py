"""The load of `oncelog verify`: producers that commit and abort, a reader that follows, and a second reader at the end.

Rule 1: an outcome is what the cluster said. A commit without an answer is asked for again; what is never answered is
        UNKNOWN, and is then judged as such.
Rule 2: a producer that is finished by an error is replaced, under the same transactional id.
Rule 3: the second reader is a new client: it remembers nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from oncelog import Client, Transaction
from oncelog.core.verification import (
    ANOMALIES,
    RECORD_BYTES_MIN,
    Anomaly,
    Ledger,
    Outcome,
    Place,
    Reading,
    seal_record,
)
from oncelog.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    LeaderNotAvailableError,
    OncelogError,
    TxnAbortedError,
)
from oncelog_cli.load.exporter import Exporter
from oncelog_cli.load.verdict import Verdict, show
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.progress import Progress, Samples, report, topic_for

if TYPE_CHECKING:
    from oncelog.client.consume.consumer import Consumer
    from oncelog.client.consume.fetched_records import ConsumerRecord
    from oncelog.client.produce.producer import Producer

_COMMIT_TRIES: Final = 5
_POLL_MS: Final = 200
_PAUSE_S: Final = 0.1


class Verification:
    """One run over one topic. `name` begins its transactional ids; `on_latency` gets each record's end-to-end ms."""

    def __init__(
        self,
        client: Client,
        args: argparse.Namespace,
        topic: str,
        name: str,
        on_latency: Callable[[float], None] | None = None,
    ) -> None:
        if args.record_size < RECORD_BYTES_MIN:
            raise ConfigError(f"--record-size is at least {RECORD_BYTES_MIN}", given=args.record_size)
        self._client = client
        self._args = args
        self._topic = topic
        self._name = name
        self._run = time.time_ns()
        self._on_latency = on_latency
        self._random = random.Random(self._run)
        self._partitions: list[int] = []
        self._start: dict[int, int] = {}
        self._stop_at = 0.0
        self._ends: dict[int, int] | None = None
        self.ledger = Ledger()
        self.latency = Samples()
        self.failed: Counter[str] = Counter()
        self.reading = Reading(self._run)

    # ------------------------------------------------------------ the run

    async def run(self) -> Verdict:
        """Writes, follows, reads again; the result as it is printed."""
        self._start = await self._ends_now()
        self._partitions = sorted(self._start)
        began = time.monotonic()
        self._stop_at = began + self._args.duration
        following = asyncio.create_task(self._read(self._client, self.reading))
        try:
            await asyncio.gather(*(self._produce(i) for i in range(self._args.producers)))
            seconds = time.monotonic() - began
            stuck = await self._wait_stable()
            stuck += await following
        finally:
            following.cancel()
        anomalies = stuck + self.reading.finish(self.ledger)
        again = Reading(self._run)
        stuck = await self._read_again(again)
        for anomaly in stuck + again.finish(self.ledger, earlier=self.reading):
            if anomaly.name not in {known.name for known in anomalies}:
                anomalies.append(anomaly)
        return self._result(seconds, anomalies)

    async def _ends_now(self) -> dict[int, int]:
        """Where each partition ends before the first record. Raises `LeaderNotAvailableError`: none may be left out."""
        admin = self._client.admin
        wanted = {found.partition for found in (await admin.describe_topic(self._topic)).partitions}
        give_up_at = time.monotonic() + self._client.config.default_api_timeout_ms / 1000
        while True:
            offsets = await admin.partition_offsets(self._topic)
            if not (silent := wanted - offsets.keys()):
                return {partition: found.high_watermark for partition, found in offsets.items()}
            if time.monotonic() >= give_up_at:
                raise LeaderNotAvailableError(
                    "no leader answers for all of the topic: see `oncelog cluster health`",
                    topic=self._topic,
                    partitions=",".join(map(str, sorted(silent))),
                )
            await asyncio.sleep(_PAUSE_S)

    def _result(self, seconds: float, anomalies: list[Anomaly]) -> Verdict:
        return {
            "topic": self._topic,
            "exactly_once": not anomalies,
            "seconds": round(seconds, 1),
            "committed": self.ledger.count(Outcome.COMMITTED),
            "aborted": self.ledger.count(Outcome.ABORTED),
            "unknown": self.ledger.count(Outcome.UNKNOWN),
            "records": self.ledger.records(),
            "failed_calls": dict(sorted(self.failed.items())),
            "end_to_end_ms": self.latency.summary(),
            "anomalies": [{"name": a.name, "detail": a.detail, "meaning": ANOMALIES[a.name]} for a in anomalies],
        }

    def stop(self) -> None:
        """Nothing new is begun from now on."""
        self._stop_at = min(self._stop_at, time.monotonic())

    def progress(self) -> str:
        """One line about what has happened so far."""
        left = max(0.0, self._stop_at - time.monotonic())
        latency = self.latency.summary()
        return (
            f"{left:.0f} s left: {self.ledger.count(Outcome.COMMITTED)} committed,"
            f" {self.ledger.count(Outcome.ABORTED)} aborted, {self.reading.records} records read,"
            f" p50 {latency['p50']} ms, p99 {latency['p99']} ms, {len(self.reading.anomalies)} anomalies"
        )

    # ------------------------------------------------------------ writing

    async def _produce(self, number: int) -> None:
        transaction = 0
        while time.monotonic() < self._stop_at:
            try:
                async with self._client.producer(transactional_id=f"{self._name}-{number}") as producer:
                    while time.monotonic() < self._stop_at:
                        transaction += 1
                        began = time.monotonic()
                        goes_on = await self._transact(producer, number, transaction)
                        if not goes_on:
                            break
                        if self._args.rate:
                            await asyncio.sleep(max(0.0, began + 1 / self._args.rate - time.monotonic()))
            except OncelogError as error:
                self.failed[error.code.name] += 1
                await asyncio.sleep(_PAUSE_S)

    async def _transact(self, producer: Producer, number: int, transaction: int) -> bool:
        """One transaction. False: the producer is to be replaced."""
        counts: Counter[int] = Counter()
        self.ledger.began(number, transaction)
        try:
            txn = await producer.begin_transaction()
        except OncelogError:
            self.ledger.ended(number, transaction, Outcome.ABORTED, counts)
            raise
        try:
            for _ in range(self._args.txn_size):
                partition = self._random.choice(self._partitions)
                place = Place(self._run, number, transaction, partition, counts[partition])
                await txn.send(self._topic, seal_record(place, self._args.record_size), partition=partition)
                counts[partition] += 1
            if self._random.random() < self._args.abort_rate:
                await txn.flush()
                await txn.abort()
                outcome = Outcome.ABORTED
            else:
                outcome = await self._commit(txn)
        except OncelogError as error:
            self.failed[error.code.name] += 1
            outcome = await self._after_failure(txn)
        self.ledger.ended(number, transaction, outcome, counts)
        return outcome is not Outcome.UNKNOWN

    async def _commit(self, txn: Transaction) -> Outcome:
        for attempt in range(_COMMIT_TRIES):
            try:
                await txn.commit()
                return Outcome.COMMITTED
            except CommitOutcomeUnknownError as error:
                self.failed[error.code.name] += 1
                await asyncio.sleep(_PAUSE_S * attempt)
            except TxnAbortedError as error:
                self.failed[error.code.name] += 1
                return Outcome.ABORTED
        return Outcome.UNKNOWN

    @staticmethod
    async def _after_failure(txn: Transaction) -> Outcome:
        """Aborted, if the cluster says so."""
        try:
            await txn.abort()
        except OncelogError:
            return Outcome.UNKNOWN
        return Outcome.ABORTED

    # ------------------------------------------------------------ reading

    async def _read(self, client: Client, reading: Reading) -> list[Anomaly]:
        """Reads until `_ends` are reached; an anomaly when nothing comes any more before that."""
        quiet_since = time.monotonic()
        async with client.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([(self._topic, p) for p in self._partitions])
            for partition, offset in self._start.items():
                consumer.seek((self._topic, partition), offset)
            while late := await self._unread(consumer):
                found = await consumer.getmany(timeout_ms=_POLL_MS)
                for record in found:
                    self._take(reading, record)
                if found or self._ends is None:
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > self._args.timeout_ms / 1000:
                    return [Anomaly("not-readable", f"partitions {late}")]
        return []

    def _take(self, reading: Reading, record: ConsumerRecord) -> None:
        if self._ends is not None and record.offset >= self._ends[record.partition]:
            return  # written by another program, after the end
        place = reading.take(record.partition, record.offset, record.value)
        if place is not None and reading is self.reading:
            ms = max(0.0, time.time() * 1000 - record.timestamp_ms)
            self.latency.add(ms)
            if self._on_latency is not None:
                self._on_latency(ms)

    async def _unread(self, consumer: Consumer) -> list[int]:
        """Partitions whose end this consumer has not reached."""
        if self._ends is None:
            return self._partitions
        return [p for p, end in self._ends.items() if await consumer.position((self._topic, p)) < end]

    async def _wait_stable(self) -> list[Anomaly]:
        """Waits until nothing is open below the high watermark, and sets where reading ends."""
        deadline = time.monotonic() + self._args.timeout_ms / 1000
        while True:
            found = await self._client.admin.partition_offsets(self._topic)
            late = [p for p, at in found.items() if at.last_stable_offset < at.high_watermark]
            if len(found) == len(self._partitions) and (not late or self._args.topic):
                self._ends = {p: at.last_stable_offset for p, at in found.items()}
                return []
            if time.monotonic() > deadline:
                self._ends = {p: found[p].last_stable_offset if p in found else self._start[p] for p in self._start}
                return [Anomaly("not-live", f"partitions {sorted(set(self._partitions) - set(found)) + late}")]
            await asyncio.sleep(_PAUSE_S)

    async def _read_again(self, reading: Reading) -> list[Anomaly]:
        fresh = Client(**{f.name: getattr(self._client.config, f.name) for f in fields(self._client.config)})
        try:
            await fresh.start()
            return await self._read(fresh, reading)
        finally:
            await fresh.close()


def _name() -> str:
    """Two runs at once do not fence each other."""
    return f"oncelog-verify-{time.time_ns():x}"


async def verify(client: Client, args: argparse.Namespace, shown: bool) -> Verdict:
    """One run on its topic."""
    async with topic_for(client, args, "oncelog-verify") as topic:
        run = Verification(client, args, topic, _name())
        showing = asyncio.create_task(report(Progress(shown), run.progress))
        try:
            return await run.run()
        finally:
            showing.cancel()
            await asyncio.wait((showing,))


async def export(client: Client, args: argparse.Namespace, printer: Printer) -> int:
    """Runs round after round, and serves their metrics. Ends with Ctrl-C."""
    exporter, name = Exporter(), _name()
    async with exporter.serve(args.exporter), topic_for(client, args, "oncelog-verify") as topic:
        while True:
            try:
                result = await Verification(client, args, topic, name, exporter.latency).run()
            except OncelogError as error:
                exporter.failed({error.code.name: 1})
                await asyncio.sleep(1)
                continue
            exporter.round(result)
            if result["anomalies"] or result["failed_calls"]:
                show(result, printer)
