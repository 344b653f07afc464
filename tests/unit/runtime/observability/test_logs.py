"""A log line is one JSON object, always."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.trace.trace_context import TRACEPARENT
from oncelog_runtime.observability import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("INFO", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_carries_its_values_and_its_trace(stream: io.StringIO) -> None:
    token = TRACEPARENT.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    logging.getLogger("toy").info("took %d ms", 5, extra={"topic": "t", "auth_token": "hush", "odd": {1, 2} - {1}})
    TRACEPARENT.reset(token)
    logging.getLogger("toy").debug("not this one")
    [line] = lines(stream)
    assert (line["level"], line["logger"], line["message"], line["topic"]) == ("INFO", "toy", "took 5 ms", "t")
    assert line["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert line["span_id"] == "b7ad6b7169203331"
    assert line["auth_token"] == "***"
    assert line["odd"] == "{2}"
    assert line["time"].endswith("Z")


def test_a_stack_is_one_line_too(stream: io.StringIO) -> None:
    try:
        raise ValueError("no\nway")
    except ValueError:
        logging.getLogger("toy").exception("failed")
    [line] = lines(stream)
    assert "ValueError: no" in line["stack"]
    assert "trace_id" not in line


def test_whatever_a_stranger_chose_it_stays_one_line_that_no_terminal_obeys(stream: io.StringIO) -> None:
    hostile = "a\nb\r\x1b[31m\x9b31m\u2028\u202e\ud800\x7f"
    logging.getLogger("door").warning("said %s", hostile, extra={"topic": hostile})
    (line,) = stream.getvalue().split("\n")[:-1]
    assert line.isprintable()
    assert json.loads(line)["topic"] == hostile
