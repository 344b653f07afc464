"""`oncelog quota`: limits are numbers from 1 on or `unlimited`; what holds is told with where it comes from."""

from __future__ import annotations

import pytest

from oncelog.v1 import security_pb2 as pb
from oncelog_cli.cluster.quota import limit_of
from oncelog_cli.terminal.argument_types import UsageError
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.fake_cluster import FakeCluster


@pytest.mark.parametrize(
    ("word", "limit"), [("1", 1), ("500", 500), ("20M", 20 << 20), ("2K", 2_048), ("1G", 1 << 30), ("unlimited", -1)]
)
def test_a_limit_is_a_number_or_none(word: str, limit: int) -> None:
    assert limit_of(word) == limit


@pytest.mark.parametrize("word", ["0", "-1", "-5", "many", "", "1.5"])
def test_what_limits_nothing_is_no_limit(word: str) -> None:
    with pytest.raises(UsageError, match="a limit is a number from 1 on"):
        limit_of(word)


def test_limits_are_set_for_each_subject(cluster: FakeCluster, oncelog: Oncelog) -> None:
    cluster.answers["AlterQuotas"] = pb.AlterQuotasReply()
    said = oncelog(*["quota", "set", "User:a", "User:*", "--connections", "5", "--requests-per-s", "unlimited"])
    assert (said.code, said.out) == (0, "User:a, User:*: requests_per_s unlimited, connections 5\n")
    (request,) = cluster.requests("AlterQuotas")
    limits = {"connections": 5, "requests_per_s": -1}
    assert {q.subject: {limit.kind: limit.limit for limit in q.limits} for q in request.set} == {
        "User:a": limits,
        "User:*": limits,
    }


def test_no_limit_named_asks_nobody(cluster: FakeCluster, oncelog: Oncelog) -> None:
    said = oncelog("quota", "set", "User:a")
    assert (said.code, cluster.calls) == (2, [])
    assert "name a limit: --produce-bytes-per-s," in said.err


@pytest.mark.parametrize(("removed", "code"), [(2, 0), (0, 1)])
def test_removing_what_was_not_there_is_exit_code_1(
    cluster: FakeCluster, oncelog: Oncelog, removed: int, code: int
) -> None:
    cluster.answers["AlterQuotas"] = pb.AlterQuotasReply(removed=removed)
    said = oncelog(*["quota", "remove", "User:a", "--kind", "connections"])
    assert (said.code, said.out) == (code, f"{removed} limits removed\n")
    (request,) = cluster.requests("AlterQuotas")
    assert [list(item.kinds) for item in request.remove] == [["connections"]]


def test_every_quota_that_was_set_has_a_line(cluster: FakeCluster, oncelog: Oncelog) -> None:
    reply = pb.ListQuotasReply()
    quota = reply.quotas.add(subject="User:a")
    quota.limits.add(kind="requests_per_s", limit=-1)
    quota.limits.add(kind="connections", limit=5)
    cluster.answers["ListQuotas"] = reply
    assert oncelog("quota", "list").table == [
        ["SUBJECT", "KIND", "LIMIT"],
        ["User:a", "connections", "5"],
        ["User:a", "requests_per_s", "unlimited"],
    ]


@pytest.mark.parametrize(
    ("subject", "first"), [("User:me", "User:me"), ("", "one of the cluster's services: no quota applies to it")]
)
def test_what_holds_is_told_with_its_source(cluster: FakeCluster, oncelog: Oncelog, subject: str, first: str) -> None:
    reply = pb.DescribeQuotaReply(subject=subject)
    reply.limits.add(kind="connections", limit=-1, source="User:*")
    cluster.answers["DescribeQuota"] = reply
    said = oncelog("quota", "describe")
    assert said.out.splitlines()[0] == first
    assert said.table[2] == ["connections", "unlimited", "User:*"]
    assert oncelog("quota", "describe", "--format", "json").data["limits"] == [
        {"kind": "connections", "limit": "unlimited", "source": "User:*"}
    ]
