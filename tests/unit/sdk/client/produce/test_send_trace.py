"""A record is created and sent in one trace: who is whose parent, and what is in the headers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.trace.tracing import Kind
from tests.spans import error_type, failed, recording_tracer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster, Lost
from tests.unit.sdk.client.traced import CREATE, SEND, context_of, links_of, read_headers, traced


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
