"""Every line of the tables in docs/delivery.md, each by its name: what becomes of one record when something dies.

Rule 1: the application does what the page says of its preset: it sends again what was not acknowledged, it asks for the
        outcome of its transaction, or it does not look back.
Rule 2: a line is judged by how often a read_committed reader, or the application's work, sees the record in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from oncelog.client.produce.producer import Producer
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster, Log, Lost
from tests.unit.sdk.client.reading import EARLIEST, append

PAGE: Final = (Path(__file__).parents[4] / "docs/delivery.md").read_text()
SEEN: Final = {"lost": 0, "once": 1, "twice": 2}
PRESETS: Final = {"M": "at_most_once", "L": "at_least_once", "E": "exactly_once"}
LIMITS: Final = {"request_timeout_ms": 100, "default_api_timeout_ms": 2_000}


class Cluster(FakeCluster):
    """The scripted cluster, with transactions that take offsets along and end when their producer comes again."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: dict[int, dict[tuple[str, int], int]] = {}
        self.answers["GetOutcome"] = lambda _, request: co.GetOutcomeReply(
            outcome=types_pb2.TRANSACTION_OUTCOME_COMMITTED
            if self.ended.get(request.txn_no) == types_pb2.TRANSACTION_OUTCOME_COMMITTED
            else types_pb2.TRANSACTION_OUTCOME_ABORTED
        )

    async def _InitProducerId(self, address: str, request: Any, payload: bytes) -> tuple[Any, bytes]:
        self.next_txn_no += 1  # the number of the one before, if it is open, is spent
        return await super()._InitProducerId(address, request, payload)

    async def _SendOffsets(self, address: str, request: Any, payload: bytes) -> tuple[Any, bytes]:
        new = {(entry.topic_id, entry.partition): entry.offset for entry in request.offsets}
        self.pending.setdefault(request.name.txn_no, {}).update(new)
        return await super()._SendOffsets(address, request, payload)

    async def _EndTransaction(self, address: str, request: Any, payload: bytes) -> tuple[Any, bytes]:
        answer = await super()._EndTransaction(address, request, payload)
        if request.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED:
            self.offsets |= self.pending.pop(request.name.txn_no, {})
        return answer

    def seen(self, partition: int, value: bytes) -> int:
        """How often a read_committed reader sees it."""
        committed = {no for no, outcome in self.ended.items() if outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED}
        records = self.logs[PartitionId(TOPIC_ID, partition)].records
        return sum(r.value == value and (not h.is_transactional or h.txn_no in committed) for h, r in records)

    def lose_leader(self) -> None:
        """The leader dies, and with it what it has acknowledged without its followers."""
        if self.requests("Produce")[-1].acks == 0:
            self.logs[PartitionId(TOPIC_ID, 0)] = Log()
        self.leaders[0], self.epochs[0] = BROKERS[1], 1
        self.down.add(BROKERS[0])

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Returns when it is so."""
        async with asyncio.timeout(60):
            while not is_so():
                await self.pause()


# ------------------------------------------------------------------------------------------------ producers


@dataclass(frozen=True)
class Strike:
    """One failure: the fault of a call, when the client dies, and what happens to the leader."""

    fault: BaseException | None = None
    method: str = "Produce"
    dies_when: Callable[[Cluster, App], bool] | None = None
    linger_ms: int = 0
    beside: Callable[[Cluster, App], Awaitable[None]] | None = None


@dataclass
class App:
    """What the application knows of its record."""

    preset: str
    txn_no: int = -1
    is_acknowledged: bool = False
    is_done: bool = False
    waits_after_ack: bool = False

    async def write(self, producer: Producer) -> None:
        """Writes the record as its preset wants it."""
        if self.preset != "exactly_once":
            await producer.send_and_wait(TOPIC, b"v", partition=0)
            self.is_acknowledged = self.is_done = True
            return
        async with producer.transaction() as txn:
            self.txn_no = txn.txn_no
            await (await txn.send(TOPIC, b"v", partition=0))
            self.is_acknowledged = True
            if self.waits_after_ack:
                await asyncio.sleep(1_000)
        self.is_done = True


async def down_for_a_while(cluster: Cluster, _: App) -> None:
    cluster.down.add(BROKERS[0])
    await asyncio.sleep(0.3)
    cluster.down.clear()


async def leader_dies_when_written(cluster: Cluster, _: App) -> None:
    await cluster.until(lambda: bool(cluster.values(0)))
    cluster.lose_leader()


async def leader_dies_when_acknowledged(cluster: Cluster, app: App) -> None:
    await cluster.until(lambda: app.is_acknowledged and bool(cluster.values(0)))
    cluster.lose_leader()


STRIKES: Final = {
    "queued, the client dies": Strike(linger_ms=5_000, dies_when=lambda cluster, _: bool(cluster.calls)),
    "queued, the broker is away": Strike(beside=down_for_a_while),
    "queued, the network refuses": Strike(errors.NetworkError(refused="true")),
    "on its way, the client dies": Strike(
        errors.NetworkError(), dies_when=lambda cluster, _: cluster.count("Produce") > 0
    ),
    "on its way, broker or network dies": Strike(errors.NetworkError()),
    "written, the client dies": Strike(Lost(), dies_when=lambda cluster, _: bool(cluster.values(0))),
    "written, the broker dies": Strike(Lost(), beside=leader_dies_when_written),
    "written, the network dies": Strike(Lost()),
    "acknowledged, the client dies": Strike(dies_when=lambda _, app: app.is_acknowledged),
    "acknowledged, the broker dies": Strike(beside=leader_dies_when_acknowledged),
    "commit not answered, the client dies": Strike(
        Lost(), "EndTransaction", dies_when=lambda cluster, _: bool(cluster.ended)
    ),
    "commit not answered, coordinator or network dies": Strike(Lost(), "EndTransaction"),
}


async def attempt(cluster: Cluster, app: App, strike: Strike) -> None:
    """One life of the application."""
    options: dict[str, Any] = {"transactional_id": "t"} if app.preset == "exactly_once" else {}
    client = cluster.client(**LIMITS)
    await client.start()
    producer = client.producer(delivery=app.preset, linger_ms=strike.linger_ms, **options)
    cluster.fail(strike.method, strike.fault)
    beside = asyncio.ensure_future(strike.beside(cluster, app)) if strike.beside else None
    working = asyncio.ensure_future(app.write(producer))
    if strike.dies_when is not None:
        await cluster.until(lambda: strike.dies_when is not None and strike.dies_when(cluster, app))
        with contextlib.suppress(errors.OncelogError):
            await producer.close(timeout_ms=0)  # what a death leaves: nothing is asked for, nothing is waited for
        working.cancel()
    with contextlib.suppress(errors.OncelogError, asyncio.CancelledError):
        await working
    if beside is not None:
        await beside
    with contextlib.suppress(errors.OncelogError):
        await client.close()


async def written(cluster: Cluster, preset: str, strike: Strike) -> int:
    """How often a reader sees the record when the application has recovered."""
    app = App(preset, waits_after_ack=strike is STRIKES["acknowledged, the client dies"])
    await attempt(cluster, app, strike)
    if preset == "at_most_once" or app.is_done:
        return cluster.seen(0, b"v")
    cluster.faults.clear()
    if preset == "exactly_once" and app.txn_no >= 0:
        async with cluster.client(**LIMITS) as client:
            if (await client.get_outcome("t", app.txn_no)).outcome == "committed":
                return cluster.seen(0, b"v")
    await attempt(cluster, App(preset), Strike())
    return cluster.seen(0, b"v")


# ------------------------------------------------------------------------------------------------ consumers


@dataclass(frozen=True)
class Blow:
    """Where a consumer dies (empty: it does not), and what its first commit meets."""

    dies: str = ""
    fault: BaseException | None = None


BLOWS: Final = {
    "returned, the client dies": Blow("returned"),
    "processed, the client dies": Blow("processed"),
    "processed, coordinator or network is away": Blow("", errors.NetworkError()),
    "processed, cut off until another member takes over": Blow("committed", errors.UnknownMemberError()),
    "commit not answered, the client dies": Blow("committing", Lost()),
    "committed, the client dies": Blow("committed"),
}


class Died(Exception):
    """The client is no more."""


class Work:
    """The application's work on what it reads: a list, or records in the other partition under exactly once."""

    def __init__(self, cluster: Cluster, preset: str) -> None:
        self.cluster = cluster
        self.preset = preset
        self.processed: list[bytes] = []

    async def live(self, blow: Blow) -> None:
        """One life, which ends where the blow says, else when everything is read."""
        method = "EndTransaction" if self.preset == "exactly_once" else "CommitOffsets"
        self.cluster.faults = {method: []}
        self.cluster.fail(method, blow.fault)
        client = self.cluster.client(**LIMITS)
        options: dict[str, Any] = {} if self.preset == "exactly_once" else {"auto_commit_interval_ms": 100}
        consumer = client.consumer(**EARLIEST, group_id="g", delivery=self.preset, **options)
        await consumer.assign([(TOPIC, 0)])
        exact = (
            client.producer(delivery="exactly_once", transactional_id="t") if self.preset == "exactly_once" else None
        )
        working = asyncio.ensure_future(self._rounds(consumer, exact, blow))
        if blow.dies == "committing":
            await self.cluster.until(lambda: max(self.cluster.offsets.values(), default=0) > 0)
            working.cancel()
        with contextlib.suppress(Died, asyncio.CancelledError, errors.OncelogError):
            await working
        consumer._commits._is_on = False  # the dead commit nothing
        if exact is not None:
            with contextlib.suppress(errors.OncelogError):
                await exact.close(timeout_ms=0)
        await client.close()

    async def _rounds(self, consumer: Consumer, exact: Producer | None, blow: Blow) -> None:
        while records := await consumer.getmany(timeout_ms=300, max_records=1):
            self._die(blow, "returned")
            if exact is None:
                self.processed += [record.value for record in records]
                self._die(blow, "processed")
            else:
                async with exact.transaction() as txn:
                    await txn.send(TOPIC, records[0].value, partition=1)
                    await txn.send_offsets(records)
                    await txn.flush()
                    self._die(blow, "processed")
            await asyncio.sleep(0.2)  # so that the next read commits
            if blow.dies in ("committed", "committing") and self.preset == "at_least_once":
                await consumer.getmany(timeout_ms=50, max_records=1)  # it dies with the next one in its hands
                await self.cluster.pause()
            self._die(blow, "committed")

    def _die(self, blow: Blow, where: str) -> None:
        if blow.dies == where:
            raise Died

    def count(self) -> int:
        """How often the work on the first record was done."""
        return self.processed.count(b"0") + self.cluster.seen(1, b"0")


