"""Spans, as the code that works sees them: a port without clock, randomness or OpenTelemetry.

Rule 1: who is not traced has no tracer (`None`), and one look at that is all that tracing costs when it is off.
Rule 2: a context is a W3C `traceparent` text; empty = none, `-00` = not to be recorded. What is not
        sampled makes no spans, and says so to those it calls, so that they make none either.
Rule 3: a background task never takes the context in which it happened to be started for its own: it gets one.
Rule 4: cores and the simulation know nothing of this.
Rule 5: what is not recorded pays for one look at its context (`UNRECORDED`), a root for one question (`wants`). Names and
        attributes are made after the answer.
"""

from __future__ import annotations

import contextvars
import enum
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from oncelog.errors import ConfigError, OncelogError
from oncelog.trace import span_names
from oncelog.trace.trace_context import LINKS, TRACEPARENT

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]
MAX_LINKS: Final = 64
"""Links of one span; a batch may hold the records of thousands of traces."""

SAMPLERS: Final = ("always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_traceidratio")
RATIO_BITS: Final = 64
"""The low bits of a trace id, which decide whether it is recorded."""
_TRACEPARENT_LENGTH: Final = 55
UNRECORDED: Final = "-00"
"""How a context ends of which nothing is recorded. Where parents decide, it goes on as it is, and no function is called: those
places look at its end themselves, since in Python a function call is what costs.
"""
NOBODY: Final = UNRECORDED
"""A context that says: make no spans for me. For links only: it is no W3C context, and it is this short because nearly every
frame carries it; with the 55 characters of one that is never looked at, a record costs 1 to 2 % more.
"""
_RECORDED: Final = frozenset("13579bdf")
"""The last digit of a context that is recorded."""


class Kind(enum.Enum):
    """Which side of which exchange a span is."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2
    PRODUCER = 3
    CONSUMER = 4


class Span(Protocol):
    """A piece of work that takes time. The code that starts it ends it, once, whatever happens."""

    @property
    def traceparent(self) -> str:
        """The context of what happens inside of it."""
        ...

    @property
    def sampled(self) -> bool:
        """False: everything said to it is forgotten."""
        ...

    def set(self, attributes: Attributes) -> None:
        """More to know about it."""
        ...

    def rename(self, name: str) -> None:
        """Gives it another name, since its kind may be known only at its end."""
        ...

    def end(self, error_type: str = "", message: str = "") -> None:
        """Ends it; with `error_type` it has failed. Later calls change nothing."""
        ...


class Tracer(Protocol):
    """Makes spans. All methods may be called from any thread; none waits but `flush`."""

    @property
    def calls_begin_traces(self) -> bool:
        """False for a service: work that belongs to no call makes no spans there."""
        ...

    @property
    def follows_parents(self) -> bool:
        """True: parents decide, so below a context that is not recorded nothing is. Else `wants` must be asked."""
        ...

    @property
    def exports(self) -> bool:
        """False: there is nothing to flush here; the application does it."""
        ...

    def current(self) -> str:
        """The context of the running task: oncelog's own, else that of the application's current span."""
        ...

    def wants(self, parent: str) -> bool:
        """Whether a span below this context is recorded; with an empty one it would be a root, which is drawn each time."""
        ...

    def record(
        self,
        name: str,
        kind: Kind,
        parent: str,
        attributes: Attributes | None = None,
        links: Sequence[str] = (),
        start_ns: int = 0,
    ) -> Span:
        """A span that `wants` has wanted; with an empty `parent` a root. `start_ns` 0 = now, else nanoseconds since 1970.

        It is unsampled all the same when the application's own sampler decides so.
        """
        ...

    def start(
        self,
        name: str,
        kind: Kind,
        parent: str,
        attributes: Attributes | None = None,
        links: Sequence[str] = (),
        start_ns: int = 0,
    ) -> Span:
        """`record` if `wants`, else `skip`: for what does not happen often."""
        ...

    def skip(self, parent: str) -> Span:
        """The span of what `wants` has not wanted: it has a context, and no memory."""
        ...

    def emit(self, name: str, traceparent: str, start_ns: int, attributes: Attributes, error: str = "") -> None:
        """A finished root span whose context was chosen earlier, in another process, by `choose_root`."""
        ...

    def choose_root(self) -> str:
        """Returns the context of a root span that the caller will `emit`."""
        ...

    def headers(self, context: str) -> list[tuple[str, bytes | None]]:
        """The headers that carry a context in a record."""
        ...

    def use(self, span: Span) -> AbstractContextManager[None]:
        """In this block the span is the application's current one."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds since 1970, for `start_ns`."""
        ...

    def flush(self, timeout_ms: int) -> None:
        """Sends what is finished; waits at most this long, and not at all while the collector does not take it."""
        ...

    def close(self, timeout_ms: int) -> None:
        """`flush`, and no more spans."""
        ...


# ---------------------------------------------------------------- contexts


def is_sampled(traceparent: str) -> bool:
    """True when the context's trace is recorded."""
    return traceparent[-1:] in _RECORDED and len(traceparent) == _TRACEPARENT_LENGTH


def format_traceparent(trace_id: int, span_id: int, flags: int) -> str:
    """A context as text."""
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"


def parse_traceparent(text: str) -> tuple[int, int, int] | None:
    """Trace id, span id, flags; None for anything that is no context."""
    parts = text.split("-")
    if len(text) < _TRACEPARENT_LENGTH or len(parts) < 4 or [len(part) for part in parts[:4]] != [2, 32, 16, 2]:
        return None
    try:
        trace_id, span_id, flags = (int(part, 16) for part in parts[1:4])
    except ValueError:
        return None
    return (trace_id, span_id, flags) if trace_id and span_id and parts[0] != "ff" else None


