"""The spans of producers, transactions, participants and consumers: who is whose parent, and what is in the headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace

from oncelog import errors
from oncelog.client.client import Client
from oncelog.trace import tracing
from oncelog.trace.tracing import Kind
from tests.spans import Recorder, error_type, failed, recording_tracer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster, Lost

SEND, CREATE = f"send {TOPIC}", f"create {TOPIC}"
Work = Callable[[Client], Coroutine[Any, Any, Any]]


def traced(work: Work, sampler: str = "parentbased_always_on") -> tuple[Recorder, FakeCluster, Any]:
    """What the work of a traced client recorded."""
    cluster = FakeCluster()
    tracer, spans = recording_tracer(sampler)

    async def run(_: FakeCluster) -> Any:
        async with cluster.client(tracer=tracer, default_api_timeout_ms=2_000) as client:
            return await work(client)

    result = cluster.run(run)
    assert spans.open == {}, "a span was never ended"
    return spans, cluster, result


def context_of(span: Any) -> str:
    return tracing.format_traceparent(span.context.trace_id, span.context.span_id, span.context.trace_flags)


def links_of(span: Any) -> list[int]:
    return [link.context.span_id for link in span.links]


async def read_headers(client: Client) -> list[dict[str, bytes | None]]:
    async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
        return [dict(record.headers) for record in await consumer.getmany(1_000)]


class TestSending:
    def test_a_record_is_created_and_sent_in_one_trace_and_its_header_says_so(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                await producer.send_and_wait(TOPIC, b"v", headers={"mine": b"1"})
            return await read_headers(client)

        spans, _, headers = traced(work)
        create, send = spans.one(CREATE, "PRODUCER"), spans.one(SEND, "CLIENT")
        assert send.parent.span_id == create.context.span_id
        assert headers == [{"mine": b"1", "traceparent": context_of(create).encode()}]
        assert send.attributes["messaging.batch.message_count"] == 1
        assert send.attributes["messaging.destination.partition.id"].isdigit()

    def test_the_applications_span_is_the_parent_of_both(self) -> None:
        async def work(client: Client) -> Any:
            tracer = client._context.tracer
            assert tracer is not None
            app = tracer.start("app", Kind.SERVER, "")
            async with client.producer() as producer:
                with tracer.use(app):
                    delivery = await producer.send(TOPIC, b"v")
                app.end()
                await delivery  # the sender works when the application's span is long over, and gone from the context

        spans, _, _ = traced(work)
        app, create, send = spans.one("app"), spans.one(CREATE), spans.one(SEND)
        assert create.parent.span_id == send.parent.span_id == app.context.span_id
        assert links_of(send) == [create.context.span_id]

    def test_a_batch_of_two_traces_belongs_to_the_first_and_is_linked_to_the_other(self) -> None:
        async def work(client: Client) -> Any:
            tracer = client._context.tracer
            assert tracer is not None
            async with client.producer(linger_ms=20) as producer:
                for name in ("one", "two"):
                    app = tracer.start(name, Kind.SERVER, "")
                    with tracer.use(app):
                        await producer.send(TOPIC, b"v", partition=0)
                    app.end()
                await producer.flush()

        spans, _, _ = traced(work)
        send = spans.one(SEND)
        creates = [span for span in spans.ended if span.name == CREATE]
        assert send.parent.span_id == spans.one("one").context.span_id
        assert links_of(send) == [span.context.span_id for span in creates]

    def test_a_traceparent_of_the_user_stays_and_is_linked(self) -> None:
        theirs = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"

        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                await producer.send_and_wait(TOPIC, b"v", headers=[("Traceparent", theirs)])
            return await read_headers(client)

        spans, _, headers = traced(work)
        assert headers == [{"Traceparent": theirs.encode()}]
        assert links_of(spans.one(SEND)) == [int("b" * 16, 16)]

    def test_a_retried_batch_is_one_send(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer(request_timeout_ms=50) as producer:
                await producer.send_and_wait(TOPIC, b"v")

        cluster = FakeCluster()
        tracer, spans = recording_tracer()

        async def run(_: FakeCluster) -> None:
            cluster.fail("Produce", Lost(), errors.NotLeaderError())
            async with cluster.client(tracer=tracer) as client:
                await work(client)

        cluster.run(run)
        assert spans.names().count(SEND) == 1
        assert not failed(spans.one(SEND))
        assert spans.open == {}

    def test_a_batch_that_is_refused_fails_its_send(self) -> None:
        cluster = FakeCluster()
        tracer, spans = recording_tracer()

        async def run(_: FakeCluster) -> None:
            cluster.fail("Produce", errors.InvalidRecordError("no"))
            async with cluster.client(tracer=tracer) as client, client.producer() as producer:
                with pytest.raises(errors.InvalidRecordError):
                    await producer.send_and_wait(TOPIC, b"v")

        cluster.run(run)
        assert error_type(spans.one(SEND)) == "INVALID_RECORD"
        assert spans.open == {}

    def test_a_record_that_is_refused_at_once_fails_its_create(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                with pytest.raises(errors.InvalidRecordError):
                    await producer.send(TOPIC, object())

        spans, _, _ = traced(work)
        assert failed(spans.one(CREATE))

    def test_many_rows_have_one_create(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                await producer.send_many(TOPIC, [b"1", b"2", b"3"])
                await producer.send_batch(TOPIC, pa.record_batch({"value": [b"4", b"5"]}))
                await producer.flush()

        spans, _, _ = traced(work)
        counts = [s.attributes["messaging.batch.message_count"] for s in spans.ended if s.name == CREATE]
        assert counts == [3, 2]

    def test_what_is_not_sampled_leaves_records_alone_and_tells_the_broker(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                await producer.send_and_wait(TOPIC, b"v")
            return await read_headers(client)

        spans, _, headers = traced(work, "always_off")
        assert spans.ended == []
        assert headers == [{}]


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


class TestReading:
    def test_a_poll_is_linked_to_where_its_records_came_from(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                await producer.send_and_wait(TOPIC, b"1")
                await producer.send_and_wait(TOPIC, b"2")
            async with client.consumer(TOPIC, auto_offset_reset="earliest", group_id="g") as consumer:
                got = 0
                while got < 2:
                    got += len(await consumer.getmany(1_000))
                assert await consumer.getmany(1) == []

        spans, _, _ = traced(work)
        polls = [span for span in spans.ended if span.name == f"poll {TOPIC}"]
        creates = [span.context.span_id for span in spans.ended if span.name == CREATE]
        assert sorted(link for poll in polls for link in links_of(poll)) == sorted(creates)
        assert all(poll.parent is None for poll in polls)
        assert sum(poll.attributes["messaging.batch.message_count"] for poll in polls) == 2
        assert polls[0].attributes["messaging.consumer.group.name"] == "g"

    @pytest.mark.parametrize("parent", ["link", "message"])
    def test_processing_is_linked_or_belongs_to_the_message(self, parent: str) -> None:
        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                await producer.send_and_wait(TOPIC, b"1")
            options = {"auto_offset_reset": "earliest", "trace_consumer_parent": parent}
            async with client.consumer(TOPIC, **options) as consumer:
                (record,) = await consumer.getmany(1_000)
                with consumer.processing(record):
                    assert trace.get_current_span().get_span_context().is_valid
                with pytest.raises(KeyError), consumer.processing(record):
                    raise KeyError

        spans, _, _ = traced(work)
        create = spans.one(CREATE)
        good, bad = (span for span in spans.ended if span.name == f"process {TOPIC}")
        assert good.kind.name == "CONSUMER"
        assert failed(bad)
        assert not failed(good)
        if parent == "link":
            assert links_of(good) == [create.context.span_id]
            assert good.parent is None
        else:
            assert good.parent.span_id == create.context.span_id

    def test_background_fetches_belong_to_nobody(self) -> None:
        async def work(client: Client) -> Any:
            tracer = client._context.tracer
            assert tracer is not None
            app = tracer.start("app", Kind.SERVER, "")
            with tracer.use(app):
                async with client.consumer(TOPIC, auto_offset_reset="earliest") as consumer:
                    await consumer.getmany(100)
            app.end()

        spans, cluster, _ = traced(work)
        assert cluster.count("Fetch") > 0
        assert spans.names() == ["app"]
