"""What a leadership tells its observers, and which it has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from oncelog.errors import NotLeaderError, OncelogError
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import PartitionId
from oncelog_partition_leader.core.appends.commands import Command
from oncelog_partition_leader.log.partition_log import Appended
from oncelog_partition_leader.partition.append_observer import Observers, observe
from oncelog_partition_leader.partition.append_trace import AppendTraces, TracedAppends
from oncelog_partition_leader.partition.broker_metrics import AppendMetrics, BrokerMetrics
from oncelog_runtime.observability.metrics import NodeMetrics
from tests.spans import recording_tracer
from tests.unit.partition_leader.core.appends.a_reply import command
from tests.unit.partition_leader.leading import Leading, Run, batch, run, turn

__all__ = ["run"]  # the fixture
PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
PLACE = PartitionId("0" * 32, 0)


class Noting:
    """Notes each call."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def queued(self, command: Command) -> None:
        self.calls.append("queued")

    def writing(self) -> None:
        self.calls.append("writing")

    def appended(self, commands: Sequence[Command], batches: Sequence[Appended]) -> None:
        self.calls.append(f"appended {len(commands)}")

    def committed(self, commands: Sequence[Command], high_watermark: int) -> None:
        self.calls.append(f"committed {len(commands)} at {high_watermark}")

    def failed(self, command: Command, error: OncelogError) -> None:
        self.calls.append(f"failed {error.code.name}")

    def context_of(self, command: Command) -> str:
        return "noted"


def test_a_leadership_tells_its_observer_once_for_a_group(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        noting = Noting()
        leading.leadership.observer = leading.leadership._step._observer = noting
        leading.produce(batch(1, 0))
        leading.produce(batch(2, 0))
        refused = leading.produce(batch(3, 7))
        await turn()
        assert refused.exception() is not None
        leading.acknowledge(2)
        assert noting.calls == [
            *["queued"] * 3,
            "failed UNKNOWN_PRODUCER_ID",
            "writing",
            "appended 2",
            "committed 2 at 2",
        ]

    run(scenario)


def test_without_a_tracer_there_is_nothing_but_metrics() -> None:
    host: Any = SimpleNamespace(metrics=BrokerMetrics(NodeMetrics()), tracer=None)
    assert isinstance(observe(host, "orders", PLACE, 2, TracedAppends()), AppendMetrics)
    host.tracer = recording_tracer()[0]
    assert isinstance(observe(host, "orders", PLACE, 2, TracedAppends()), Observers)


def test_two_observers_are_told_the_same() -> None:
    first, second = Noting(), Noting()
    both, one = Observers(first, second), command()
    both.queued(one)
    both.writing()
    both.appended([one], cast(Any, [None]))
    both.committed([one], 5)
    both.failed(one, NotLeaderError())
    assert first.calls == second.calls
    assert len(first.calls) == 5
    assert both.context_of(one) == "noted"


def test_a_recorded_call_has_spans_from_its_queue_to_its_commit_and_the_others_have_none(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        tracer, spans = recording_tracer()
        traced = TracedAppends()
        traces = AppendTraces(tracer, "t", PLACE, 1, traced)
        leading.leadership.observer = leading.leadership._step._observer = traces
        plain = leading.produce(batch(1, 0))
        token = TRACEPARENT.set(PARENT)
        recorded = leading.produce(batch(2, 0, payload=b"y" * 9))
        TRACEPARENT.reset(token)
        await turn()
        assert spans.names() == ["log.append"]
        assert traced.contexts(0, 1) == []
        assert len(traced.contexts(1, 2)) == 1
        leading.acknowledge(2)
        await asyncio.gather(plain, recorded)
        await turn()
        assert spans.names() == ["log.append", "replicate"]
        assert spans.open == {}
        assert not traced.waiting
        append = spans.one("log.append")
        assert append.attributes["oncelog.append.bytes"] == len(batch(2, 0, payload=b"y" * 9))
        assert append.attributes["oncelog.append.batches"] == 2

    run(scenario)


def test_an_enrolment_belongs_to_the_trace_of_the_batch_that_needs_it(run: Run) -> None:
    async def scenario(leading: Leading) -> None:
        tracer, spans = recording_tracer()
        traces = AppendTraces(tracer, "t", PLACE, 1, TracedAppends())
        leading.leadership.observer = leading.leadership._step._observer = traces
        seen: list[str] = []
        leading.host.enrol = lambda *_: seen.append(TRACEPARENT.get())  # type: ignore[method-assign]
        plain = leading.produce(batch(8, 0, txn_no=2))
        token = TRACEPARENT.set(PARENT)
        recorded = leading.produce(batch(7, 0, txn_no=1))
        TRACEPARENT.reset(token)
        await turn()
        assert seen == ["", PARENT]
        leading.leadership.end()
        await asyncio.gather(plain, recorded, return_exceptions=True)
        await turn()
        assert spans.open == {}

    run(scenario)