def gathered(contexts: Iterable[str]) -> tuple[str, list[str]]:
    """Returns (parent, links) of work for many calls: the first sampled context is its parent, the others are links.
    Empty: none is sampled.
    """
    sampled = list(dict.fromkeys(context for context in contexts if is_sampled(context)))
    return (sampled[0], sampled[1 : 1 + MAX_LINKS]) if sampled else ("", [])


def work_for(contexts: Sequence[str]) -> None:
    """The next calls of this task are made for these: the first is their parent, they are linked to the others."""
    if contexts or TRACEPARENT.get()[-3:] != UNRECORDED:
        parent, links = gathered(contexts)
        TRACEPARENT.set(parent or NOBODY)
        LINKS.set(tuple(links))


def unrecorded(parent: str) -> str:
    """The context of what is not recorded, for what it calls: nothing below it is recorded either."""
    return f"{parent[:-2]}00" if is_sampled(parent) else parent or NOBODY


def background(tracer: Tracer | None) -> contextvars.Context | None:
    """The context for tasks that work for no particular call. None, the default of `create_task`: nothing is traced."""
    if tracer is None:
        return None
    context = contextvars.copy_context()
    context.run(TRACEPARENT.set, NOBODY)
    return context


class Sampler:
    """Which traces are recorded, with OpenTelemetry's names and rules. Raises `ConfigError`."""

    def __init__(self, name: str, ratio: float) -> None:
        if name not in SAMPLERS:
            raise ConfigError(f"a trace sampler is one of {', '.join(SAMPLERS)}", given=name)
        if not 0.0 <= ratio <= 1.0:
            raise ConfigError("the argument of a trace sampler is 0 to 1", given=ratio)
        self.follows_parent: Final = name.startswith("parentbased_")
        share = {"always_on": 1.0, "always_off": 0.0}.get(name.removeprefix("parentbased_"), ratio)
        self.bound: Final = round(share * (1 << RATIO_BITS))
        """A root is recorded when the low 64 bits of its trace id lie below."""

    def wants(self, trace_id: int, parent: str) -> bool:
        """Whether a span of this trace is recorded; `parent` empty = it would be the root."""
        if parent and self.follows_parent:
            return is_sampled(parent)
        return trace_id & ((1 << RATIO_BITS) - 1) < self.bound


class Unsampled:
    """The span of a trace that is not recorded: it has a context, and no memory."""

    __slots__ = ("traceparent",)
    sampled = False

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent

    def set(self, attributes: Attributes) -> None:
        """Nothing."""

    def rename(self, name: str) -> None:
        """Nothing."""

    def end(self, error_type: str = "", message: str = "") -> None:
        """Nothing."""


# ---------------------------------------------------------------- calls


def call_attributes(method: str, address: str = "") -> dict[str, AttributeValue]:
    """Returns the attributes of every span of a remote call. `method` is `Service.Method`."""
    named: dict[str, AttributeValue] = {
        span_names.RPC_SYSTEM: span_names.GRPC,
        span_names.RPC_METHOD: span_names.rpc_method(method),
    }
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        named[span_names.SERVER_ADDRESS], named[span_names.SERVER_PORT] = host.strip("[]"), int(port)
    return named


def unrecorded_call(tracer: Tracer, method: str, parent: str) -> str | None:
    """The context of a call from here that has no span; None: it has one.

    High-rate calls, and a service's own, are seen in recorded traces only.
    """
    if not is_sampled(parent) and (not tracer.calls_begin_traces or method in span_names.QUIET_METHODS):
        return parent or NOBODY
    return None if tracer.wants(parent) else unrecorded(parent)


def record_client_call(tracer: Tracer, method: str, address: str, parent: str, links: Sequence[str] = ()) -> Span:
    """The span of a call from here."""
    return tracer.record(span_names.rpc_method(method), Kind.CLIENT, parent, call_attributes(method, address), links)


def start_server_call(tracer: Tracer, method: str, parent: str) -> tuple[Span | None, str]:
    """The span of a call to here, if it has one, and the context of what is done for it."""
    if not is_sampled(parent) and method in span_names.QUIET_METHODS:
        return None, parent or NOBODY
    if parent == NOBODY and not tracer.follows_parents:
        parent = ""  # this sampler decides for itself, and there is no trace to belong to
    if not tracer.wants(parent):
        return None, unrecorded(parent)
    span = tracer.record(span_names.rpc_method(method), Kind.SERVER, parent, call_attributes(method))
    return span, span.traceparent


def end_server_call(span: Span, status: str, error_type: str = "", message: str = "") -> None:
    """A refusal that is the caller's own doing does not redden the server: see `SERVER_ERRORS`."""
    span.set({span_names.RPC_STATUS_CODE: status})
    if status in span_names.SERVER_ERRORS:
        span.end(error_type or status, message)
        return
    if error_type:
        span.set({span_names.ERROR_TYPE: error_type})
    span.end()


def end_with(span: Span, error: BaseException | None) -> None:
    """Ends a span with what its work raised, or with None."""
    if error is None:
        span.end()
    elif isinstance(error, OncelogError):
        span.end(error.code.name, error.message)
    elif type(error).__name__ == "CancelledError":
        span.end(span_names.CANCELLED, "the caller no longer waits")
    else:
        span.end(type(error).__qualname__, str(error))
