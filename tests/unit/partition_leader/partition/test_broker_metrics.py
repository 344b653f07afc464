"""What a broker counts while it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from oncelog.errors import NotEnoughReplicasError, OncelogError, OutOfOrderSequenceError, ProducerFencedError
from oncelog.types import BrokerRef
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import Histogram, NodeMetrics
from oncelog_runtime.sim import SimWorld
from tests.unit.partition_leader.leading import TOPIC_ID, FakeHost, Leading, batch

A, B, B_AGAIN, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(2, 30), BrokerRef(3, 13)


def values(metrics: NodeMetrics) -> dict[str, float]:
    """name{labels} -> value, of counters."""
    return {
        f"{family.metric.name}{{{labels}}}": value
        for family in metrics.families()
        if family is not None
        for labels, value in family.rows
        if not isinstance(value, Histogram)
    }


class Clock:
    """Advances by a second with each look."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return float(self.looks)


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld("broker metrics") as made:
        yield made


def test_a_produced_batch_is_counted_in_each_phase(world: SimWorld) -> None:
    async def scenario() -> None:
        node = world.node("a")
        node.disk.make_dirs("logs")
        log = await PartitionLog.open(node.disk, f"logs/t-{TOPIC_ID}-0", LogConfig())
        host = FakeHost(node.clock)
        host.metrics = metrics = BrokerMetrics(NodeMetrics(Clock()))
        leading = Leading(log, host)
        data = batch(payload=b"x" * 50)
        done = [leading.produce(data), leading.produce(data)]
        await asyncio.sleep(0.001)
        traffic = metrics.traffic["t"]
        assert (traffic.records_in, traffic.bytes_in) == (2, 2 * len(data))
        assert sum(metrics.queue.counts) == sum(metrics.append.counts) == 2
        assert sum(metrics.replicate.counts) == 0, "nobody has acknowledged"
        leading.acknowledge(2)
        await asyncio.gather(*done)
        assert sum(metrics.replicate.counts) == 2
        assert metrics.queue.total == 2 + 1, "submitted at 1 and 2, begun at 3"
        assert metrics.append.total == 2
        assert leading.leadership.waiting == 0
        await log.close()

    world.run(scenario())


def test_a_refusal_is_counted_by_its_code(world: SimWorld) -> None:
    node = NodeMetrics()
    metrics = BrokerMetrics(node)
    refusals: tuple[OncelogError, ...] = (ProducerFencedError(), NotEnoughReplicasError(), OutOfOrderSequenceError())
    for error in refusals:
        metrics.refused(error)
    found = values(node)
    assert found["oncelog_producer_fenced_total{}"] == 1
    assert found['oncelog_append_errors_total{code="PRODUCER_FENCED"}'] == 1
    assert found['oncelog_append_errors_total{code="NOT_ENOUGH_REPLICAS"}'] == 1


@pytest.mark.parametrize(
    ("before", "after", "shrinks", "expands"),
    [
        ((A, B, C), (A, B, C), 0, 0),
        ((A, B, C), (A,), 2, 0),
        ((A,), (A, B), 0, 1),
        ((A, B), (A, B_AGAIN), 1, 1),
    ],
)
def test_isr_changes_are_counted_by_member(
    before: tuple[BrokerRef, ...], after: tuple[BrokerRef, ...], shrinks: int, expands: int
) -> None:
    node = NodeMetrics()
    BrokerMetrics(node).isr_changed(before, after)
    found = values(node)
    assert found[f"{names.ISR_SHRINKS.name}{{}}"] == shrinks
    assert found[f"{names.ISR_EXPANDS.name}{{}}"] == expands
