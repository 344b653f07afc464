"""A poll is linked to where its records came from, and what fetches in the background belongs to nobody."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace

from oncelog.client.client import Client
from oncelog.trace.tracing import Kind
from tests.spans import failed
from tests.unit.sdk.client.fake_cluster import TOPIC
from tests.unit.sdk.client.traced import CREATE, links_of, traced


class TestReading:
    def test_a_poll_is_linked_to_where_its_records_came_from(self) -> None:
        async def work(client: Client) -> Any:
            async with client.producer() as producer:
                await producer.send_and_wait(TOPIC, b"1")
                await producer.send_and_wait(TOPIC, b"2")
            async with client.consumer(auto_offset_reset="earliest", group_id="g") as consumer:
                await consumer.assign_topics(TOPIC)
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
