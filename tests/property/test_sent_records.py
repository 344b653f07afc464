"""What a producer is told of its records is what the logs hold, whatever becomes of leaders and topics meanwhile.

Rule 1: an acknowledged record is in the log at the offset that was told, and no record is in any log twice.
Rule 2: a record of which it was said that it is not written is in no log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.home.context import now_ms
from oncelog.client.produce.producer import Producer
from oncelog.core.produce.accumulator import Batch
from oncelog.wire import methods
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost, fast

Step = tuple[Any, ...]
PARTITIONS = st.sampled_from([0, 0, 1])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), PARTITIONS, st.integers(1, 4)),
        st.tuples(st.just("keyless"), st.integers(1, 4)),
        st.tuples(st.just("arrow"), PARTITIONS, st.integers(1, 4)),
        st.tuples(st.just("again"), st.booleans()),
        st.tuples(st.just("lead"), PARTITIONS, st.booleans()),
        st.tuples(st.just("refuse"), st.sampled_from([errors.InvalidRecordError, errors.NotEnoughReplicasError])),
        st.tuples(st.just("break"), st.sampled_from([errors.NetworkError, Lost])),
        st.tuples(st.just("throttle"), st.integers(1, 200)),
        st.tuples(st.just("pause"), st.sampled_from([0, 1, 50, 300])),
        st.tuples(st.just("flush")),
    ),
    max_size=30,
)
JOINED_AN_ENCODED_BATCH: list[Step] = [
    ("send", 0, 1), ("pause", 50), ("send", 0, 1), ("again", False), ("pause", 300), ("send", 0, 1), ("lead", 0, True),
]  # fmt: skip


class Work:
    """Carries steps out, and keeps what was sent: a value of its own for each record, and where it was queued."""

    def __init__(self, cluster: FakeCluster, client: Client, producer: Producer) -> None:
        self.cluster = cluster
        self.client = client
        self.producer = producer
        self.sends: list[asyncio.Task[None]] = []
        self.sent: dict[bytes, tuple[Batch, int]] = {}
        self.made = 0

    def values(self, count: int) -> list[bytes]:
        self.made += count
        return [b"%d" % number for number in range(self.made - count, self.made)]

    def begin(self, work: Any) -> None:
        self.sends.append(asyncio.create_task(work))

    async def send(self, partition: int | None, values: list[bytes]) -> None:
        for value in values:
            delivery = await self.producer.send(TOPIC, value, partition=partition)
            self.sent[value] = (delivery._batch, delivery._index)

    async def send_arrow(self, partition: int, values: list[bytes]) -> None:
        """One batch: they are few, and small."""
        (part,) = (await self.producer.send_batch(TOPIC, pa.record_batch({"value": values}), partition))._parts
        self.sent |= {value: (part.batch, index) for index, value in enumerate(values)}

    async def do(self, step: Step) -> None:
        cluster = self.cluster
        match step:
            case ("send", partition, count):
                self.begin(self.send(partition, self.values(count)))
            case ("keyless", count):
                self.begin(self.send(None, self.values(count)))
            case ("arrow", partition, count):
                self.begin(self.send_arrow(partition, self.values(count)))
            case ("again", is_led):
                cluster.create_again()
                for partition in cluster.leaders:
                    self.lead(partition, is_led)
            case ("lead", partition, is_led):
                self.lead(partition, is_led)
            case ("refuse", error):
                cluster.fail("append", error())
            case ("break", error):
                cluster.fail("Produce", error())
            case ("throttle", ms):
                self.client._context.throttles.told(BROKERS[0], methods.PRODUCE.name, ms, now_ms())
            case ("pause", ms):
                await asyncio.sleep(ms / 1000)
            case ("flush",):
                self.begin(self.producer._sender.flush())

    def lead(self, partition: int, is_led: bool) -> None:
        self.cluster.leaders[partition] = BROKERS[partition % 2] if is_led else None
        self.cluster.epochs[partition] += 1

    async def end(self) -> None:
        """All is well again, and every outcome known. What could not be queued was refused at the call."""
        self.cluster.faults.clear()
        for partition in self.cluster.leaders:
            self.lead(partition, True)
        told = await asyncio.gather(*self.sends, return_exceptions=True)
        assert all(error is None or isinstance(error, errors.BufferExhaustedError) for error in told)
        await self.producer._sender.flush()


def check(cluster: FakeCluster, sent: dict[bytes, tuple[Batch, int]]) -> None:
    written = Counter(record.value for log in cluster.logs.values() for _, record in log.records)
    assert set(written.values()) <= {1}
    for value, (batch, index) in sent.items():
        assert batch.done
        if batch.error is not None:
            assert batch.error.context.get("written") != "false" or value not in written
        else:
            assert value in written
            there = cluster.logs[batch.partition].records
            assert batch.base_offset < 0 or there[batch.base_offset + index][1].value == value


@given(STEPS, st.sampled_from([1, 5, 16]), st.sampled_from([0, 20]))
@example(JOINED_AN_ENCODED_BATCH, 5, 0)
@settings(max_examples=80)
def test_what_was_acknowledged_is_in_the_log_once(steps: list[Step], in_flight: int, linger_ms: int) -> None:
    cluster = FakeCluster()
    options = fast(
        max_in_flight_requests_per_connection=in_flight, linger_ms=linger_ms, batch_size=580, buffer_memory=6_000
    )

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            producer = await client.producer(**options).start()
            done = Work(cluster, client, producer)
            for step in steps:
                await done.do(step)
            await done.end()
            check(cluster, done.sent)
            with contextlib.suppress(errors.OncelogError):
                await producer.flush()  # its failures were looked at: else `close` raises the first of them

    cluster.run(work)
