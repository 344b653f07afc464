"""A node is drained when it was seen to drain; the node that is meant is the one that flags or environment name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.errors import ConfigError, DrainingElsewhereError, StaleBrokerEpochError, UnsupportedVersionError
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_cli.cluster import node_drain
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster


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


# ---------------------------------------------------------------- one node


def test_a_change_is_meant_for_the_process_that_was_looked_at(cluster: FakeCluster) -> None:
    """Else a process that was started anew meanwhile would drain."""
    reply = pb.DrainBrokerReply(
        state=types_pb2.DRAIN_STATE_DRAINING, leaderships=3, broker={"broker_id": 2, "incarnation": 7}
    )
    cluster.answers["DrainBroker"] = reply
    node = node_drain.Node(node_drain.BROKER, BROKERS[0], cluster, 2)

    async def work(_: FakeCluster) -> None:
        row = await node.ask(types_pb2.DRAIN_ACTION_START)
        assert (row["node"], row["state"], row["leaderships"]) == (2, "draining", 3)
        await node.ask(types_pb2.DRAIN_ACTION_STATUS)

    cluster.run(work)
    look, start, again = cluster.requests("DrainBroker")
    assert [r.action for r in (look, start, again)] == [
        types_pb2.DRAIN_ACTION_STATUS,
        types_pb2.DRAIN_ACTION_START,
        types_pb2.DRAIN_ACTION_STATUS,
    ]
    assert {r.broker_id for r in (look, start, again)} == {2}
    assert start.call.term == 7
    assert start.call.nonce


def test_a_coordinator_tells_its_shards(cluster: FakeCluster) -> None:
    cluster.answers["DrainCoordinator"] = co.DrainCoordinatorReply(
        address="c0:1", state=types_pb2.DRAIN_STATE_DRAINED, shards=4, term=5
    )
    node = node_drain.Node(node_drain.COORDINATOR, "c0:1", cluster)

    async def work(_: FakeCluster) -> None:
        row = await node_drain.undrain(node)
        assert (row["node"], row["state"], row["shards"]) == ("c0:1", "drained", 4)

    cluster.run(work)
    assert [(r.action, r.call.term) for r in cluster.requests("DrainCoordinator")][1] == (
        types_pb2.DRAIN_ACTION_CANCEL,
        5,
    )


def test_a_service_of_producer_ids_has_nothing_to_hand_over(cluster: FakeCluster) -> None:
    node = node_drain.Node(node_drain.ALLOCATOR, "p0:1", cluster)
    assert cluster.run(lambda _: node.ask(types_pb2.DRAIN_ACTION_START))["state"] == "nothing to do"
    assert cluster.calls == []
