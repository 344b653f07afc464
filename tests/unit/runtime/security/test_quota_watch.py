"""Quotas of a process whose access rules are off follow what stands in etcd."""

from __future__ import annotations

import asyncio

from oncelog_runtime.core.quota import Limits, QuotaKind
from oncelog_runtime.core.security.quotas import Quota
from oncelog_runtime.ports import Put
from oncelog_runtime.security.quota_watch import follow_quotas
from oncelog_runtime.security.stored import encode, quota_key
from oncelog_runtime.serving.quotas import Quotas
from oncelog_runtime.sim import SimWorld


def put(subject: str, limit: int) -> Put:
    return Put(quota_key(subject), encode(Quota(subject, {QuotaKind.REQUESTS: limit}).as_dict()))


def test_quotas_come_change_and_go_also_while_nobody_could_watch() -> None:
    with SimWorld("quotas") as world:
        quotas, store = Quotas(), world.metadata_client("writer")

        def limits(subject: str) -> Limits:
            return quotas.table.limits_of(subject)

        async def scenario() -> None:
            await store.commit(puts=[put("User:ann", 5), Put(quota_key("User:bad"), b"nonsense")])
            world.spawn(follow_quotas(quotas, world.metadata_client("node")))
            await asyncio.sleep(1)
            assert limits("User:ann") == {QuotaKind.REQUESTS: 5}
            assert limits("User:bad") == {}
            await store.commit(puts=[put("User:ann", 7), put("User:bob", 9)])
            await asyncio.sleep(1)
            assert (limits("User:ann"), limits("User:bob")) == ({QuotaKind.REQUESTS: 7}, {QuotaKind.REQUESTS: 9})
            world.metadata.cut("node")
            await store.commit(deletes=[quota_key("User:ann")])
            world.metadata.compact()
            await asyncio.sleep(1)
            assert limits("User:ann") == {QuotaKind.REQUESTS: 7}, "while etcd is away the last ones count"
            world.metadata.heal()
            await asyncio.sleep(5)
            assert (limits("User:ann"), quotas.is_active) == ({}, True)
            await store.commit(deletes=[quota_key("User:bob"), quota_key("User:bad")])
            await asyncio.sleep(1)
            assert not quotas.is_active

        world.run(scenario())
