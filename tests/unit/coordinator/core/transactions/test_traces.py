"""The spans of a shard: one group commit per recorded command, and the markers that it causes."""

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
from oncelog_coordinator.effects.markers import MarkerSender
from oncelog_runtime.sim import SimWorld
from tests.spans import Recorder, error_type, recording_tracer
from tests.unit.coordinator.fake_cluster import BROKER, USER_TOPIC_ID, Cluster, FakeTransport
from tests.unit.coordinator.fake_log import FakePartition
from tests.unit.coordinator.marker_place import Life
from tests.unit.coordinator.shard_host import INIT, Host

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
OTHER = "00-" + "c" * 32 + "-" + "d" * 16 + "-01"


@pytest.fixture
def world() -> Iterator[SimWorld]:
    with SimWorld(7) as one:
        yield one


def in_trace(context: str, work: Any) -> asyncio.Task[Any]:
    """The work as a handler runs it: in a task whose context is the call's."""

    async def run() -> Any:
        TRACEPARENT.set(context)
        return await work

    return asyncio.get_running_loop().create_task(run())


def test_a_recorded_command_is_one_group_commit_and_the_append_works_for_all(world: SimWorld) -> None:
    tracer, spans = recording_tracer()
    partition = FakePartition()
    appended_for: list[tuple[str, tuple[str, ...]]] = []

    async def scenario() -> None:
        host = Host(world, partition)
        host.shard._tracer = tracer
        await host.begin()
        log = host.shard.life._log
        append = log.append

        def noting(items: Any) -> Any:
            appended_for.append((TRACEPARENT.get(), LINKS.get()))
            return append(items)

        log.append = noting  # type: ignore[method-assign]
        one = in_trace(PARENT, host.shard.ask(INIT))
        two = in_trace(OTHER, host.shard.ask(cmd.InitProducerId("u", 60_000, "", 77)))
        await asyncio.gather(one, two)
        await host.shard.ask(cmd.InitProducerId("v", 60_000, "", 78))
        await host.end()

    world.run(scenario())
    first, second = (span for span in spans.ended if span.name == "group.commit")
    assert {first.parent.span_id, second.parent.span_id} == {int("b" * 16, 16), int("d" * 16, 16)}
    assert first.attributes["oncelog.group.commands"] == 2
    assert first.attributes["oncelog.command"] == "InitProducerId"
    (parent, links), after = appended_for[0], appended_for[1]
    assert tracing.parse_traceparent(parent)[1] == first.context.span_id  # type: ignore[index]
    assert [tracing.parse_traceparent(link)[1] for link in links] == [second.context.span_id]  # type: ignore[index]
    assert after == (tracing.NOBODY, ()), "a command that is not recorded belongs to nobody's trace"
    assert spans.open == {}


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
        self.sender = MarkerSender(life, 2, transport, self.cluster.view, topics, 1_000, self.tracer)

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
