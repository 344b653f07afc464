"""Channels are made, changed, looked at and repaired over all leaders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.admin.channel_descriptions import ClaimedMessages
from oncelog.client.client import Client
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import CHANNEL, Entry, FakeChannels

Work = Callable[[Client], Awaitable[None]]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def channels(cluster: FakeCluster) -> FakeChannels:
    return FakeChannels(cluster)


def run(cluster: FakeCluster, work: Work, **config: Any) -> None:
    async def whole(_: FakeCluster) -> None:
        async with cluster.client(**config) as client:
            await work(client)

    cluster.run(whole)


def test_a_channel_is_made_listed_changed_paused_and_deleted(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(client: Client) -> None:
        admin = client.admin
        made = await admin.create_channel(TOPIC, CHANNEL, start="latest", ack_wait_ms=5_000)
        assert (made.created, made.channel.options.ack_wait_ms, made.channel.start_timestamp_ms) == (True, 5_000, -1)
        assert not (await admin.create_channel(TOPIC, CHANNEL, if_not_exists=True)).created
        with pytest.raises(errors.ChannelExistsError):
            await admin.create_channel(TOPIC, CHANNEL)
        assert await admin.list_channels() == await admin.list_channels(TOPIC) == [made.channel]
        changed = await admin.alter_channel(TOPIC, CHANNEL, max_deliveries=3)
        assert (changed.options.max_deliveries, changed.options.ack_wait_ms) == (3, 5_000)
        assert (await admin.pause_channel(TOPIC, CHANNEL)).paused
        assert not (await admin.resume_channel(TOPIC, CHANNEL)).paused
        await admin.delete_channel(TOPIC, CHANNEL)
        assert await admin.list_channels() == []
        with pytest.raises(errors.UnknownChannelError):
            await admin.delete_channel(TOPIC, CHANNEL)

    run(cluster, work)
    for method in ("AlterChannel", "DeleteChannel"):
        for request in cluster.requests(method):
            assert request.channel_id, "a channel that is made meanwhile is left alone"
            assert (request.call.term, len(request.call.nonce)) == (3, 32)


def test_what_no_channel_has_asks_nobody(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(client: Client) -> None:
        for name in ("", "a b", "x" * 65, ".."):
            with pytest.raises(errors.InvalidRequestError):
                await client.admin.create_channel(TOPIC, name)
        with pytest.raises(errors.ConfigError, match="did you mean `ack_wait_ms`"):
            await client.admin.create_channel(TOPIC, CHANNEL, ack_wait=1)  # type: ignore[call-arg]
        with pytest.raises(errors.ConfigError):
            await client.admin.create_channel(TOPIC, CHANNEL, ack_wait_ms=1)
        with pytest.raises(errors.ConfigError):
            await client.admin.create_channel(TOPIC, CHANNEL, start="middle")

    run(cluster, work)
    assert cluster.count("CreateChannel") == 0


def test_a_description_has_every_partition_and_who_works(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1", b"2"])
    append(cluster, [b"3"], partition=1)

    async def work(client: Client) -> None:
        async with client.worker(TOPIC, channel=CHANNEL) as worker:
            got = []
            while len(got) < 4:
                got += await worker.getmany()
            await next(m for m in got if m.partition == 0).ack()
            found = await client.admin.describe_channel(TOPIC, CHANNEL)
            assert [state.partition for state in found.partitions] == [0, 1]
            assert (found.total("depth"), found.total("in_flight"), found.total("acknowledged")) == (3, 3, 1)
            assert found.workers == {worker.worker_id: 3}
            assert found.listing.channel == CHANNEL

    run(cluster, work)


def test_a_leader_that_does_not_answer_is_named(cluster: FakeCluster, channels: FakeChannels) -> None:
    channels.make()
    append(cluster, [b"0"])

    async def work(client: Client) -> None:
        cluster.down.add(BROKERS[1])
        found = await client.admin.describe_channel(TOPIC, CHANNEL)
        assert found.partitions[0].depth == 1
        assert isinstance(found.partitions[1].error, errors.NetworkError)
        with pytest.raises(errors.NetworkError):
            await client.admin.pending(TOPIC, CHANNEL)
        assert await client.admin.pending(TOPIC, CHANNEL, partition=0) == []

    run(cluster, work, default_api_timeout_ms=300)


def test_pending_records_are_chosen_by_worker_idle_time_and_offset(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0", b"1", b"2"])

    async def work(client: Client) -> None:
        async with client.worker(TOPIC, channel=CHANNEL) as worker:
            got = []
            while len(got) < 3:
                got += await worker.getmany()
            await client_pause(cluster)
            pending = client.admin.pending
            assert [item.offset for item in await pending(TOPIC, CHANNEL)] == [0, 1, 2]
            assert [item.offset for item in await pending(TOPIC, CHANNEL, from_offset=1, limit=1)] == [1]
            assert await pending(TOPIC, CHANNEL, min_idle_ms=60_000) == []
            assert await pending(TOPIC, CHANNEL, worker_id="another") == []
            (first, *_) = await pending(TOPIC, CHANNEL, worker_id=worker.worker_id)
            assert (first.partition, first.worker_id, first.deliveries) == (0, worker.worker_id, 1)
            assert (first.dead, first.trouble) == (False, "")
            channels.parts[0].entries[9] = Entry(deliveries=3, trouble="no such topic")
            (*_, dead) = await pending(TOPIC, CHANNEL)
            assert (dead.offset, dead.worker_id, dead.dead, dead.trouble) == (9, "", True, "no such topic")
            with pytest.raises(errors.UnknownTopicError):
                await pending(TOPIC, CHANNEL, partition=7)

    run(cluster, work)


async def client_pause(cluster: FakeCluster) -> None:
    await cluster.pause()


@pytest.mark.parametrize(
    ("then", "settled", "dead"), [("release", [], {}), ("ack", [0, 1], {}), ("reject", [0, 1], {0: "bad", 1: "bad"})]
)
def test_claimed_records_come_again_or_are_done(
    cluster: FakeCluster, channels: FakeChannels, then: str, settled: list[int], dead: dict[int, str]
) -> None:
    append(cluster, [b"0", b"1"])
    cluster.epochs[0] = 7  # regression: a claim named no epoch, and was refused by every leader but a topic's first one

    async def work(client: Client) -> None:
        async with client.worker(TOPIC, channel=CHANNEL) as worker:
            got = []
            while len(got) < 2:
                got += await worker.getmany()
            assert await client.admin.claim(TOPIC, CHANNEL, 0, min_idle_ms=60_000, then=then) == []
            claimed = await client.admin.claim(TOPIC, CHANNEL, 0, then=then, reason="bad")
            assert claimed == [ClaimedMessages(0, 0, 1, 2)]
            assert channels.settled() == settled
            assert channels.parts[0].dead == dead
            with pytest.raises(errors.NotOwnerError):
                await got[0].ack()
            with pytest.raises(errors.ConfigError):
                await client.admin.claim(TOPIC, CHANNEL, 0, then="keep")

    run(cluster, work)


@pytest.mark.parametrize("then", ["release", "ack", "reject"])
def test_what_a_claim_has_done_without_an_answer_is_done(
    cluster: FakeCluster, channels: FakeChannels, then: str
) -> None:
    append(cluster, [b"0"])

    async def work(client: Client) -> None:
        async with client.worker(TOPIC, channel=CHANNEL) as worker:
            await worker.getmany()
            cluster.fail("Settle", Lost())
            assert await client.admin.claim(TOPIC, CHANNEL, 0, then=then) == [ClaimedMessages(0, 0, 0, 2)]

    run(cluster, work)


@pytest.mark.parametrize(
    "words",
    [
        {"offsets": [2**64]},
        {"offsets": [-1]},
        {"offsets": ["1"]},
        {"offsets": range(1_001)},
        {"max_records": 0},
        {"max_records": -1},
        {"max_records": 1_001},
        {"max_records": 2**40},
        {"max_records": True},
        {"min_idle_ms": 2**70},
        {"min_idle_ms": -1},
        {"partition": "0"},
        {"partition": 2**40},
    ],
)
def test_a_claim_that_is_out_of_range_takes_nothing(
    cluster: FakeCluster, channels: FakeChannels, words: dict[str, Any]
) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(errors.ConfigError):
            await client.admin.claim(**{"topic": TOPIC, "channel": CHANNEL, "partition": 0, **words})

    run(cluster, work)
    assert cluster.count("ListChannels") == cluster.count("Claim") == 0


@pytest.mark.parametrize("reason", ["x" * 1_025, "\ud800", b"why"])
def test_a_reason_that_no_letter_takes_is_refused_before_anything_is_taken(
    cluster: FakeCluster, channels: FakeChannels, reason: Any
) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(errors.InvalidRequestError, match="a reason"):
            await client.admin.claim(TOPIC, CHANNEL, 0, then="reject", reason=reason)

    run(cluster, work)
    assert cluster.count("Claim") == 0


def test_a_claim_that_takes_nothing_leaves_no_worker_behind(cluster: FakeCluster, channels: FakeChannels) -> None:
    channels.make()

    async def work(client: Client) -> None:
        assert await client.admin.claim(TOPIC, CHANNEL, 0, offsets=[7]) == []
        (claim,) = cluster.requests("Claim")
        assert channels.left == [claim.worker_id]
        cluster.fail("Settle", *[errors.NotLeaderError()] * 1_000)
        assert await client.admin.claim(TOPIC, CHANNEL, 0) == [], "the broker misses the worker by itself"

    run(cluster, work)


def test_pending_records_out_of_range_ask_nobody(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(client: Client) -> None:
        wrong: list[dict[str, Any]] = [
            {"partition": "0"},
            {"min_idle_ms": 2**70},
            {"from_offset": -1},
            {"limit": 0},
            {"limit": 10_001},
        ]
        for words in wrong:
            with pytest.raises(errors.ConfigError, match=next(iter(words))):
                await client.admin.pending(TOPIC, CHANNEL, **words)
        with pytest.raises(errors.InvalidRequestError):
            await client.admin.pending(TOPIC, CHANNEL, worker_id="no name")

    run(cluster, work)
    assert cluster.count("ListChannels") == 0


def test_a_seek_goes_to_every_leader(cluster: FakeCluster, channels: FakeChannels) -> None:
    channels.make()
    append(cluster, [b"0", b"1"])
    append(cluster, [b"2"], partition=1)

    async def work(client: Client) -> None:
        seek = client.admin.seek_channel
        assert await seek(TOPIC, CHANNEL, "latest") == {0: 2, 1: 1}
        assert await seek(TOPIC, CHANNEL, "earliest", partition=1) == {1: 0}
        assert await seek(TOPIC, CHANNEL, 1, partition=0) == {0: 1}
        await seek(TOPIC, CHANNEL, "earliest", timestamp_ms=5)
        for to in ("middle", -3, 1.5, True, 2**70, None):
            with pytest.raises(errors.ConfigError):
                await seek(TOPIC, CHANNEL, to, partition=0)  # type: ignore[arg-type]
        with pytest.raises(errors.ConfigError, match="name the partition"):
            await seek(TOPIC, CHANNEL, 1)
        for time_ms in (2**70, -1, "5"):
            with pytest.raises(errors.ConfigError, match="timestamp_ms"):
                await seek(TOPIC, CHANNEL, "latest", timestamp_ms=time_ms)  # type: ignore[arg-type]
        with pytest.raises(errors.ConfigError, match="partition"):
            await seek(TOPIC, CHANNEL, "latest", partition="0")  # type: ignore[arg-type]

    run(cluster, work)
    assert [request.timestamp_ms for request in cluster.requests("SeekChannel")[-2:]] == [5, 5]
