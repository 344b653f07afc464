"""`oncelog node`: which node is meant, and when it counts as drained."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.client.admin.operations_admin import BrokerLoad
from oncelog.errors import ConfigError, DrainingElsewhereError, StaleBrokerEpochError, UnsupportedVersionError
from oncelog.v1 import types_pb2
from oncelog_cli.cluster import node_drain
from oncelog_cli.cluster.node import NOT_IN_TIME, _tell
from oncelog_cli.main import main
from oncelog_cli.terminal.output import Printer


class FakeNode:
    """Answers from a list; the last answer stays."""

    kind = "broker"
    address = "a:1"
    broker_id = 2

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []

    async def ask(self, action: int) -> dict[str, Any]:
        self.asked.append(action)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"kind": "broker", "node": 2, "state": answer, "reason": "3 leaderships to hand over"}


def drain(node: FakeNode, timeout_s: float = 5.0) -> dict[str, Any]:
    return asyncio.run(node_drain.drain(node, timeout_s))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_drain, "_LOOK_S", 0.001)


def test_a_drain_is_over_when_it_was_seen() -> None:
    node = FakeNode("draining", "draining", "drained")
    assert drain(node)["state"] == "drained"
    assert node.asked == [types_pb2.DRAIN_ACTION_START, types_pb2.DRAIN_ACTION_STATUS, types_pb2.DRAIN_ACTION_STATUS]


def test_how_far_a_drain_is_can_be_told() -> None:
    said: list[str] = []
    asyncio.run(node_drain.drain(FakeNode("draining", "drained"), 5.0, said.append))  # type: ignore[arg-type]
    assert said == ["broker 2: draining, 3 leaderships to hand over"]


def test_not_draining_after_the_start_has_not_begun_and_is_asked_again() -> None:
    node = FakeNode("not draining", "draining", "not draining", "drained")
    assert drain(node)["state"] == "drained"
    start, look = types_pb2.DRAIN_ACTION_START, types_pb2.DRAIN_ACTION_STATUS
    assert node.asked == [start, start, look, start]


def test_who_waits_in_line_waits_until_the_time_is_over() -> None:
    node = FakeNode(DrainingElsewhereError("broker 1 drains", retry_after_ms=1), "drained")
    assert drain(node)["state"] == "drained"
    node = FakeNode(DrainingElsewhereError("broker 1 drains", retry_after_ms=1))
    row = drain(node, 0.01)
    assert (row["state"], row["reason"]) == ("not draining", "broker 1 drains")


def test_what_cannot_be_waited_out_is_an_error() -> None:
    with pytest.raises(UnsupportedVersionError):
        drain(FakeNode(UnsupportedVersionError("older")))
    assert drain(FakeNode(StaleBrokerEpochError("starts"), "skipped"))["state"] == "skipped"


@pytest.mark.parametrize(
    ("state", "code"), [("drained", 0), ("skipped", 0), ("nothing to do", 0), ("draining", 3), ("not draining", 3)]
)
def test_exit_codes(state: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"kind": "broker", "node": 2, "state": state, "reason": "why"}
    assert _tell(row, Printer("text")) == code
    out = capsys.readouterr().out
    assert ("NOT DRAINED IN TIME" in out) == (code == NOT_IN_TIME)


LEADER, COORDINATOR, ALLOCATOR = "ONCELOG_PARTITION_LEADER_", "ONCELOG_COORDINATOR_", "ONCELOG_PID_ALLOCATOR_"
MYSELF = [
    ({LEADER + "LISTEN_PORT": "9093"}, ("broker", "127.0.0.1:9093")),
    (
        {LEADER + "LISTEN_PORT": "9093", LEADER + "ADVERTISED_ADDRESS": "pod-0.svc:9093"},
        ("broker", "pod-0.svc:9093"),
    ),
    ({COORDINATOR + "LISTEN_PORT": "9093"}, ("coordinator", "127.0.0.1:9093")),
    ({ALLOCATOR + "LISTEN_PORT": "9093"}, ("pid-allocator", "127.0.0.1:9093")),
    ({LEADER + "LISTEN_PORT": "9093", COORDINATOR + "LOG_LEVEL": "INFO"}, ("broker", "127.0.0.1:9093")),
]


@pytest.mark.parametrize(("environ", "found"), MYSELF)
def test_self_is_the_service_of_the_environment(environ: dict[str, str], found: tuple[str, str]) -> None:
    assert node_drain.myself(environ) == found


@pytest.mark.parametrize(
    "environ",
    [{}, {LEADER + "LISTEN_PORT": "1", COORDINATOR + "LISTEN_PORT": "2"}, {COORDINATOR + "NODE_ID": "1"}],
)
def test_an_environment_of_no_or_of_two_services_is_an_error(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        node_drain.myself(environ)


def test_a_node_speaks_to_itself_with_its_own_certificates() -> None:
    prefix = "ONCELOG_COORDINATOR_TLS_"
    files = {f"{prefix}CERT_FILE": "/c", f"{prefix}KEY_FILE": "/k", f"{prefix}CA_FILE": "/a"}
    paths = node_drain.own_certificates(files)
    assert paths is not None
    assert (paths.cert, paths.key, paths.ca) == ("/c", "/k", "/a")
    assert paths.key_setting == "ONCELOG_COORDINATOR_TLS_KEY_FILE"
    assert node_drain.own_certificates({"ONCELOG_COORDINATOR_LISTEN_PORT": "9093"}) is None


class Loads:
    """The administration of a cluster that knows one broker, which holds nothing."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    async def broker_loads(self) -> list[BrokerLoad]:
        return [BrokerLoad(1, True, False, 0, 0, 0)]

    async def decommission(self, brokers: list[int]) -> list[BrokerLoad]:
        self.asked.append(brokers)
        return await self.broker_loads()


@pytest.mark.parametrize(("brokers", "asked"), [(["2", "1"], [[1]]), (["2", "3"], [])])
def test_brokers_that_are_gone_are_fine_where_that_is_said(
    monkeypatch: pytest.MonkeyPatch, brokers: list[str], asked: list[list[int]]
) -> None:
    """A hook of the chart asks again for brokers that an earlier one has taken away."""
    admin = Loads()
    client = SimpleNamespace(admin=admin)
    monkeypatch.setattr("oncelog_cli.cluster.node.with_client", lambda _args, work, **_: asyncio.run(work(client)))
    assert main(["node", "decommission", *brokers, "--missing-ok", "--timeout", "1"]) == 0
    assert admin.asked == asked
