"""Sends spans over OTLP: a provider of our own, with a batch processor, for processes that have none.

Rule 1: a traced program never waits for the collector, and never gets its errors. One that is down costs one line in
        the log when it goes and one when it is back; the spans of that time are dropped.
Rule 2: `flush` and `close` wait no longer than the given time, and not at all while the collector is down.
Rule 3: made in the process that uses it: a forked child makes its own.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from importlib import metadata
from random import Random, SystemRandom
from typing import Any, Final, cast
from urllib.parse import urlsplit

import grpc
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.util.re import parse_env_headers

from oncelog.errors import ConfigError
from oncelog.trace import tracing
from oncelog.trace.otel_tracer import ChosenIds, OtelTracer

_log = logging.getLogger(__name__)

_EXPORT_TIMEOUT_S: Final = 5.0
_EXIT_TIMEOUT_MS: Final = 1_000
_QUEUE_SPANS: Final = 8_192
_BATCH_SPANS: Final = 512
_DELAY_MS: Final = 5_000  # OpenTelemetry's default: each export costs some milliseconds, however little it sends
_QUIET_LOGGERS: Final = ("opentelemetry.sdk._shared_internal", "opentelemetry.sdk.trace")
DEFAULT_SAMPLER: Final = "parentbased_always_on"

_made: dict[tuple[int, str, str, float, str], OtelTracer] = {}
_guard = threading.Lock()
os.register_at_fork(after_in_child=_made.clear)


def check_endpoint(endpoint: str) -> None:
    """Raises `ConfigError` unless it is http://host:port or https://host:port."""
    try:
        parts = urlsplit(endpoint)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.path in ("", "/")
        fits = fits and parts.port is not None
    except ValueError:
        fits = False
    if not fits:
        raise ConfigError("otlp_endpoint is http://host:port (OTLP over gRPC, usually port 4317)", given=endpoint)


class OtlpExporter(SpanExporter):
    """One attempt per batch: what the collector does not take is dropped.

    OpenTelemetry's own exporter tries for ten seconds, and writes a line for each try. Headers and certificates are taken
    from the environment, by OpenTelemetry's names.
    """

    def __init__(self, endpoint: str) -> None:
        check_endpoint(endpoint)
        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        self._address = f"[{host}]:{parts.port}" if ":" in host else f"{host}:{parts.port}"
        self._endpoint = endpoint
        headers = os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
        self._headers = tuple(parse_env_headers(headers, liberal=True).items())
        options = [("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 5_000)]
        if parts.scheme == "https":
            self._channel = grpc.secure_channel(self._address, _credentials(), options=options)
        else:
            self._channel = grpc.insecure_channel(self._address, options=options)
        self._stub: Any = cast(Any, TraceServiceStub)(self._channel)
        self.failing = False
        self.dropped = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See `SpanExporter`; called by one thread at a time."""
        try:
            self._stub.Export(encode_spans(spans), metadata=self._headers, timeout=_EXPORT_TIMEOUT_S)
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed
            self._failed(len(spans), error)
            return SpanExportResult.FAILURE
        if self.failing:
            _log.info("traces are taken again", extra={"endpoint": self._endpoint, "spans_dropped": self.dropped})
            self.failing, self.dropped = False, 0
        return SpanExportResult.SUCCESS

    def _failed(self, count: int, error: Exception) -> None:
        self.dropped += count
        if not self.failing:
            self.failing = True
            why = error.code().name if isinstance(error, grpc.Call) else str(error)
            _log.warning(
                "no collector takes traces; they are dropped", extra={"endpoint": self._endpoint, "reason": why}
            )

    def shutdown(self) -> None:
        """See `SpanExporter`."""
        self._channel.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True


def _credentials() -> grpc.ChannelCredentials:
    names = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")
    files: list[bytes | None] = []
    for name in names:
        path = os.environ.get(name.replace("OTLP_", "OTLP_TRACES_")) or os.environ.get(name)
        try:
            with open(path, "rb") if path else open(os.devnull, "rb") as file:
                files.append(file.read() or None)
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {error.strerror}", path=path or "") from error
    return grpc.ssl_channel_credentials(*files)


def otlp_tracer(
    endpoint: str,
    service: str,
    instance: str,
    *,
    sampler: str = DEFAULT_SAMPLER,
    ratio: float = 1.0,
    ambient: bool = True,
) -> OtelTracer:
    """The tracer of this process that sends to `endpoint`; the same one for the same arguments.

    `service` and `instance` are the resource attributes service.name and service.instance.id. Raises `ConfigError`.
    """
    key = (os.getpid(), endpoint, sampler, ratio, service)
    with _guard:
        if key not in _made:
            chosen = tracing.Sampler(sampler, ratio)
            _made[key] = _tracer(OtlpExporter(endpoint), service, instance, chosen, ambient)
        return _made[key]


def _tracer(exporter: OtlpExporter, service: str, instance: str, sampler: tracing.Sampler, ambient: bool) -> OtelTracer:
    for name in _QUIET_LOGGERS:  # a full queue is reported once per span, an attribute of a wrong type too
        logging.getLogger(name).addFilter(_FirstOnly())
    random = Random(SystemRandom().getrandbits(256))
    ids = ChosenIds(random)
    provider = TracerProvider(
        resource=Resource.create(
            {"service.name": service, "service.instance.id": instance, "service.version": _version()}
        ),
        sampler=ALWAYS_ON,
        id_generator=ids,  # type: ignore[arg-type]  # it has the methods, and no need of the base class
        span_limits=SpanLimits(max_links=2 * tracing.MAX_LINKS),
        shutdown_on_exit=False,
    )
    processor = BatchSpanProcessor(
        exporter, max_queue_size=_QUEUE_SPANS, max_export_batch_size=_BATCH_SPANS, schedule_delay_millis=_DELAY_MS
    )
    provider.add_span_processor(processor)

    def flush(timeout_ms: int) -> None:
        if not exporter.failing:
            _bounded(processor.force_flush, timeout_ms)

    def close(timeout_ms: int) -> None:
        atexit.unregister(tracer.flush)
        flush(timeout_ms)
        _bounded(provider.shutdown, 0 if exporter.failing else timeout_ms)
        with _guard:
            for key in [key for key, made in _made.items() if made is tracer]:
                del _made[key]

    tracer = OtelTracer(
        provider, sampler=sampler, ids=ids, on_flush=flush, on_close=close, ambient=ambient, random=random
    )
    atexit.register(tracer.flush, _EXIT_TIMEOUT_MS)
    return tracer


def _bounded(work: Callable[[], object], timeout_ms: int) -> None:
    """OpenTelemetry's own time-outs are not kept while an export is under way."""
    thread = threading.Thread(target=work, name="oncelog-otlp", daemon=True)
    thread.start()
    thread.join(timeout_ms / 1000)


def _version() -> str:
    try:
        return metadata.version("oncelog")
    except metadata.PackageNotFoundError:
        return "unknown"


class _FirstOnly(logging.Filter):
    """Each sentence once: an overloaded tracer must not overload the log."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """True for what was not told yet."""
        is_new = record.msg not in self._told
        self._told.add(str(record.msg))
        return is_new
