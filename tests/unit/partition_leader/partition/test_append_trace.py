"""The spans of an append in its leader."""

from __future__ import annotations

import asyncio

from oncelog.errors import NotLeaderError
from oncelog.trace import tracing
from oncelog.types import PartitionId
from oncelog_partition_leader.core.appends.commands import Written
from oncelog_partition_leader.partition.append_trace import AppendTrace, TracedAppends
from tests.spans import Recorder, error_type, recording_tracer

PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
P0 = PartitionId("0" * 32, 0)


def begin() -> tuple[AppendTrace, Recorder]:
    tracer, spans = recording_tracer()
    return AppendTrace(tracer, PARENT, "orders", P0, {"oncelog.append.bytes": 7}), spans


def answered(trace: AppendTrace, error: Exception | None = None, *, cancel: bool = False) -> None:
    async def settle() -> None:
        done: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        if cancel:
            done.cancel()
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(Written(0, 0, 0, False))
        trace.done(done)

    asyncio.run(settle())


def test_append_then_replicate_below_the_call() -> None:
    trace, spans = begin()
    assert trace.context == PARENT
    trace.appended(5, 2, leader_epoch=3, followers=2)
    replicating = trace.context
    answered(trace)
    append, replicate = spans.one("log.append"), spans.one("replicate")
    assert append.parent.span_id == replicate.parent.span_id == int("b" * 16, 16)
    assert append.attributes["oncelog.offset"] == 5
    assert append.attributes["messaging.destination.name"] == "orders"
    assert tracing.parse_traceparent(replicating)[1] == replicate.context.span_id  # type: ignore[index]
    assert spans.open == {}


def test_a_refused_append_never_replicates() -> None:
    trace, spans = begin()
    answered(trace, NotLeaderError())
    assert spans.names() == ["log.append"]
    assert error_type(spans.one("log.append")) == "NOT_LEADER_OR_FOLLOWER"


def test_who_gave_up_waiting_leaves_no_span_open() -> None:
    trace, spans = begin()
    trace.appended(0, 1, leader_epoch=0, followers=0)
    answered(trace, cancel=True)
    assert error_type(spans.one("replicate")) == "CANCELLED"
    assert spans.open == {}


def test_pushes_work_for_what_they_carry_until_it_is_committed() -> None:
    traced = TracedAppends()
    assert not traced.waiting
    traced.add(0, 5, "first")
    traced.add(8, 10, "second")
    assert traced.contexts(0, 10) == ["first", "second"]
    assert traced.contexts(4, 8) == ["first"]
    assert traced.contexts(5, 8) == []
    traced.committed(5)
    assert traced.contexts(0, 10) == ["second"]
    traced.committed(10)
    assert not traced.waiting


def test_what_is_never_committed_is_bounded() -> None:
    traced = TracedAppends()
    for offset in range(5_000):
        traced.add(offset, offset + 1, "x")
    assert len(traced.contexts(0, 5_000)) < 2_000