async def worked(cluster: Cluster, preset: str, blow: Blow) -> int:
    """How often the first record was processed, when a successor has read the rest."""
    append(cluster, [b"0", b"1", b"2"])
    work = Work(cluster, preset)
    await work.live(blow)
    await work.live(Blow())
    return work.count()


# ------------------------------------------------------------------------------------------------ the page

ROW: Final = re.compile(r"^\| ([MLE])([PC])(\d+) \| ([^|]+?) \| (\w+)[^|]*\|$", re.MULTILINE)
LINES: Final = [
    (f"{p}{kind}{number}", PRESETS[p], kind, event, result) for p, kind, number, event, result in ROW.findall(PAGE)
]


@pytest.mark.parametrize(("line", "preset", "kind", "event", "result"), LINES, ids=[line[0] for line in LINES])
def test_line(line: str, preset: str, kind: str, event: str, result: str) -> None:
    """What the page says of this line is what happens."""
    cluster = Cluster()

    async def play(_: FakeCluster) -> int:
        if kind == "P":
            return await written(cluster, preset, STRIKES[event])
        return await worked(cluster, preset, BLOWS[event])

    assert cluster.run(play) == SEEN[result], f"{line}: {event}"


def test_each_line_has_its_test_and_each_failure_a_line_for_every_preset() -> None:
    rows = [row for row in PAGE.splitlines() if re.match(r"\| [A-Z]{2}\d", row)]
    assert len(rows) == len(LINES) == len({line[0] for line in LINES})
    told = {(preset, kind, event) for _, preset, kind, event, _ in LINES}
    of_transactions = [event for event in STRIKES if event.startswith("commit not answered")]
    expected = {
        (preset, "P", event)
        for preset in PRESETS.values()
        for event in STRIKES
        if preset == "exactly_once" or event not in of_transactions
    }
    assert told == expected | {(preset, "C", event) for preset in PRESETS.values() for event in BLOWS}
