"""A recorded command has one span for its wait for the log, and the append and the effects belong to its trace."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.errors import NotCoordinatorError
from oncelog.trace import tracing
from oncelog.trace.trace_context import LINKS, TRACEPARENT
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.shard.shard_observer import Observed, ShardObservers
from oncelog_coordinator.shard.shard_traces import ShardTraces
from oncelog_runtime.sim import SimWorld
from tests.spans import error_type, recording_tracer
from tests.unit.coordinator.fake_log import FakePartition
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
        host.shard._observer = ShardObservers(host.metrics, ShardTraces(tracer))
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


def test_a_command_that_is_not_recorded_has_no_span_and_no_context() -> None:
    tracer, spans = recording_tracer()
    traces, seen = ShardTraces(tracer), Observed()
    traces.queued(seen)
    traces.decided(seen, "txn-1", INIT)
    traces.committed([seen])
    assert seen == Observed()
    assert spans.names() == []


def test_a_recorded_command_without_records_gives_its_own_context_to_its_effects() -> None:
    tracer, _ = recording_tracer()
    traces, seen = ShardTraces(tracer), Observed(context=PARENT)

    def cause() -> str:
        traces.causes(seen)
        return TRACEPARENT.get()

    assert contextvars.copy_context().run(cause) == PARENT


def test_a_life_that_ends_ends_the_spans_of_commands_that_wait() -> None:
    tracer, spans = recording_tracer()
    traces, seen = ShardTraces(tracer), Observed(context=PARENT)
    traces.decided(seen, "txn-1", INIT)
    traces.failed([seen, Observed()], NotCoordinatorError())
    assert error_type(spans.one("group.commit")) == "NOT_COORDINATOR"
    assert spans.open == {}
