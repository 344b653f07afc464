"""Requests of a link leave spans where they are recorded, and links that are refused are counted."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.trace import tracing
from oncelog_runtime.adapters.grpc.link.link_observer import (
    UNOBSERVED,
    LinkMetrics,
    LinkTraces,
    RequestObserver,
    link_observer,
)
from tests.spans import Recorder, error_type, failed, recording_tracer

METHOD = "PartitionLeader.Produce"
PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
UNRECORDED = f"00-{'a' * 32}-{'b' * 16}-00"


def asked(traceparent: str = PARENT) -> tuple[RequestObserver, str, Recorder]:
    tracer, recorder = recording_tracer()
    observer, context = link_observer(tracer).asked(METHOD, traceparent)
    return observer, context, recorder


def test_without_a_tracer_a_context_goes_on_as_it_is() -> None:
    observer, context = link_observer(None).asked(METHOD, PARENT)
    assert (observer, context) == (UNOBSERVED, PARENT)
    observer.answered(errors.NotLeaderError())
    observer.expired()
    observer.abandoned(is_late=True)


def test_a_recorded_request_has_a_span_that_ends_with_its_answer() -> None:
    observer, context, recorder = asked()
    assert context != PARENT
    assert context[:36] == PARENT[:36]
    assert recorder.ended == []
    observer.answered(None)
    observer.expired()
    assert [failed(span) for span in recorder.ended] == [False]


@pytest.mark.parametrize("traceparent", [UNRECORDED, tracing.NOBODY])
def test_what_is_not_recorded_has_no_span(traceparent: str) -> None:
    observer, context, recorder = asked(traceparent)
    assert (observer, context) == (UNOBSERVED, traceparent)
    assert recorder.ended == []


def test_an_error_the_end_of_the_time_and_a_caller_that_left_are_told_apart() -> None:
    found: list[object] = []
    for end in ("answered", "expired", "late", "left"):
        observer, _, recorder = asked()
        if end == "answered":
            observer.answered(errors.NotLeaderError())
        elif end == "expired":
            observer.expired()
        else:
            observer.abandoned(is_late=end == "late")
        found.append(error_type(recorder.ended[0]))
    assert len(found) == 4
    assert found[1] == found[2]
    assert len(set(found)) == 3


def test_a_sampler_that_does_not_follow_parents_is_asked() -> None:
    tracer, recorder = recording_tracer("always_on")
    observer, _ = LinkTraces(tracer).asked(METHOD, UNRECORDED)
    observer.answered(None)
    assert len(recorder.ended) == 1


def test_refused_links_are_counted_by_their_error_and_the_count_begins_at_0() -> None:
    metrics = LinkMetrics()
    assert dict(metrics.refused) == {"RESOURCE_EXHAUSTED": 0}
    metrics.link_refused(errors.ErrorCode.RESOURCE_EXHAUSTED)
    metrics.link_refused(errors.ErrorCode.SHUTTING_DOWN)
    assert dict(metrics.refused) == {"RESOURCE_EXHAUSTED": 1, "SHUTTING_DOWN": 1}
