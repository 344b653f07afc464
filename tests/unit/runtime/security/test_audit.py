"""The audit log: who, what, on what, and why not; limited, escaped, and without secrets."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from oncelog.trace.trace_context import TRACEPARENT
from oncelog_runtime.core.security.access import Decided
from oncelog_runtime.core.security.audit_limits import BURST, PER_SECOND, SAME_MS
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.logs import JsonFormatter
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.security.audit import AuditTrail, audit_log

LINE: dict[str, Any] = {
    "principal": "User:ann",
    "peer": "ipv4:10.0.0.1:5",
    "listener": "client",
    "method": "PartitionLeader.DeleteTopic",
    "operation": "DELETE",
    "resource_type": "TOPIC",
    "resource": "orders",
    "allowed": False,
    "reason": "no rule allows it",
}


class Clock:
    now = 0

    def monotonic_ms(self) -> int:
        return self.now

    def now_ms(self) -> int:
        return self.now


class World:
    def __init__(self) -> None:
        self.clock, self.metrics, self.stream = Clock(), NodeMetrics(), io.StringIO()
        self.trail = AuditTrail(self.clock, self.metrics)
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(JsonFormatter())

    def record(self, **changes: Any) -> None:
        self.trail.record(Decided(**{**LINE, **changes}))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().split("\n") if line]


@pytest.fixture
def world() -> Any:
    world = World()
    audit_log.addHandler(world.handler)
    level, audit_log.level = audit_log.level, logging.INFO
    yield world
    audit_log.removeHandler(world.handler)
    audit_log.setLevel(level)


def test_a_line_says_who_what_on_what_and_why_not(world: World) -> None:
    world.record()
    (line,) = world.lines
    assert line["result"] == "DENIED"
    assert line["logger"] == "oncelog.audit"
    assert {name: line[name] for name in LINE if name != "allowed"} == {
        name: value for name, value in LINE.items() if name != "allowed"
    }
    assert world.metrics.counter(names.AUTHORIZATION_DENIED, "DELETE", "TOPIC").value == 1


def test_the_same_refusal_is_written_once_and_counted(world: World) -> None:
    for _ in range(50):
        world.record()
    world.record(resource="other")
    world.clock.now = SAME_MS
    world.record()
    first, other, again = world.lines
    assert "repeated" not in first
    assert (other["resource"], other["left_out"]) == ("other", 49)
    assert again["repeated"] == 49
    assert world.metrics.counter(names.AUTHORIZATION_DENIED, "DELETE", "TOPIC").value == 52
    assert world.metrics.counter(names.AUDIT_LEFT_OUT).value == 49


def test_a_flood_of_refusals_hides_nothing_that_operators_do(world: World) -> None:
    for number in range(2 * BURST):
        world.record(resource=f"topic-{number}")
    world.record(allowed=True, reason="")
    assert len(world.lines) == BURST + 1
    assert world.lines[-1]["result"] == "ALLOWED"
    assert world.lines[-1]["left_out"] == BURST
    world.clock.now += 1_000
    for number in range(BURST):
        world.record(resource=f"later-{number}")
    assert len(world.lines) == BURST + 1 + PER_SECOND


@pytest.mark.parametrize("name", ['a\n{"result": "ALLOWED"}', "\x1b[2J", "\u202egnp", "\x9b31m", "x" * 10_000])
def test_no_name_forges_a_line_or_steers_a_terminal(world: World, name: str) -> None:
    world.record(resource=name, principal=name, reason=name)
    (text,) = [line for line in world.stream.getvalue().split("\n") if line]
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 2_000
    assert json.loads(text)["result"] == "DENIED"


def test_a_proof_that_was_refused(world: World) -> None:
    failure = {"listener": "client", "code": "AUTHENTICATION_FAILED", "reason": "user or password is wrong"}
    world.trail.unauthenticated(peer="ipv4:10.0.0.1:5", **failure)
    world.trail.unauthenticated(peer="ipv4:10.0.0.1:6", **failure)  # another port of the same host
    (line,) = world.lines
    assert (line["operation"], line["peer"]) == ("AUTHENTICATE", "ipv4:10.0.0.1:5")
    assert world.metrics.counter(names.AUTHENTICATION_FAILURES, "AUTHENTICATION_FAILED").value == 2


def test_a_line_names_the_trace_of_its_request(world: World) -> None:
    marked = TRACEPARENT.set(f"00-{'a' * 32}-{'b' * 16}-01")
    try:
        world.record()
    finally:
        TRACEPARENT.reset(marked)
    (line,) = world.lines
    assert (line["trace_id"], line["span_id"]) == ("a" * 32, "b" * 16)
