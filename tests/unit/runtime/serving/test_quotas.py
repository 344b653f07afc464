"""Who is counted, by which limits, and what is remembered of whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog import errors
from oncelog_runtime.core.quota import QuotaKind
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.core.security.quotas import Quota
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.serving import quotas as module
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.quotas import Quotas, subject_of

PRODUCE = "PartitionLeader.Produce"
FETCH = "PartitionLeader.Fetch"
K = QuotaKind


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))  # type: ignore[arg-type]


def caller(peer: str = "ipv4:10.0.0.7:41234", listener: str = "client", principal: str = "") -> CallInfo:
    return CallInfo(peer, (), listener, Policy().access(principal, "h") if principal else None)


@pytest.mark.parametrize(
    ("call", "subject"),
    [
        (caller(), "Address:10.0.0.7"),
        (caller(principal="User:ann"), "User:ann"),
        (caller(principal=ANONYMOUS), "Address:10.0.0.7"),
        (caller("ipv6:%5B2001:db8::1%5D:5"), "Address:2001:db8::1"),
        (caller("ipv6:[::ffff:10.0.0.7]:5", "external"), "Address:10.0.0.7"),
        (caller(listener="internal"), ""),
        (caller(listener="internal", principal="User:ann"), ""),
    ],
)
def test_services_have_no_quota_and_a_client_has_its_principals_or_its_addresss(call: CallInfo, subject: str) -> None:
    assert subject_of(call) == subject


def test_what_is_above_a_rate_is_delayed_and_then_refused_and_counted() -> None:
    async def test() -> None:
        metrics = NodeMetrics()
        quotas = Quotas(metrics)
        assert not quotas.is_active
        quotas.replace([Quota("User:*", {K.PRODUCE_BYTES: 1000})])
        first = quotas.admit("User:ann", PRODUCE, 1500, 30_000)
        assert first.delay_ms == 0
        assert 450 < quotas.admit("User:ann", PRODUCE, 100, 30_000).delay_ms <= 500
        assert quotas.admit("User:ann", FETCH, 9999, 30_000).delay_ms == 0
        assert quotas.admit("User:bob", PRODUCE, 1, 30_000).delay_ms == 0
        assert 550 < first.answered(10) <= 600
        assert first.answered(10) == 0, "an answer is counted once"
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            quotas.admit("User:ann", PRODUCE, 1, 1_000)  # half of what its caller waits
        quotas.admit("User:ann", PRODUCE, 600, 30_000)
        with pytest.raises(errors.ThrottlingQuotaExceededError) as caught:
            quotas.admit("User:ann", PRODUCE, 1, 30_000)
        assert 1_100 < caught.value.retry_after_ms <= 1_200
        families = {found.metric.name: dict(found.rows) for found in metrics.families() if found is not None}
        assert families["oncelog_quota_refused_total"]['quota="produce_bytes_per_s"'] == 2
        assert sum(families["oncelog_quota_delay_seconds"]['quota="produce_bytes_per_s"'].counts) == 2
        quotas.replace([])
        assert not quotas.is_active

    run(test)


def test_callers_are_forgotten_when_that_changes_nothing_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACCOUNTS_MAX", 3)

    async def test() -> None:
        quotas = Quotas()
        quotas.replace([Quota("User:*", {K.PRODUCE_BYTES: 1000})])
        quotas.admit("User:debtor", PRODUCE, 50_000, 30_000).answered(0)
        for number in range(10):
            quotas.admit(f"User:{number}", FETCH, 1, 30_000).answered(1)
        assert len(quotas._accounts) == 3
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            quotas.admit("User:debtor", PRODUCE, 1, 30_000)

    run(test)


def test_what_cannot_be_delayed_is_refused_for_clients_alone() -> None:
    async def test() -> None:
        quotas = Quotas()
        quotas.replace([Quota("User:ann", {K.PARTITION_CHANGES: 10, K.TRANSACTIONAL_IDS: 2, K.CONNECTIONS: 1})])
        quotas.connect("User:ann", 0)
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            quotas.connect("User:ann", 1)
        quotas.connect("", 99)
        CALL.set(caller(principal="User:ann"))
        quotas.change_partitions(15)
        with pytest.raises(errors.ThrottlingQuotaExceededError) as caught:
            quotas.change_partitions(1)
        assert 29_000 < caught.value.retry_after_ms <= 30_000
        for name in ("a", "b", "a"):
            quotas.use_transactional_id(name)
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            quotas.use_transactional_id("c")
        CALL.set(caller(listener="internal"))
        quotas.change_partitions(1_000)
        quotas.use_transactional_id("c")

    run(test)
