"""One leadership over a real log on a simulated disk, with a follower that acknowledges when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.core.batch.control import Marker
from oncelog.core.batch.header import NO_SHARD, TRANSACTIONAL, partition_tag, read_header
from oncelog.errors import (
    OncelogError,
)
from oncelog.trace.tracing import Tracer
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.appends.commands import AppendBatch, AppendMarkerCommand, SettleCommand, Written
from oncelog_partition_leader.core.log.disk_levels import Thresholds
from oncelog_partition_leader.core.producers.transactions import TxnName, TxnSession
from oncelog_partition_leader.core.replication.replica_set import Ends, Registered, ReplicaSet
from oncelog_partition_leader.log.data_dir.disk_room import DiskRoom
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.partition.leadership import Leadership, PartitionName
from oncelog_partition_leader.partition.leadership_effects import LeadershipEffects
from oncelog_runtime.metadata.cluster_keys import Partition
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.sim import SimWorld
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.disk import SimDisk
from tests.sealing import sealed

TOPIC_ID = "0" * 32
A, B = BrokerRef(1, 11), BrokerRef(2, 12)


def named(*isr: BrokerRef) -> Partition:
    """What etcd says: A leads with this ISR."""
    return Partition("t", (1, 2), A, 0, isr)


class FakeHost:
    """The broker and the partition around a leadership: they remember what they were told."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.config = BrokerConfig(node_id=1)
        self.metrics = BrokerMetrics(NodeMetrics())
        self.disk_watch = DiskWatch(clock, 1_000, lambda _stalled: None)
        self.disk_room = DiskRoom(SimDisk(clock._loop, Random(1)), clock, Thresholds(0, 0))
        self.node_metrics = NodeMetrics()
        self.bugs = Bugs(self.node_metrics, clock)
        self.tracer: Tracer | None = None
        self.sync: Any = SimpleNamespace(request=lambda: self.told.append("sync"))
        self.leadership: Leadership | None = None
        self.told: list[str] = []
        self.ended: set[int] = set()
        self.enrolments: list[TxnSession] = []
        self.waiting: list[Leadership] = []

    def appended(self, leadership: Leadership) -> None:
        self.told.append("appended")

    def watermark_moved(self, leadership: Leadership) -> None:
        self.told.append("watermark")

    def isr_may_change(self, leadership: Leadership) -> None:
        self.told.append("isr")

    def waits(self, leadership: Leadership) -> None:
        self.waiting.append(leadership)

    def gone(self, brokers: Iterable[int]) -> Collection[int]:
        return self.ended & set(brokers)

    def taken_out(self, leadership: Leadership, broker_id: int) -> None:
        self.told.append(f"taken out {broker_id}")

    def enrol(self, leadership: Leadership, session: TxnSession, txn_shard: int, transactional_id: str) -> None:
        self.enrolments.append(session)

    def hand_over_nearly_full(self, leadership: Leadership) -> None:
        self.told.append("nearly full")

    def hand_over_full(self, leadership: Leadership) -> None:
        self.told.append("full")

    def wake_watchers(self) -> None:
        self.told.append("readers")

    def fail(self, error: OncelogError) -> None:
        """As the partition does: a failed log is not led."""
        self.told.append("broken" if error.context["reason"] == "bug" else "failed")
        assert self.leadership is not None
        self.leadership.end(error)


class Leading:
    """A leadership of A over an empty log, with B in the ISR."""

    def __init__(self, log: PartitionLog, host: FakeHost, min_insync: int = 2) -> None:
        self.log = log
        self.host = host
        replicas = ReplicaSet(
            A,
            Registered((1, 2), (A, B), mod_revision=5),
            Ends(high_watermark=0, log=0, own=0),
            min_insync_replicas=min_insync,
            lag_max_ms=1_000,
            now_ms=0,
        )
        self.leadership = host.leadership = Leadership(
            host,
            PartitionName(PartitionId(TOPIC_ID, 0), "t", partition_tag(TOPIC_ID, 0)),
            log,
            TopicConfig(min_insync_replicas=min_insync),
            3,
            replicas,
            LeadershipEffects(host, host).carry_out,
        )
        self.leadership.start_session(B, 1)
        self.acknowledge(0)

    def acknowledge(self, end: int) -> None:
        """B holds everything below `end`."""
        self.leadership.acknowledge(B, 1, end)

    def produce(self, data: bytes, acks: int = -1) -> asyncio.Future[Written]:
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        deadline_ms = self.host.clock.monotonic_ms() + 1_000
        command = AppendBatch(done, deadline_ms, acks, header=read_header(data), data=data, transactional_id="tx")
        self.leadership.submit(command, len(data))
        return done

    def mark(self, txn_no: int, *, committed: bool = True, epoch: int = 1) -> asyncio.Future[Written]:
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        marker = Marker(committed=committed, coordinator_epoch=epoch, session_epoch=0)
        command = AppendMarkerCommand(done, 1 << 60, name=TxnName(7, txn_no), txn_shard=1, marker=marker)
        self.leadership.submit(command)
        return done

    def settle(self, sequence: int, *, settle: bool = True) -> tuple[asyncio.Future[Written], SettleCommand]:
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        command = SettleCommand(
            done,
            1 << 60,
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            last_sequence=sequence,
            settle=settle,
        )
        self.leadership.submit(command)
        return done, command


def batch(
    producer_id: int = -1, sequence: int = -1, *, epoch: int = 0, txn_no: int = 0, payload: bytes = b"x"
) -> bytes:
    return sealed(
        payload,
        codec=0,
        attributes=TRANSACTIONAL if txn_no else 0,
        schema_id=0,
        record_count=1,
        producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1,
        base_sequence=sequence,
        txn_producer_id=7 if txn_no else -1,
        txn_no=txn_no,
        base_timestamp_ms=1,
        max_timestamp_ms=1,
        uncompressed_length=len(payload),
        tag=partition_tag(TOPIC_ID, 0),
        txn_shard=1 if txn_no else NO_SHARD,
    )


Scenario = Callable[[Leading], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture
def run() -> Run:
    """Runs a scenario on the simulated loop, and checks log and replica set afterwards."""

    def runs(scenario: Scenario) -> None:
        with SimWorld("leadership") as world:
            ports = world.node("b").ports

            async def main() -> None:
                ports.disk.make_dirs("logs")
                log = await PartitionLog.open(ports.disk, f"logs/t-{TOPIC_ID}-0", TopicConfig().log)
                clock = world.nodes["b"].clock
                leading = Leading(log, FakeHost(clock))
                await scenario(leading)
                log.check()
                leading.leadership.replicas.check()

            world.run(main())

    return runs


async def turn() -> None:
    """Lets everything that is ready run."""
    await asyncio.sleep(0.001)
