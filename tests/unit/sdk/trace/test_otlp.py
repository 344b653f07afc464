"""The exporter of traces takes a good address, tries once, and says once that nobody listens, and once that somebody does."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from oncelog.errors import ConfigError
from oncelog.trace import otlp
from oncelog.trace.otlp import OtlpExporter, check_endpoint, otlp_tracer
from oncelog.trace.tracing import Kind
from tests.spans import recording_tracer


@pytest.mark.parametrize(
    "wrong", ["127.0.0.1:4317", "http://host", "ftp://host:1", "http://host:1/v1/traces", "http://h:x"]
)
def test_an_endpoint_is_checked(wrong: str) -> None:
    with pytest.raises(ConfigError):
        check_endpoint(wrong)


def test_the_same_arguments_give_the_same_tracer() -> None:
    one = otlp_tracer("http://127.0.0.1:1", "same", "1")
    assert one is otlp_tracer("http://127.0.0.1:1", "same", "1")
    assert one is not otlp_tracer("http://127.0.0.1:1", "other", "1")


class Collector:
    """Stands where the stub of a collector would: takes spans, or refuses them."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.taken = 0

    def Export(self, request: Any, **_: Any) -> None:
        if self.error is not None:
            raise self.error
        self.taken += sum(len(scope.spans) for found in request.resource_spans for scope in found.scope_spans)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    made = Collector()
    monkeypatch.setattr(otlp, "TraceServiceStub", lambda _channel: made)
    return made


def test_one_that_is_down_costs_one_line_when_it_goes_and_one_when_it_is_back(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = OtlpExporter("http://127.0.0.1:1")
    with caplog.at_level(logging.INFO):
        collector.error = ValueError("closed")
        for count in (2, 3):
            assert exporter.export(spans(count)) is SpanExportResult.FAILURE
        assert (exporter.failing, exporter.dropped) == (True, 5)
        collector.error = None
        for _ in range(2):
            assert exporter.export(spans(1)) is SpanExportResult.SUCCESS
    assert (collector.taken, exporter.failing, exporter.dropped) == (2, False, 0)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "no collector takes traces; they are dropped"),
        ("INFO", "traces are taken again"),
    ]
    assert caplog.records[1].spans_dropped == 5  # type: ignore[attr-defined]


def test_what_is_wrong_with_our_own_code_is_not_taken_for_a_collector_that_is_down(collector: Collector) -> None:
    collector.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        OtlpExporter("http://127.0.0.1:1").export(spans(1))


def spans(count: int) -> list[Any]:
    """Spans that have ended, of a tracer that sends them nowhere."""
    tracer, recorder = recording_tracer()
    for _ in range(count):
        tracer.start("s", Kind.INTERNAL, "").end()
    return recorder.ended


def test_a_certificate_that_cannot_be_read_is_named_by_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_CERTIFICATE cannot be read: No such file"):
        OtlpExporter("https://127.0.0.1:1")


def test_a_flush_waits_no_longer_than_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's own time-outs do not hold while an export is under way."""
    ended = threading.Event()
    try:
        begun = time.monotonic()
        otlp._bounded(ended.wait, 50)
        assert time.monotonic() - begun < 5
    finally:
        ended.set()


def test_a_sentence_of_an_overloaded_tracer_is_told_once() -> None:
    first = otlp._FirstOnly()
    records = [logging.LogRecord("n", logging.WARNING, "p", 1, text, (), None) for text in ("full", "full", "other")]
    assert [first.filter(record) for record in records] == [True, False, True]
