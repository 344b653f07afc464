"""Where others watch a producer: what happens to its batches and transactions, and where its records come from.

Rule 1: an observer only looks. It is called on the loop, in the step in which the thing happens, and raises nothing.
Rule 2: it is called once for a batch or a call, never once for a record, unless it `records_origins`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Final, Protocol, TypeVar

from oncelog.core.batch.identity import Identity
from oncelog.core.batch.record import HeaderList
from oncelog.core.produce.accumulator import Batch
from oncelog.errors import OncelogError

T = TypeVar("T")


class Origin(Protocol):
    """The call of the application that a record comes from; a context manager around that call."""

    def __enter__(self) -> Origin:
        """The call has begun."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """All its records are queued, or `error` says why they are not."""
        ...

    def headers(self, given: HeaderList) -> HeaderList:
        """A record's headers, with those of the origin."""
        ...

    def queued(self, batch: Batch) -> None:
        """A record, or Arrow rows, of this call are in this batch now."""
        ...

    def counted(self, records: int) -> None:
        """So many records of this call of many were queued."""
        ...


class SendObserver:
    """Watches nothing: the observer of a producer that is not observed, and the base of those that look."""

    records_origins = False
    """Each call of the application is looked at (`origin`): records cannot be handed over from other threads then."""

    def origin(self, topic: str) -> Origin:
        """A call that sends records to this topic begins; `UNRECORDED` when it is not looked at."""
        return UNRECORDED

    def belong_to(self, parent: Callable[[], str]) -> None:
        """From now on calls and batches belong to the span whose context this returns."""

    def sent(self, batches: Iterable[Batch]) -> None:
        """The running task makes a call with these batches now."""

    def acknowledged(self, batch: Batch) -> None:
        """It is written."""

    def failed(self, batch: Batch, error: OncelogError) -> None:
        """It is not written, or that is not known."""


class TransactionObserver:
    """Watches nothing: the observer of a transaction that is not observed. One that looks has the same methods, as
    `oncelog.trace.transaction_span.Scope` has.
    """

    def inside(self) -> AbstractContextManager[None]:
        """Calls made in this block belong to the transaction."""
        return nullcontext()

    def parent(self) -> str:
        """The context of a span that begins now; empty = none."""
        return ""

    def named(self, identity: Identity) -> None:
        """The transaction has this identity."""

    def run(self, name: str, work: Coroutine[object, None, T]) -> Coroutine[object, None, T]:
        """Its last act, in a task of its own; `name` is that of the act."""
        return work

    def end(self, error: BaseException | None = None, **attributes: str | int) -> None:
        """It has ended; later calls change nothing. `attributes`: `outcome`, `partitions`, `rows`."""


class Unrecorded:
    """The origin of records that is not recorded."""

    def __enter__(self) -> Origin:
        """Nothing begins."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing ends."""

    def headers(self, given: HeaderList) -> HeaderList:
        """The headers as they are."""
        return given

    def queued(self, batch: Batch) -> None:
        """Nothing is noted."""

    def counted(self, records: int) -> None:
        """Nothing is noted."""


UNRECORDED: Final = Unrecorded()
