"""Recorded calls have spans, others have none; what is counted is counted by the other observer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.trace import tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.partition.append_trace import TracedAppends
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.replication.observe.metrics_observer import MetricsObserver
from oncelog_partition_leader.replication.observe.trace_observer import TraceObserver, contexts_of, observed_by
from oncelog_runtime.observability.metrics import NodeMetrics
from tests.spans import Recorder, error_type, recording_tracer

RECORDED = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
UNRECORDED = RECORDED[:-1] + "0"
PLACE: Any = SimpleNamespace(topic="orders", id=PartitionId("0" * 32, 2))


def observing() -> tuple[TraceObserver, Recorder, BrokerMetrics]:
    tracer, spans = recording_tracer()
    metrics = BrokerMetrics(NodeMetrics())
    return TraceObserver(tracer, MetricsObserver(metrics)), spans, metrics


@pytest.mark.parametrize("context", ["", UNRECORDED, tracing.NOBODY])
def test_a_call_that_is_not_recorded_has_none(context: str) -> None:
    async def main() -> None:
        TRACEPARENT.set(context)
        observer, spans, _ = observing()
        with observer.follows(5, 1):
            pass
        assert (spans.names(), spans.open) == ([], {})

    asyncio.run(main())


@pytest.mark.parametrize("fails", [True, False])
def test_a_followers_append_has_a_span_with_its_outcome(fails: bool) -> None:
    observer, spans, _ = observing()
    TRACEPARENT.set(RECORDED)
    try:
        with observer.follows(0, 1):
            pass
        assert spans.names() == [], "a high watermark alone is no append"
        with observer.follows(10, 2):
            if fails:
                raise ValueError("of its log")
    except ValueError:
        pass
    finally:
        TRACEPARENT.set("")
    span = spans.one("log.append")
    assert (span.attributes["oncelog.append.bytes"], span.attributes["oncelog.append.batches"]) == (10, 2)
    assert error_type(span) == ("ValueError" if fails else None)


def feeds(*traced: tuple[tuple[int, int, str], ...]) -> list[Any]:
    made: list[Any] = []
    for appends in traced:
        kept = TracedAppends()
        for given in appends:
            kept.add(*given)
        made.append(SimpleNamespace(leadership=SimpleNamespace(traced=kept), session=SimpleNamespace(next_offset=8)))
    return made


def test_a_push_works_for_the_traces_of_its_own_partitions() -> None:
    """What the followers lack of each feed is from `base_offset` to `next_offset`; without data it belongs to nobody."""
    request = pb.ReplicateRequest()
    for number, length in enumerate((10, 10, 0)):
        request.partitions.add(partition=number, length=length, base_offset=5)
    sent = feeds((), ((4, 6, "mine"), (9, 10, "later")), ((0, 5, "none"),))
    assert contexts_of(request, sent) == ["mine"]


def test_a_push_takes_the_first_recorded_trace_for_its_own_or_none() -> None:
    request = pb.ReplicateRequest(partitions=[pb.ReplicatePartition(length=1, base_offset=5)])
    observer, _, _ = observing()
    observer.sends(request, feeds(((5, 6, RECORDED),)))
    assert TRACEPARENT.get() == RECORDED
    observer.sends(request, feeds(()))
    assert TRACEPARENT.get() == tracing.NOBODY, "the next push does not belong to the last one's trace"
    TRACEPARENT.set("")


def test_counted_events_are_passed_on() -> None:
    observer, spans, metrics = observing()
    observer.leads()
    observer.fetched("orders", 2, 30, by_follower=False)
    observer.isr_changed((), ())
    assert (metrics.leader_changes.value, metrics.traffic_of("orders").bytes_out, spans.names()) == (1, 30, [])


def test_without_a_tracer_there_is_only_the_counting_observer() -> None:
    counting = MetricsObserver(BrokerMetrics(NodeMetrics()))
    assert observed_by(None, counting) is counting
    tracer, _ = recording_tracer()
    assert isinstance(observed_by(tracer, counting), TraceObserver)
