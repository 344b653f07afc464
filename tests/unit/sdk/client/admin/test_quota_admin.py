"""Quotas are set and removed by the controller, once for all copies of a call; unlimited is told as such."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.admin.quota_admin import UNLIMITED, EffectiveLimit, Quota
from oncelog.v1 import security_pb2 as pb
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_limits_are_set_and_taken_away_at_the_controller(cluster: FakeCluster) -> None:
    cluster.answers["AlterQuotas"] = pb.AlterQuotasReply(removed=3)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.set_quotas([Quota("User:etl", {"requests_per_s": UNLIMITED, "connections": 5})])
            assert await client.admin.remove_quotas(["User:a", "User:b"], ["connections"]) == 3

    cluster.run(work)
    assert {address for address, method, _ in cluster.calls if method.endswith("AlterQuotas")} == {BROKERS[0]}
    setting, removing = cluster.requests("AlterQuotas")
    (item,) = setting.set
    assert [(limit.kind, limit.limit) for limit in item.limits] == [("connections", 5), ("requests_per_s", -1)]
    assert [(r.subject, list(r.kinds)) for r in removing.remove] == [
        ("User:a", ["connections"]),
        ("User:b", ["connections"]),
    ]
    assert setting.call.nonce != removing.call.nonce


def test_a_try_that_is_repeated_has_the_name_of_the_first(cluster: FakeCluster) -> None:
    cluster.answers["AlterQuotas"] = pb.AlterQuotasReply()
    cluster.fail("AlterQuotas", errors.NetworkError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.set_quotas([Quota("User:etl", {"connections": 5})])

    cluster.run(work)
    first, second = cluster.requests("AlterQuotas")
    assert first.call.nonce == second.call.nonce


def test_what_was_set_is_listed_and_what_holds_is_described(cluster: FakeCluster) -> None:
    quotas = pb.ListQuotasReply()
    quotas.quotas.add(subject="User:etl").limits.add(kind="connections", limit=5)
    cluster.answers["ListQuotas"] = quotas
    described = pb.DescribeQuotaReply(subject="User:me")
    described.limits.add(kind="connections", limit=7, source="User:*")
    described.limits.add(kind="requests_per_s", limit=UNLIMITED)
    cluster.answers["DescribeQuota"] = described

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.admin.list_quotas() == [Quota("User:etl", {"connections": 5})]
            found = await client.admin.describe_quota()
            assert found.subject == "User:me"
            assert found.limits == (
                EffectiveLimit("connections", 7, "User:*"),
                EffectiveLimit("requests_per_s", None, ""),
            )

    cluster.run(work)
