"""A decided transaction has one span and one duration until all of its markers are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.trace import tracing
from oncelog.trace.trace_context import LINKS, TRACEPARENT
from oncelog.types import Buffer
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.records import Target
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_coordinator.effects.marker_observer import MarkerObserver, MarkerObservers, MarkerSpans, MarkerTimes
from oncelog_coordinator.effects.markers import MarkerSender
from oncelog_coordinator.shard.coordinator_metrics import CoordinatorMetrics
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.process.bugs import Bugs
from oncelog_runtime.sim import SimWorld
from tests.spans import Recorder, error_type, recording_tracer
from tests.unit.coordinator.fake_cluster import BROKER, USER_TOPIC_ID, Cluster, FakeTransport
from tests.unit.coordinator.marker_place import Life

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
OTHER = "00-" + "c" * 32 + "-" + "d" * 16 + "-01"


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(7) as one:
        yield one


class Markers:
    """A marker sender with a broker that notes for which trace it was called."""

    def __init__(self) -> None:
        self.tracer, self.spans = recording_tracer()
        self.called_for: list[tuple[str, tuple[str, ...]]] = []
        self.cluster = Cluster()
        transport = FakeTransport()

        async def write(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            self.called_for.append((TRACEPARENT.get(), LINKS.get()))
            reply = pa.WriteTxnMarkersReply()
            for marker in request.markers:
                reply.markers.add(topic_id=marker.topic_id, partition=marker.partition)
            return reply, b""

        transport.serve(BROKER, methods.WRITE_TXN_MARKERS, write)
        cluster: Any = self.cluster
        life: Any = Life()
        topics = KnownTopics(cluster, self.cluster.view)
        self.sender = MarkerSender(life, 2, transport, self.cluster.view, topics, 1_000, MarkerSpans(self.tracer))

    def send(self, context: str, txn_no: int) -> None:
        TRACEPARENT.set(context)
        targets = (Target(USER_TOPIC_ID, 0, 1),)
        self.sender.run(cmd.SendMarkers("t", 7, txn_no, 0, True, None, targets, ()))
        TRACEPARENT.set("")


def settle(spans: Recorder) -> list[str]:
    assert spans.open == {}
    return spans.names()


def test_markers_have_a_span_until_the_last_one_is_in(world: SimWorld) -> None:
    async def scenario() -> Markers:
        place = Markers()
        place.send(PARENT, 1)
        await asyncio.sleep(0.05)
        assert list(place.spans.open.values()) == ["txn.markers"]
        place.sender.run(cmd.BecameVisible("t", 1))
        await place.sender.close()
        return place

    place = world.run(scenario())
    span = place.spans.one("txn.markers")
    assert span.parent.span_id == int("b" * 16, 16)
    assert span.attributes["oncelog.txn.outcome"] == "committed"
    assert span.attributes["oncelog.txn.number"] == "1"
    (called_for, links), *_ = place.called_for
    assert (tracing.parse_traceparent(called_for) or (0, 0))[1] == span.context.span_id
    assert links == ()


def test_a_life_that_ends_ends_the_spans_of_its_markers(world: SimWorld) -> None:
    async def scenario() -> Markers:
        place = Markers()
        place.send(PARENT, 1)
        await place.sender.close()
        return place

    place = world.run(scenario())
    assert error_type(place.spans.one("txn.markers")) == "NOT_COORDINATOR"
    assert settle(place.spans) == ["txn.markers"]


def test_markers_of_an_unrecorded_transaction_have_none(world: SimWorld) -> None:
    async def scenario() -> Markers:
        place = Markers()
        place.send("", 1)
        await asyncio.sleep(0.05)
        await place.sender.close()
        return place

    place = world.run(scenario())
    assert settle(place.spans) == []
    assert place.called_for[0] == (tracing.NOBODY, ())


SENT = cmd.SendMarkers("t", 7, 1, 0, True, None, (Target(USER_TOPIC_ID, 0, 1),), ())


def test_the_time_from_the_decision_to_the_last_marker_is_measured_once(world: SimWorld) -> None:
    now_s = [1.0]
    node = NodeMetrics(lambda: now_s[0])
    metrics = CoordinatorMetrics(node, Bugs(node, world.node("a").clock))
    times = MarkerTimes(metrics)
    times.sent(SENT)
    now_s[0] = 3.5
    for _ in range(2):  # of a copy nothing is known any more
        times.visible(cmd.BecameVisible("t", 1))
    assert sum(metrics.mark.counts) == 1
    assert metrics.mark.total == 2.5


def test_all_observers_are_called_in_their_order() -> None:
    class Noting(MarkerObserver):
        def __init__(self, name: str) -> None:
            self.name = name

        def sent(self, effect: cmd.SendMarkers) -> None:
            noted.append(f"{self.name} sent")

        def calling(self, keys: Any) -> None:
            noted.append(f"{self.name} calling")

        def calling_later(self, keys: Any) -> None:
            noted.append(f"{self.name} calling later")

        def visible(self, effect: cmd.BecameVisible) -> None:
            noted.append(f"{self.name} visible")

        def closed(self) -> None:
            noted.append(f"{self.name} closed")

    noted: list[str] = []
    both = MarkerObservers(Noting("a"), MarkerObserver(), Noting("b"))
    both.sent(SENT)
    both.calling(())
    both.calling_later(())
    both.visible(cmd.BecameVisible("t", 1))
    both.closed()
    events = ("sent", "calling", "calling later", "visible", "closed")
    assert noted == [f"{name} {event}" for event in events for name in ("a", "b")]
