"""What tests of channels on real processes share: a client, a topic of its own, a shell, and words to say what is there."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import oncelog
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.shell import Shell

PATIENCE_S: Final = 60.0
QUIET_MS: Final = 300
"""What has not come by then is taken for not coming: only to notice, never to wait for, what must not be."""


@dataclass(slots=True)
class Here:
    """One test's client, its topic of one partition, and the shell. In lines of the shell TOPIC is the topic's name."""

    client: oncelog.Client
    topic: str
    shell: Shell

    async def send(self, *values: bytes) -> None:
        """These records are committed."""
        async with self.client.producer() as producer:
            await producer.send_many(self.topic, values)

    async def run(self, line: str) -> str:
        """What `oncelog ...` prints. It succeeds."""
        name, *words = shlex.split(line.replace("TOPIC", self.topic))
        assert name == "oncelog"
        done = await asyncio.to_thread(self.shell.run, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def json(self, line: str) -> Any:
        """What it prints as JSON."""
        return json.loads(await self.run(f"{line} --format json"))

    async def total(self, name: str, channel: str = "billing") -> int:
        """A number of the channel, over all partitions."""
        return (await self.client.admin.describe_channel(self.topic, channel)).total(name)


async def received(worker: oncelog.Worker, count: int) -> list[oncelog.ChannelMessage]:
    """So many messages, by offset."""
    found: list[oncelog.ChannelMessage] = []
    while len(found) < count:
        found += await worker.getmany(count - len(found), timeout_ms=1_000)
    return sorted(found, key=lambda message: message.offset)


async def values(worker: oncelog.Worker, count: int) -> list[bytes | None]:
    """The values of so many messages, by offset, which are acknowledged."""
    messages = await received(worker, count)
    await worker.ack(messages)
    return [message.value for message in messages]


async def is_quiet(worker: oncelog.Worker) -> bool:
    """Nothing comes for a while."""
    return await worker.getmany(timeout_ms=QUIET_MS) == []


def play(cluster: LocalCluster, topic: str, scenario: Callable[[Here], Awaitable[None]]) -> None:
    """Runs a scenario."""

    async def whole() -> None:
        async with asyncio.timeout(PATIENCE_S), oncelog.Client(cluster.bootstrap_servers) as client:
            await scenario(Here(client, topic, Shell(cluster.bootstrap_servers)))

    asyncio.run(whole())
