"""Each record of a transactional producer is in the transaction in which it was sent, or nowhere.

Sends, commits and aborts run at the same time, and sends wait for metadata and for room.
Rule 1: no record is written under the number of another transaction than its own.
Rule 2: what a commit tells the coordinator of a partition is what that transaction has there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog import errors
from oncelog.client.produce.producer import Producer
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.client.produce.writer import Message
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster

Step = tuple[Any, ...]
REFUSED = {
    errors.IllegalStateError,  # the transaction was over, when it began or when it had waited
    errors.TxnAbortedError,  # it was aborted in that moment
    errors.UnknownTopicError,  # no broker had heard of the topic
}
KINDS = ("single", "many", "arrow", "from a thread")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(KINDS), st.integers(0, 1), st.integers(1, 700)),
        st.tuples(st.just("end"), st.sampled_from([Transaction.commit, Transaction.abort])),
        st.tuples(st.just("end at once"), st.sampled_from([Transaction.commit, Transaction.abort])),
        st.tuples(st.just("late"), st.booleans()),
        st.tuples(st.just("pause"), st.sampled_from([0, 1, 20])),
    ),
    max_size=25,
)
WAITED_FOR_METADATA: list[Step] = [
    ("late", True), ("send", "single", 0, 9), ("pause", 1), ("end", Transaction.abort), ("late", False), ("pause", 1),
    ("send", "single", 0, 9), ("pause", 20), ("end", Transaction.commit),
]  # fmt: skip
WAITED_FOR_ROOM: list[Step] = [
    ("send", "single", 0, 700), ("send", "arrow", 0, 700), ("pause", 0), ("end", Transaction.commit),
]  # fmt: skip


class Work:
    """Carries steps out. Each value begins with the place of its transaction in `begun`."""

    def __init__(self, cluster: FakeCluster, producer: Producer) -> None:
        self.cluster = cluster
        self.producer = producer
        self.begun: list[Transaction] = []
        self.tasks: list[asyncio.Task[Any]] = []

    async def begin(self) -> None:
        self.begun.append(await self.producer.begin_transaction())

    async def send(self, kind: str, partition: int, size: int) -> None:
        txn, value = self.begun[-1], (b"%d:" % (len(self.begun) - 1)).ljust(size, b".")
        if kind == "single":
            await txn.send(TOPIC, value, partition=partition)
        elif kind == "many":
            await txn.send_many(TOPIC, [Message(value, partition=partition)] * 2)
        elif kind == "arrow":
            await txn.send_batch(TOPIC, pa.record_batch({"value": [value, value]}), partition)
        else:
            handover = txn.handover()
            given = handover.given(TOPIC, value, None, partition, None, ())
            assert given is not None
            await handover.put(given)

    async def do(self, step: Step) -> None:
        match step:
            case ("send", kind, partition, size):
                self.tasks.append(asyncio.create_task(self.send(kind, partition, size)))
            case ("end", how):
                await how(self.begun[-1])
                await self.begin()
            case ("end at once", how):
                self.tasks.append(asyncio.create_task(how(self.begun[-1])))
                await asyncio.sleep(0)
                while not self.begun[-1].outcome.endswith("ed"):
                    await self.cluster.pause()
                await self.begin()
            case ("late", True):
                self.cluster.late.update(BROKERS)
                self.producer._metadata.forget(TOPIC)
            case ("late", False):
                self.cluster.late.clear()
            case ("pause", ms):
                await asyncio.sleep(ms / 1000)


def check(cluster: FakeCluster, begun: list[Transaction]) -> None:
    written: dict[int, Counter[int]] = {}
    for partition, log in cluster.logs.items():
        for header, record in log.records:
            assert record.value is not None
            assert header.txn_no == begun[int(record.value.partition(b":")[0])].txn_no
            written.setdefault(header.txn_no, Counter())[partition.partition] += 1
    for request in cluster.end_requests:
        if request.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED:
            told = Counter({item.partition: item.records for item in request.counts})
            assert told == written.get(request.name.txn_no, Counter())


@given(STEPS)
@example(WAITED_FOR_METADATA)
@example(WAITED_FOR_ROOM)
@settings(max_examples=80)
def test_a_record_is_in_its_own_transaction_or_nowhere(steps: list[Step]) -> None:
    cluster = FakeCluster()
    options: dict[str, Any] = {"transactional_id": "t", "buffer_memory": 2_000, "batch_size": 1_000}

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(**options) as producer:
            done = Work(cluster, producer)
            await done.begin()
            for step in steps:
                await done.do(step)
            cluster.late.clear()
            told = await asyncio.gather(*done.tasks, return_exceptions=True)
            raised = {type(error) for error in told if isinstance(error, BaseException)}
            assert raised <= REFUSED
            await done.begun[-1].commit()
            check(cluster, done.begun)

    cluster.run(work)
