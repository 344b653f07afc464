"""Quotas as operators set them: a change is one commit, and everybody may look his own limits up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog.errors import InvalidRequestError, MetadataUnavailableError, NotControllerError
from oncelog.v1 import security_pb2 as pb
from oncelog_partition_leader.rpc.quota_service import SUBJECTS_MAX, QuotaService
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.security import stored
from oncelog_runtime.serving.call_context import CALL, CallInfo
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place
from tests.unit.partition_leader.rpc.admin_hands import controller, named, once

PRODUCE, REQUESTS = "produce_bytes_per_s", "requests_per_s"


class Serving:
    """The service on an etcd, without access rules."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.controller = controller(place)
        self.service = QuotaService(place.metadata, place.view, self.controller, None, once())

    async def set(self, subject: str, **more: int) -> None:
        await self.alter(set=[quota(subject, **more)])

    async def alter(self, **items: Any) -> int:
        return (await self.service.alter_quotas(pb.AlterQuotasRequest(**items), b""))[0].removed

    async def listed(self) -> dict[str, dict[str, int]]:
        reply, _ = await self.service.list_quotas(pb.ListQuotasRequest(), b"")
        return {item.subject: {limit.kind: limit.limit for limit in item.limits} for item in reply.quotas}

    async def describe(self, subject: str = "") -> dict[str, tuple[int, str]]:
        reply, _ = await self.service.describe_quota(pb.DescribeQuotaRequest(subject=subject), b"")
        return {limit.kind: (limit.limit, limit.source) for limit in reply.limits}


def quota(subject: str, **limits: int) -> pb.Quota:
    return pb.Quota(subject=subject, limits=[pb.QuotaLimit(kind=kind, limit=limit) for kind, limit in limits.items()])


def run(scenario: Callable[[Serving], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await scenario(Serving(place))

    cluster_place.run(whole)


def test_other_limits_of_a_subject_stay_as_they_are() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.set("User:b", **{PRODUCE: 5})
        await serving.set("User:a", **{PRODUCE: 7})
        await serving.set("User:b", **{REQUESTS: 9})
        assert await serving.listed() == {"User:a": {PRODUCE: 7}, "User:b": {PRODUCE: 5, REQUESTS: 9}}
        assert list(await serving.listed()) == ["User:a", "User:b"]

    run(scenario)


def test_limits_are_removed_by_kind_or_all_of_them_and_counted() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.set("User:a", **{PRODUCE: 5, REQUESTS: 9})
        assert await serving.alter(remove=[pb.QuotaRemoval(subject="User:a", kinds=[PRODUCE])]) == 1
        assert await serving.listed() == {"User:a": {REQUESTS: 9}}
        everything = [pb.QuotaRemoval(subject="User:a"), pb.QuotaRemoval(subject="User:z")]
        assert await serving.alter(remove=everything) == 1
        assert await serving.listed() == {}
        assert not (await serving.place.etcd.list(stored.QUOTAS)).items, "nothing is left of it"

    run(scenario)


def test_removals_come_before_what_is_set() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.set("User:a", **{PRODUCE: 5})
        await serving.alter(remove=[pb.QuotaRemoval(subject="User:a")], set=[quota("User:a", **{REQUESTS: 9})])
        assert await serving.listed() == {"User:a": {REQUESTS: 9}}

    run(scenario)


@pytest.mark.parametrize(
    "bad",
    [
        {"set": [quota("nobody", **{PRODUCE: 5})]},
        {"set": [quota("User:ANONYMOUS", **{PRODUCE: 5})]},
        {"set": [quota("Address:not-an-ip", **{PRODUCE: 5})]},
        {"set": [quota("User:a", **{PRODUCE: 0})]},
        {"set": [quota("User:a", dances_per_s=5)]},
        {"set": [quota("User:a")]},
        {"set": [pb.Quota(subject="User:a", limits=[pb.QuotaLimit(kind=PRODUCE, limit=5)] * 2)]},
        {"remove": [pb.QuotaRemoval(subject="User:a", kinds=["dances_per_s"])]},
        {},
        {"set": [quota(f"User:{number}", **{PRODUCE: 5}) for number in range(SUBJECTS_MAX + 1)]},
    ],
)
def test_one_item_that_is_not_legal_keeps_all_of_them_out(bad: dict[str, Any]) -> None:
    async def scenario(serving: Serving) -> None:
        good = [quota("User:good", **{PRODUCE: 5})] if bad.get("set") else []
        with pytest.raises(InvalidRequestError):
            await serving.alter(**{**bad, "set": [*good, *bad.get("set", [])]} if good else bad)
        assert await serving.listed() == {}

    run(scenario)


def test_only_the_controller_changes_quotas_and_a_copy_of_a_call_does_not() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.alter(set=[quota("User:a", **{PRODUCE: 5})], call=named("a"))
        await serving.set("User:a", **{PRODUCE: 6})
        await serving.alter(set=[quota("User:a", **{PRODUCE: 5})], call=named("a"))
        assert await serving.listed() == {"User:a": {PRODUCE: 6}}
        serving.controller.is_controller = False
        with pytest.raises(NotControllerError):
            await serving.set("User:a", **{PRODUCE: 7})
        assert await serving.listed() == {"User:a": {PRODUCE: 6}}

    run(scenario)


def test_two_changes_of_one_subject_in_one_moment_are_not_both_taken() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.set("User:a", **{PRODUCE: 5})

        async def other() -> None:
            await serving.place.put(stored.quota_key("User:a"), b"{}")

        serving.place.metadata.before_commit = other
        with pytest.raises(MetadataUnavailableError) as refusal:
            await serving.set("User:a", **{PRODUCE: 6})
        assert refusal.value.retriable

    run(scenario)


def test_who_asks_about_a_subject_is_told_whose_quota_says_so() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.set("User:*", **{PRODUCE: 5, REQUESTS: 9})
        await serving.set("User:a", **{PRODUCE: -1})
        found = await serving.describe("User:a")
        assert (found[PRODUCE], found[REQUESTS]) == ((-1, "User:a"), (9, "User:*"))
        assert found["connections"] == (-1, "")

    run(scenario)


def test_who_asks_about_himself_is_told_his_limits_and_not_whose_they_are() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.set("User:*", **{PRODUCE: 5})
        await serving.set("Address:10.0.0.7", **{PRODUCE: 6})
        assert (await serving.describe())[PRODUCE] == (-1, ""), "the cluster's own services have none"
        CALL.set(CallInfo("ipv4:10.0.0.7:4", listener="client", access=Policy().access("User:a", "10.0.0.7")))
        assert (await serving.describe())[PRODUCE] == (5, "")
        CALL.set(CallInfo("ipv4:10.0.0.7:4", listener="client"))
        assert (await serving.describe())[PRODUCE] == (6, "")

    run(scenario)
