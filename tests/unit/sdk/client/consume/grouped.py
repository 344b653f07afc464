"""What tests of a group's offsets share: its consumer, and what it begins with."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from oncelog.client.client import Client
from oncelog.client.consume.consumer import Consumer
from tests.unit.sdk.client.consume.test_following import read
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


@contextlib.asynccontextmanager
async def group_of(client: Client, **options: Any) -> AsyncIterator[Consumer]:
    """A consumer of the whole topic, whose offsets the group keeps."""
    async with client.consumer(**{"group_id": "g", "auto_offset_reset": "earliest", **options}) as consumer:
        await consumer.assign_topics(TOPIC)
        yield consumer


async def hear(client: Client) -> None:
    """The client asks what topics there are."""
    await client._metadata.refresh(client._context.deadline_ms())


async def first_value(cluster: FakeCluster) -> bytes:
    """What a new consumer of the group begins with."""
    async with cluster.client() as client, group_of(client) as consumer:
        return (await read(consumer, 1))[0]
