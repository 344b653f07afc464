"""A consumer that names its rack asks a follower there; whatever goes wrong with that one, the leader is asked at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append, values

LEADER, NEAR = BROKERS
IN_RACK: dict[str, Any] = {**EARLIEST, "client_rack": "b"}


@pytest.fixture
def cluster() -> FakeCluster:
    """The first partition is led in rack a, and its follower stands in rack b."""
    made = FakeCluster()
    made.racks[:] = ["a", "b"]
    made.answering.add(NEAR)
    append(made, [b"0", b"1", b"2"])
    return made


def asked(cluster: FakeCluster) -> list[tuple[str, bool]]:
    """(address, whether a follower may answer) of each fetch."""
    return [
        (address, request.follower_may_answer)
        for address, method, request in cluster.calls
        if method.endswith(".Fetch")
    ]


async def read_three(cluster: FakeCluster, **options: Any) -> None:
    async with cluster.client() as client, client.consumer(**options) as consumer:
        await consumer.assign([P0])
        assert values(await consumer.getmany(timeout_ms=20_000)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("rack", "expected"), [("", (LEADER, False)), ("a", (LEADER, False)), ("b", (NEAR, True)), ("c", (LEADER, False))]
)
def test_whom_a_consumer_asks_is_a_matter_of_its_rack(
    cluster: FakeCluster, rack: str, expected: tuple[str, bool]
) -> None:
    cluster.run(lambda _: read_three(cluster, **{**EARLIEST, "client_rack": rack}))
    assert asked(cluster)[0] == expected


def test_brokers_without_racks_are_read_as_ever(cluster: FakeCluster) -> None:
    cluster.racks[:] = ["", ""]
    cluster.run(lambda _: read_three(cluster, **IN_RACK))
    assert set(asked(cluster)) == {(LEADER, False)}


@pytest.mark.parametrize(
    "fault",
    [
        errors.NotLeaderError(),
        errors.OffsetNotAvailableError(),
        errors.OffsetOutOfRangeError(),
        errors.StorageError(),
        errors.NetworkError(refused="true"),
        errors.TopicAuthorizationError(),
        errors.UnknownTopicError(),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_no_error_of_a_follower_is_the_last_word(cluster: FakeCluster, fault: errors.OncelogError) -> None:
    cluster.fail("Fetch", fault)

    async def work(_: FakeCluster) -> None:
        await read_three(cluster, **IN_RACK)
        assert cluster.loop.time() < 0.02, "the leader is asked at once"

    cluster.run(work)
    assert asked(cluster)[:2] == [(NEAR, True), (LEADER, False)]


def test_a_follower_that_answers_nothing_is_given_up_before_a_leader_would_be(cluster: FakeCluster) -> None:
    async def silence(address: str, request: Any) -> None:
        await asyncio.sleep(1_000)

    original = cluster._Fetch

    async def fetch(address: str, request: Any, payload: bytes) -> Any:
        if address == NEAR:
            await silence(address, request)
        return await original(address, request, payload)

    cluster._Fetch = fetch  # type: ignore[method-assign]

    async def work(_: FakeCluster) -> None:
        await read_three(cluster, **IN_RACK)
        assert 5 < cluster.loop.time() < 6

    cluster.run(work)


def test_a_follower_has_its_turn_again_after_a_while(cluster: FakeCluster) -> None:
    cluster.fail("Fetch", errors.NotLeaderError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**IN_RACK) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=500)) == 3
            assert asked(cluster)[-1] == (LEADER, False)
            await consumer.getmany(timeout_ms=1_500)
            assert asked(cluster)[-1] == (NEAR, True)

    cluster.run(work)


def test_a_follower_that_went_away_is_looked_for_in_metadata(cluster: FakeCluster) -> None:
    cluster.fail("Fetch", errors.NetworkError(refused="true"))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**IN_RACK) as consumer:
            await consumer.assign([P0])
            cluster.racks[:] = ["a", ""]  # nobody stands there any more
            assert len(await consumer.getmany(timeout_ms=500)) == 3
            before = cluster.count("GetMetadata")
            await consumer.getmany(timeout_ms=2_000)
            assert before < cluster.count("GetMetadata") <= before + 2, "now and then"
            cluster.racks[:] = ["a", "b"]
            await consumer.getmany(timeout_ms=10_000)
            assert asked(cluster)[-1] == (NEAR, True)

    cluster.run(work)


def test_a_follower_that_knows_of_less_than_the_leader_is_no_liar(cluster: FakeCluster) -> None:
    cluster.watermarks[NEAR] = 1
    cluster.fail("Fetch", errors.NotLeaderError())

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**IN_RACK) as consumer:
            await consumer.assign([P0])
            assert len(await consumer.getmany(timeout_ms=500)) == 3
            assert await consumer.getmany(timeout_ms=2_500) == []
            assert asked(cluster)[-1] == (NEAR, True)
            append(cluster, [b"new"])
            assert values(await consumer.getmany(timeout_ms=500)) == [b"new"]

    cluster.run(work)


def test_a_follower_that_breaks_the_protocol_is_told_of_and_the_leader_read(cluster: FakeCluster) -> None:
    def far_ahead(request: Any, reply: Any, payload: bytes) -> tuple[Any, bytes]:
        if request.follower_may_answer:
            reply.partitions[0].next_offset = 1_000
        return reply, payload

    cluster.lies["Fetch"] = far_ahead

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(**IN_RACK) as consumer:
            await consumer.assign([P0])
            with pytest.raises(errors.InvalidResponseError):
                await consumer.getmany(timeout_ms=500)
            assert len(await consumer.getmany(timeout_ms=900)) == 3
            assert asked(cluster)[-1] == (LEADER, False)

    cluster.run(work)
