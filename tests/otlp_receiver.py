"""A collector of traces for tests: OTLP over gRPC, on OpenTelemetry's own stubs, keeping everything in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it was exported; ids as hexadecimal text. `links` are (trace id, span id)."""

    service: str
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: str
    failed: bool
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    start_ns: int
    end_ns: int


class OtlpReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """`with OtlpReceiver() as receiver: ... receiver.endpoint`."""

    def __init__(self, port: int = 0) -> None:
        self._spans: list[ReceivedSpan] = []
        self._changed = threading.Condition()
        self._server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.requests = 0

    @property
    def endpoint(self) -> str:
        """As settings want it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[ReceivedSpan]:
        """Everything so far."""
        with self._changed:
            return list(self._spans)

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of one trace."""
        return [span for span in self.spans if span.trace_id == trace_id]

    def wait_for(self, condition: Callable[[list[ReceivedSpan]], bool], seconds: float = 20.0) -> bool:
        """True as soon as the condition holds for what has come; False after this long."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition(self._spans):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def Export(self, request: Any, _context: Any) -> Any:
        found = list(_spans_of(request))
        with self._changed:
            self.requests += 1
            self._spans.extend(found)
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def __enter__(self) -> OtlpReceiver:
        self._server.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.stop(0).wait()


def _spans_of(request: Any) -> Iterator[ReceivedSpan]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    service=service,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    name=span.name,
                    kind=KINDS[span.kind],
                    failed=span.status.code == 2,
                    attributes=_attributes(span.attributes),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
