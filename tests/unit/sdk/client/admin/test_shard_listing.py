"""A list over all shards is complete or an error: a shard counts when it answers for itself, in the epoch that we know."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from tests.unit.sdk.client.fake_cluster import FakeCluster

SHARDS = 3
EPOCH = 5


class Shards(FakeCluster):
    """Three shards of groups, one group in each, at two coordinators. `absent` do not answer; each says `epochs_told`."""

    def __init__(self) -> None:
        super().__init__()
        self.absent: set[int] = set()
        self.epochs_told = dict.fromkeys(range(SHARDS), EPOCH)
        self.owned = {0: "c0:1", 1: "c1:1", 2: "c0:1"}
        self.lies["GetMetadata"] = self._owners
        self.answers["ListGroups"] = self._list

    def _owners(self, _: Any, reply: pb.GetMetadataReply, payload: bytes) -> tuple[Any, bytes]:
        reply.group_shard_count = SHARDS
        del reply.group_shards[:]
        for shard, address in self.owned.items():
            reply.group_shards.add(shard=shard, address=address, epoch=EPOCH)
        return reply, payload

    def _list(self, address: str, request: co.ListGroupsRequest) -> co.ListGroupsReply:
        reply = co.ListGroupsReply()
        for shard in request.shards:
            reply.groups.add(group_id=f"g{shard}", group_shard=shard, coordinator=address)
            if shard not in self.absent:
                reply.answered.add(shard=shard, epoch=self.epochs_told[shard])
        return reply

    def asked(self) -> list[tuple[str, list[int]]]:
        return [(a, list(r.shards)) for a, method, r in self.calls if method.endswith("ListGroups")]


@pytest.fixture
def cluster() -> Shards:
    return Shards()


def groups(cluster: Shards, **config: Any) -> list[str]:
    async def work(_: FakeCluster) -> list[str]:
        async with cluster.client(default_api_timeout_ms=2_000, **config) as client:
            return [found.group_id for found in await client.admin.list_groups()]

    return cluster.run(work)


def test_each_owner_is_asked_once_for_all_its_shards(cluster: Shards) -> None:
    assert groups(cluster) == ["g0", "g1", "g2"]
    assert sorted(cluster.asked()) == [("c0:1", [0, 2]), ("c1:1", [1])]


def test_only_what_is_missing_is_asked_for_again(cluster: Shards) -> None:
    listed = cluster._list

    def answer(address: str, request: co.ListGroupsRequest) -> co.ListGroupsReply:
        reply = listed(address, request)
        if 1 in request.shards:
            cluster.absent = set()
        return reply

    cluster.answers["ListGroups"], cluster.absent = answer, {1}
    assert groups(cluster) == ["g0", "g1", "g2"]
    assert sorted(cluster.asked()) == [("c0:1", [0, 2]), ("c1:1", [1]), ("c1:1", [1])]


@pytest.mark.parametrize("fault", [errors.NotCoordinatorError(), errors.NetworkError(), errors.RequestTimedOutError()])
def test_an_owner_that_cannot_answer_now_is_asked_again(cluster: Shards, fault: errors.OncelogError) -> None:
    cluster.fail("ListGroups", fault, fault)
    assert groups(cluster) == ["g0", "g1", "g2"]


def test_a_refusal_for_good_is_raised_at_once(cluster: Shards) -> None:
    cluster.fail("ListGroups", errors.ClusterAuthorizationError("not yours"))
    with pytest.raises(errors.ClusterAuthorizationError, match="not yours"):
        groups(cluster)
    assert cluster.loop.time() < 0.5


def test_an_answer_of_an_older_epoch_is_none(cluster: Shards) -> None:
    """A deposed owner lists what was, and would hide what is."""
    cluster.epochs_told[1] = EPOCH - 1
    with pytest.raises(errors.CoordinatorNotAvailableError, match="1 group shards did not answer") as caught:
        groups(cluster)
    assert caught.value.context["shards"] == "1"


def test_a_newer_epoch_than_metadata_knows_is_believed(cluster: Shards) -> None:
    cluster.epochs_told[1] = EPOCH + 1
    assert groups(cluster) == ["g0", "g1", "g2"]


def test_at_the_deadline_the_shards_that_did_not_answer_are_named(cluster: Shards) -> None:
    cluster.absent = {0}
    del cluster.owned[2]
    with pytest.raises(errors.CoordinatorNotAvailableError, match="2 group shards did not answer") as caught:
        groups(cluster)
    assert caught.value.context["shards"] == "0,2"
    assert 1.5 < cluster.loop.time() < 2.5
