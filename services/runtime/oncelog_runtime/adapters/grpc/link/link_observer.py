"""The ports for observers of links: what becomes of each request, and of links that are not let in.

Rule 1: the base classes do nothing, and a process without tracing has them. `LinkTraces` makes a span for each request that is
        recorded, `LinkMetrics` counts. So the code of a link never asks whether it is observed.
Rule 2: a request has an observer of its own from `asked` on. It may be told of several ends; the first one counts.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from oncelog import errors
from oncelog.error_codes import ErrorCode
from oncelog.trace import span_names, tracing
from oncelog.trace.tracing import Span, Tracer
from oncelog_runtime.adapters.grpc.grpc_status import end_call_span


class RequestObserver:
    """Follows one request. This one does nothing."""

    __slots__ = ()

    def answered(self, error: errors.OncelogError | None) -> None:
        """The handler has answered, or the request has failed with this error."""

    def expired(self) -> None:
        """The time of the request has passed, and its caller got an error."""

    def abandoned(self, *, is_late: bool) -> None:
        """The caller went away, `is_late`: since its time had passed before there was an answer. The handler works on."""


UNOBSERVED: Final = RequestObserver()


class LinkObserver:
    """Follows the requests of all links of a process. This one does nothing."""

    def asked(self, method: str, traceparent: str) -> tuple[RequestObserver, str]:
        """A request begins. Returns its observer, and the context of all that is done for it."""
        return UNOBSERVED, traceparent


class LinkMetrics:
    """Counts the links that are not let in."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter({ErrorCode.RESOURCE_EXHAUSTED.name: 0})
        """By the error's code. The first refusal is to be seen as a change, so it begins at 0."""

    def link_refused(self, code: ErrorCode) -> None:
        """A link was not let in, or broke the protocol as its first deed."""
        self.refused[code.name] += 1


class LinkTraces(LinkObserver):
    """Makes the spans of requests."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def asked(self, method: str, traceparent: str) -> tuple[RequestObserver, str]:
        """Below a context that is not recorded there is no span, where parents decide."""
        if traceparent[-3:] == tracing.UNRECORDED and self._tracer.follows_parents:
            return UNOBSERVED, traceparent
        span, context = tracing.start_server_call(self._tracer, method, traceparent)
        return UNOBSERVED if span is None else _RequestSpan(span), context


class _RequestSpan(RequestObserver):
    """The span of one request."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def answered(self, error: errors.OncelogError | None) -> None:
        end_call_span(self._span, error)

    def expired(self) -> None:
        end_call_span(self._span, errors.RequestTimedOutError())

    def abandoned(self, *, is_late: bool) -> None:
        if is_late:
            self.expired()
        else:
            tracing.end_server_call(self._span, span_names.CANCELLED, span_names.CANCELLED)


def link_observer(tracer: Tracer | None) -> LinkObserver:
    """Returns the observer of a process's links, which makes spans if there is a tracer."""
    return LinkObserver() if tracer is None else LinkTraces(tracer)
