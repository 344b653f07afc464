"""A worker is given records, and each is its own until it has said what became of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.worker import Worker
from oncelog.core.batch.record import EXPIRES_HEADER
from oncelog.v1 import channel_pb2 as ch
from oncelog.wire.wire_errors import to_detail
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import CHANNEL, FakeChannels
from tests.unit.sdk.client.work.working import at_work, received, values


def test_every_record_comes_once_and_is_settled(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1", b"2"])
    append(cluster, [b"3"], partition=1)

    async def work(worker: Worker) -> None:
        seen = []
        async for message in worker:
            assert message.deliveries == 1
            assert message.timestamp_ms == 5
            seen.append(message.value)
            await message.ack()
            assert message.state == "settled"
            if len(seen) == 4:
                break
        assert sorted(seen) == [b"0", b"1", b"2", b"3"]
        assert worker.in_flight == 0

    at_work(cluster, work)
    assert (channels.settled(0), channels.settled(1)) == ([0, 1, 2], [0])


def test_a_record_that_comes_later_ends_the_wait(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        waiting = asyncio.ensure_future(worker.getmany(timeout_ms=5_000))
        await asyncio.sleep(2)
        append(cluster, [b"late"])
        before = cluster.loop.time()
        assert values(await waiting) == [b"late"]
        assert cluster.loop.time() - before < 0.1

    at_work(cluster, work)


def test_nothing_comes_within_the_time(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        assert await worker.getmany(timeout_ms=300) == []

    at_work(cluster, work)


def test_a_close_gives_back_what_was_not_handed_out(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(10)])

    async def work(worker: Worker) -> None:
        async for message in worker:
            await message.ack()
            break

    at_work(cluster, work)
    assert channels.settled() == [0]
    assert channels.in_flight() == []
    assert all(entry.deliveries == 0 for entry in channels.parts[0].entries.values())
    assert len(channels.left) == 2, "both brokers were told"


def test_a_close_counts_what_was_handed_out_alone(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(10)])

    async def work(worker: Worker) -> None:
        assert len(await worker.getmany(2)) == 2

    at_work(cluster, work)
    assert channels.in_flight() == []
    assert [channels.parts[0].entries[offset].deliveries for offset in range(10)] == [1, 1, *[0] * 8]


def test_more_than_a_call_names_is_released_by_several(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.client.work.settling.MOST_RECORDS", 2)
    append(cluster, [b"%d" % i for i in range(10)])

    async def work(worker: Worker) -> None:
        messages = await worker.getmany(10)
        await worker.ack(messages[::2])
        await worker.nack(messages[1::2], delay_ms=0)
        await asyncio.sleep(1)
        assert worker.in_flight == 5

    at_work(cluster, work)
    assert [entry.deliveries for _, entry in sorted(channels.parts[0].entries.items())] == [1] * 5


def test_after_the_close_nothing_can_be_said(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await worker.close()
        with pytest.raises(errors.IllegalStateError):
            await message.ack()
        with pytest.raises(errors.IllegalStateError):
            await worker.getmany()
        assert [m async for m in worker] == []

    at_work(cluster, work)


def test_a_client_closes_its_workers(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client:
            worker = await client.worker(TOPIC, channel=CHANNEL).start()
            waiting = asyncio.ensure_future(worker.getmany())
            await asyncio.sleep(0.1)
        assert worker.is_closed
        assert await waiting == []

    cluster.run(whole)


def test_another_worker_gets_what_one_holds_by_a_claim(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1"])

    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client, client.worker(TOPIC, channel=CHANNEL) as first:
            held: list[ChannelMessage] = []
            while len(held) < 2:
                held += await first.getmany()
            async with client.worker(TOPIC, channel=CHANNEL) as second:
                (taken,) = await second.claim(0, offsets=[1])
                assert (taken.value, taken.deliveries, second.in_flight) == (b"1", 2, 1)
                await taken.ack()
                with pytest.raises(errors.NotOwnerError):
                    await held[1].ack()
                await held[0].ack()

    cluster.run(whole)
    assert channels.settled() == [0, 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition", "0"),
        ("offsets", [2**64]),
        ("min_idle_ms", 2**70),
        ("from_offset", -1),
        ("max_records", 0),
        ("max_records", 1_001),
    ],
)
def test_a_claim_out_of_range_is_refused_by_name(
    cluster: FakeCluster, channels: FakeChannels, name: str, value: Any
) -> None:
    async def work(worker: Worker) -> None:
        with pytest.raises(errors.ConfigError, match=name):
            await worker.claim(**{"partition": 0, name: value})

    at_work(cluster, work)
    assert cluster.count("Claim") == 0


def test_a_claim_says_why_nothing_of_it_can_be_read(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def fails(address: str, request: ch.ClaimRequest, _: bytes) -> tuple[ch.ReceiveReply, bytes]:
        reply = ch.ReceiveReply()
        reply.errors.add(error=to_detail(errors.StorageError("cannot be read", reason="io")))
        return reply, b""

    cluster._Claim = fails  # type: ignore[attr-defined]

    async def work(worker: Worker) -> None:
        with pytest.raises(errors.StorageError):
            await worker.claim(0, offsets=[1])

    at_work(cluster, work)


def test_what_is_wrong_with_a_call_is_said_at_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.InvalidRequestError):
                client.worker(TOPIC, channel="no name")
            with pytest.raises(errors.InvalidTopicError):
                client.worker("no topic", channel=CHANNEL)
            with pytest.raises(errors.ConfigError):
                client.worker(TOPIC, channel=CHANNEL, max_in_flight=0)
            with pytest.raises(errors.ConfigError, match="max_in_flight"):
                client.worker(TOPIC, channel=CHANNEL, max_inflight=1)  # type: ignore[call-arg]
            worker = client.worker(TOPIC, channel=CHANNEL)
            with pytest.raises(errors.ConfigError):
                await worker.getmany(max_records=0)
            with pytest.raises(TypeError):
                await worker.ack([b"0"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="worker is made by a client"):
            Worker(TOPIC)  # type: ignore[call-arg, arg-type]

    cluster.run(whole)


def test_a_client_option_is_the_workers_alone_and_the_channels_pause_is_no_client_option(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    async def whole(_: FakeCluster) -> None:
        client: Client = cluster.client()
        async with client, client.worker(TOPIC, channel=CHANNEL, retry_backoff_ms=7, client_id="a b") as worker:
            assert worker.worker_id.startswith("a-b-")
            assert channels.channel is not None
            assert channels.channel.options.retry_backoff_ms == 7
            assert client.config.retry_backoff_ms == 20

    cluster.run(whole)


def test_records_that_are_refused_are_rejected_unseen_where_that_is_wanted(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"x", b"8", b"y"], keys=[b"1", b"2", b"3"])

    async def work(worker: Worker) -> None:
        assert [message.value for message in await received(worker, 1)] == [8]
        assert await worker.getmany(timeout_ms=100) == []
        assert worker.undecodable_count == 2

    at_work(cluster, work, value_deserializer=lambda data: int(data or b""), undecodable="reject")
    assert sorted(channels.parts[0].dead) == [0, 2]
    assert channels.parts[0].dead[0].startswith("undecodable: ValueError: invalid literal")


def test_an_error_that_is_no_text_is_a_reason_all_the_same(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"bad"])

    def refuse(data: bytes | None) -> str:
        raise ValueError("\ud800")

    async def work(worker: Worker) -> None:
        assert await worker.getmany(timeout_ms=100) == []

    at_work(cluster, work, value_deserializer=refuse, undecodable="reject")
    assert channels.parts[0].dead == {0: "undecodable: ValueError: \\ud800"}


@pytest.mark.parametrize("most", [1, 2])
def test_a_reader_goes_on_at_once_behind_what_is_rejected(
    cluster: FakeCluster, channels: FakeChannels, most: int
) -> None:
    append(cluster, [b"x", b"y", b"8"], keys=[b"1", b"2", b"3"])

    async def work(worker: Worker) -> None:
        before_s = asyncio.get_running_loop().time()
        (message,) = await worker.getmany(most)
        assert (message.value, message.deliveries) == (8, 1)
        assert asyncio.get_running_loop().time() - before_s < 1

    at_work(cluster, work, value_deserializer=lambda data: int(data or b""), undecodable="reject")


@pytest.mark.parametrize("expires", [False, True])
def test_a_record_that_cannot_be_settled_unseen_comes_again(
    cluster: FakeCluster, channels: FakeChannels, expires: bool
) -> None:
    header = (EXPIRES_HEADER, b"6" if expires else None)
    append(cluster, [b"8" if expires else b"x"], headers=[(header,)])

    async def work(worker: Worker) -> None:
        cluster.fail("Settle", *(errors.NetworkError() for _ in range(1_000)))
        with suppress(errors.NetworkError):
            await worker.getmany(timeout_ms=2_000)
        cluster.faults.clear()
        assert await worker.getmany(timeout_ms=10_000) == []

    options: dict[str, Any] = {"ack_wait_ms": 5_000, "auto_touch": True, "undecodable": "reject"}
    client = {"default_api_timeout_ms": 1_000}
    at_work(cluster, work, client, value_deserializer=lambda data: int(data or b""), **options)
    assert channels.settled() == [0]


def test_a_reader_is_told_why_a_record_cannot_be_rejected(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"x"])
    channels.no_letters = errors.UnknownTopicError(topic="dead")

    async def work(worker: Worker) -> None:
        with pytest.raises(errors.UnknownTopicError):
            await worker.getmany(timeout_ms=3_000)

    at_work(cluster, work, value_deserializer=lambda data: int(data or b""), undecodable="reject")
