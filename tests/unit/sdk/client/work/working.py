"""What tests of workers share: a run with one worker, and the values of messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from oncelog.client.produce.producer import Producer
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.worker import Worker
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.work.fake_channels import CHANNEL

Work = Callable[[Worker], Awaitable[None]]


def at_work(cluster: FakeCluster, work: Work, client: dict[str, Any] | None = None, **options: Any) -> None:
    """Runs `work(worker)`."""

    async def whole(_: FakeCluster) -> None:
        async with (
            cluster.client(**(client or {})) as made,
            made.worker(TOPIC, channel=CHANNEL, **options) as worker,
        ):
            await work(worker)

    cluster.run(whole)


def at_work_with_a_producer(
    cluster: FakeCluster, work: Callable[[Worker, Producer], Awaitable[None]], **client: Any
) -> None:
    """Runs `work(worker, producer)`; the producer is transactional."""

    async def whole(_: FakeCluster) -> None:
        async with (
            cluster.client(**client) as made,
            made.producer(transactional_id="t") as producer,
            made.worker(TOPIC, channel=CHANNEL) as worker,
        ):
            await work(worker, producer)

    cluster.run(whole)


async def received(worker: Worker, count: int) -> list[ChannelMessage]:
    """So many messages."""
    got: list[ChannelMessage] = []
    while len(got) < count:
        got += await worker.getmany(count - len(got))
    return got


def values(messages: Sequence[ChannelMessage]) -> list[bytes | None]:
    return [message.value for message in messages]
