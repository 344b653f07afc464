"""The chart's network policies let through what the cluster needs, and nothing else that they can know of."""

from __future__ import annotations

import pytest

from tests.chart import golden
from tests.chart.reach import OUTSIDE, Policies

CLIENT, INTERNAL, HEALTH, METRICS = 9092, 9093, 9100, 9101
SERVICES = ("partition-leader", "coordinator", "pid-allocator")


def policies(case: str = "default") -> Policies:
    return Policies(golden.load(case))


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [
        ("partition-leader", "partition-leader", INTERNAL),
        ("partition-leader", "coordinator", INTERNAL),
        ("coordinator", "partition-leader", INTERNAL),
        ("coordinator", "coordinator", INTERNAL),
        ("coordinator", "pid-allocator", INTERNAL),
        ("partition-leader", "etcd", 2379),
        ("coordinator", "etcd", 2379),
        ("pid-allocator", "etcd", 2379),
        ("etcd", "etcd", 2380),
        ("test", "partition-leader", CLIENT),
        ("test", "coordinator", CLIENT),
    ],
)
def test_what_the_cluster_needs_is_let_through(source: str, target: str, port: int) -> None:
    for case in ("default", "security-kubernetes"):
        found = policies(case)
        assert found.allow(found.labels(source), found.labels(target), port), case


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [
        ("test", "partition-leader", INTERNAL),
        ("test", "etcd", 2379),
        ("partition-leader", "pid-allocator", INTERNAL),
        ("pid-allocator", "partition-leader", INTERNAL),
        ("pid-allocator", "coordinator", INTERNAL),
        ("partition-leader", "etcd", 2380),
        ("partition-leader", "test", 22),
    ],
)
def test_what_nobody_needs_is_not(source: str, target: str, port: int) -> None:
    found = policies()
    assert not found.allow(found.labels(source), found.labels(target), port)


def test_strangers_in_the_cluster_reach_what_is_for_clients_and_monitoring_alone() -> None:
    found = policies()
    for service in SERVICES:
        target = found.labels(service)
        reached = {port for port in (CLIENT, INTERNAL, HEALTH, METRICS, 2379) if found.allow(OUTSIDE, target, port)}
        assert reached == {HEALTH, METRICS} | ({CLIENT} if service != "pid-allocator" else set())
    assert [port for port in (2379, 2380, 2381) if found.allow(OUTSIDE, found.labels("etcd"), port)] == [2381]


def test_clients_and_monitoring_can_be_bounded_too() -> None:
    found = policies("security-kubernetes")
    target = found.labels("partition-leader")
    assert not found.allow(OUTSIDE, target, CLIENT)
    assert found.allow({"oncelog-client": "true"}, target, CLIENT)
    assert not found.allow(OUTSIDE, target, METRICS)
    assert not found.allow(OUTSIDE, found.labels("etcd"), 2381)
    assert found.allow(OUTSIDE, target, HEALTH)


def test_outgoing_connections_end_at_the_ports_that_are_known() -> None:
    default = policies()
    for component in (*SERVICES, "etcd", "test"):
        assert default.may_leave(default.labels(component), 53)
        assert not default.may_leave(default.labels(component), 443), component
    kubernetes = policies("security-kubernetes")
    assert kubernetes.may_leave(kubernetes.labels("partition-leader"), 443)
    assert kubernetes.may_leave(kubernetes.labels("coordinator"), 6443)
    assert not kubernetes.may_leave(kubernetes.labels("pid-allocator"), 443)
    outside = policies("security-oidc")
    broker, pids = outside.labels("partition-leader"), outside.labels("pid-allocator")
    assert [port for port in (443, 2379, 4317, 8443, 12379) if outside.may_leave(broker, port)] == [
        2379,
        4317,
        8443,
        12379,
    ]
    assert [port for port in (443, 2379, 4317, 8443, 12379) if outside.may_leave(pids, port)] == [2379, 4317, 12379]
    open_ones = policies("security-certificates")
    assert open_ones.may_leave(open_ones.labels("partition-leader"), 443)
