"""The span of a transaction, or of a participant: from its begin to its end, around all that is sent in it.

Rule 1: what the application sends inside of the transaction belongs to the transaction's span, unless the application has begun
        another span meanwhile: then to that one.
Rule 2: an outcome that is unknown ends the span too; asking again adds nothing to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Iterator
from typing import TypeVar

from oncelog.core.batch.identity import Identity
from oncelog.trace import span_names, tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.trace.tracing import Kind, Tracer

T = TypeVar("T")


class Scope:
    """See the module."""

    def __init__(self, tracer: Tracer, name: str) -> None:
        self._tracer = tracer
        self._outside = tracer.current()
        self._span = tracer.start(name, Kind.INTERNAL, self._outside)

    def parent(self) -> str:
        """The traceparent for spans that start now."""
        current = self._tracer.current()
        return self._span.traceparent if current == self._outside else current

    def inside(self) -> contextlib.AbstractContextManager[None]:
        """Calls made in this block belong to the span."""
        return inside_of(self.parent())

    def named(self, identity: Identity) -> None:
        """Sets whose transaction it is."""
        if not self._span.sampled:
            return
        self._span.set(
            {
                span_names.TXN_ID: identity.transactional_id,
                span_names.TXN_NO: str(identity.txn_no),
                span_names.TXN_EPOCH: identity.producer_epoch,
                span_names.PRODUCER_ID: str(identity.producer_id),
            }
        )

    async def run(self, name: str, work: Coroutine[object, None, T]) -> T:
        """Runs its last act, in a task of its own, as a part of the span; the caller ends the span."""
        TRACEPARENT.set(self._span.traceparent)
        self._span.rename(name)
        return await work

    def end(self, error: BaseException | None = None, **attributes: tracing.AttributeValue) -> None:
        """Ends the span; later calls change nothing. `attributes`: `outcome`, `partitions`, `rows`."""
        if not self._span.sampled:
            return
        names = {"outcome": span_names.TXN_OUTCOME, "partitions": span_names.TXN_PARTITIONS, "rows": span_names.ROWS}
        self._span.set({names[short]: value for short, value in attributes.items()})
        tracing.end_with(self._span, error)


@contextlib.contextmanager
def inside_of(context: str) -> Iterator[None]:
    """Calls made in this block belong to the context."""
    token = TRACEPARENT.set(context)
    try:
        yield
    finally:
        TRACEPARENT.reset(token)
