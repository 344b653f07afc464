"""One span holds a transaction from its begin to its end, whatever that is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from tests.spans import error_type, failed, recording_tracer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.traced import CREATE, SEND, traced


class TestTransactions:
    def test_one_span_from_begin_to_commit_holds_all(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer(transactional_id="t") as producer, producer.transaction() as txn:
                await txn.send(TOPIC, b"v", partition=0)
                await txn.send(TOPIC, b"v", partition=1)

        spans, _, _ = traced(work)
        txn = spans.one("txn commit", "INTERNAL")
        assert txn.parent is None
        assert {s.context.trace_id for s in spans.ended} == {txn.context.trace_id}
        assert all(s.parent.span_id == txn.context.span_id for s in spans.ended if s.name in (SEND, CREATE))
        assert txn.attributes["oncelog.txn.id"] == "t"
        assert txn.attributes["oncelog.txn.outcome"] == "committed"
        assert txn.attributes["oncelog.txn.number"] == "1"
        assert txn.attributes["oncelog.txn.partitions"] == 2

    def test_an_abort_is_named_and_is_no_error(self) -> None:
        async def work(client: Client) -> Any:
            async def block(producer: Any) -> None:
                async with producer.transaction() as txn:
                    await (await txn.send(TOPIC, b"v"))
                    raise KeyError

            async with client.producer(transactional_id="t") as producer:
                with pytest.raises(KeyError):
                    await block(producer)

        spans, _, _ = traced(work)
        txn = spans.one("txn abort")
        assert txn.attributes["oncelog.txn.outcome"] == "aborted"
        assert not failed(txn)

    def test_a_commit_without_an_answer_ends_the_span_with_its_error(self) -> None:
        cluster = FakeCluster()
        tracer, spans = recording_tracer()

        async def run(_: FakeCluster) -> None:
            cluster.fail("EndTransaction", *(errors.NetworkError() for _ in range(200)))
            options = {"request_timeout_ms": 50, "default_api_timeout_ms": 200}
            async with cluster.client(tracer=tracer, **options) as client:
                producer = client.producer(transactional_id="t")
                txn = await producer.begin_transaction()
                await txn.send(TOPIC, b"v")
                with pytest.raises(errors.CommitOutcomeUnknownError):
                    await txn.commit()
                assert spans.open == {}
                cluster.faults.clear()
                await txn.commit()

        cluster.run(run)
        assert error_type(spans.one("txn commit")) == "COMMIT_OUTCOME_UNKNOWN"

    def test_a_failed_send_aborts_and_the_span_says_abort(self) -> None:
        cluster = FakeCluster()
        tracer, spans = recording_tracer()

        async def run(_: FakeCluster) -> None:
            cluster.fail("Produce", errors.InvalidRecordError("no"))
            async with cluster.client(tracer=tracer) as client, client.producer(transactional_id="t") as producer:
                with pytest.raises(errors.InvalidRecordError):
                    async with producer.transaction() as txn:
                        await txn.send(TOPIC, b"v")

        cluster.run(run)
        assert spans.one("txn abort").attributes["oncelog.txn.outcome"] == "aborted"
        assert spans.open == {}

    def test_a_cancelled_block_leaves_no_span_open(self) -> None:
        async def work(client: Client) -> Any:
            began = asyncio.Event()

            async def block(producer: Any) -> None:
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, b"v")
                    began.set()
                    await asyncio.Event().wait()

            async with client.producer(transactional_id="t") as producer:
                task = asyncio.get_running_loop().create_task(block(producer))
                await began.wait()
                task.cancel()
                await asyncio.wait((task,))

        traced(work)
