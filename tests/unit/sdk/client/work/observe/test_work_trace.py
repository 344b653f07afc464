"""Deliveries and settlements are linked to where their records came from, and what stands at brokers belongs to nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from opentelemetry import trace

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.work.worker import Worker
from oncelog.trace.tracing import NOBODY, Kind
from tests.spans import Recorder, error_type, failed, recording_tracer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.traced import CREATE, context_of, links_of
from tests.unit.sdk.client.work.fake_channels import CHANNEL, FakeChannels
from tests.unit.sdk.client.work.working import received

Work = Callable[[Client, Worker], Awaitable[None]]


def traced(work: Work, values: int = 1, sampler: str = "parentbased_always_on", **options: Any) -> Recorder:
    """What was recorded of a worker whose topic has so many records."""
    return traced_calls(work, values, sampler, **options)[0]


def traced_calls(
    work: Work, values: int = 1, sampler: str = "parentbased_always_on", **options: Any
) -> tuple[Recorder, FakeChannels]:
    """What was recorded, and the channels that were called."""
    cluster = FakeCluster()
    channels = FakeChannels(cluster, is_there=True, ack_wait_ms=2_000)
    tracer, spans = recording_tracer(sampler)

    async def run(_: FakeCluster) -> None:
        async with cluster.client(tracer=tracer, default_api_timeout_ms=2_000) as client:
            async with client.producer() as producer:
                for number in range(values):
                    await producer.send_and_wait(TOPIC, b"%d" % number)
            async with client.worker(TOPIC, channel=CHANNEL, **options) as worker:
                await work(client, worker)

    cluster.run(run)
    assert spans.open == {}, "a span was never ended"
    return spans, channels


def created(spans: Recorder) -> list[int]:
    return sorted(span.context.span_id for span in spans.ended if span.name == CREATE)


def test_a_poll_and_its_settlement_are_linked_to_where_the_records_came_from() -> None:
    async def work(_: Client, worker: Worker) -> None:
        await worker.ack(await received(worker, 2))
        assert await worker.getmany(timeout_ms=1) == []

    spans = traced(work, values=2)
    polls = [span for span in spans.ended if span.name == f"poll {TOPIC}"]
    assert sorted(link for poll in polls for link in links_of(poll)) == created(spans)
    assert all(poll.parent is None for poll in polls)
    assert sum(poll.attributes["messaging.batch.message_count"] for poll in polls) == 2
    assert polls[0].attributes["messaging.destination.subscription.name"] == CHANNEL
    ack = spans.one(f"ack {TOPIC}")
    assert sorted(links_of(ack)) == created(spans)
    assert (ack.kind.name, ack.attributes["messaging.operation.type"]) == ("CLIENT", "settle")


@pytest.mark.parametrize("word", ["ack", "nack", "touch", "reject"])
def test_each_word_has_its_span_around_the_call_to_the_broker(word: str) -> None:
    async def work(_: Client, worker: Worker) -> None:
        (message,) = await received(worker, 1)
        await getattr(message, word)()

    spans, channels = traced_calls(work)
    assert channels.traces[0] == context_of(spans.one(f"{word} {TOPIC}"))


def test_a_word_that_fails_says_so() -> None:
    async def work(_: Client, worker: Worker) -> None:
        (message,) = await received(worker, 1)
        await message.ack()
        with pytest.raises(errors.IllegalStateError):
            await message.nack()

    spans = traced(work)
    assert error_type(spans.one(f"nack {TOPIC}")) == "ILLEGAL_STATE"


@pytest.mark.parametrize("parent", ["link", "message"])
def test_processing_is_linked_or_belongs_to_the_message(parent: str) -> None:
    async def work(_: Client, worker: Worker) -> None:
        (message,) = await received(worker, 1)
        with worker.processing(message):
            assert trace.get_current_span().get_span_context().is_valid
            await message.ack()
        with pytest.raises(KeyError), worker.processing(message):
            raise KeyError

    spans = traced(work, trace_consumer_parent=parent)
    create = spans.one(CREATE)
    good, bad = (span for span in spans.ended if span.name == f"process {TOPIC}")
    assert (good.kind.name, good.attributes["oncelog.deliveries"]) == ("CONSUMER", 1)
    assert (failed(good), failed(bad)) == (False, True)
    assert spans.one(f"ack {TOPIC}").parent.span_id == good.context.span_id
    if parent == "link":
        assert links_of(good) == [create.context.span_id]
        assert good.parent is None
    else:
        assert good.parent.span_id == create.context.span_id


def test_what_a_worker_does_by_itself_belongs_to_nobody() -> None:
    async def work(client: Client, worker: Worker) -> None:
        tracer = client.tracer
        assert tracer is not None
        await worker.close()
        app = tracer.start("app", Kind.SERVER, "")
        with tracer.use(app):
            other = await client.worker(TOPIC, channel=CHANNEL, auto_touch=True).start()
            assert len(await other.getmany(timeout_ms=1_000)) == 1
            assert await other.getmany(timeout_ms=3_000) == [], "it is touched"
        app.end()
        await other.close()

    spans, channels = traced_calls(work)
    touched = [
        trace
        for trace, sent in zip(channels.traces, channels.settlements, strict=True)
        if sent.items and not sent.leaves
    ]
    assert touched
    assert set(touched) == {NOBODY}
    assert spans.names() == [CREATE, f"send {TOPIC}", f"poll {TOPIC}", "app"]


def test_a_worker_whose_traces_are_not_recorded_leaves_no_span() -> None:
    async def work(_: Client, worker: Worker) -> None:
        for message in await received(worker, 1):
            with worker.processing(message):
                await message.ack()

    assert traced(work, sampler="always_off").names() == []
