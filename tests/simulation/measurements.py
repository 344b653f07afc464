"""A user who writes measurements with acks=1, in bursts, into a topic that retention keeps small.

What is answered here may be lost: that is what acks=1 means. The topic is there for what its writer does to the brokers:
leaders append far above their high watermark while their followers are cut off, also below `min_insync_replicas`, and roll
segments there; what such a leader has alone is cut off when another one was elected meanwhile.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from oncelog import errors
from oncelog.client.client import Client
from tests.simulation.recorded import encode
from tests.simulation.topics import SimTopic
from tests.simulation.workload import Workload

TOPIC: Final = "measurements"
SHARE: Final = 0.25
"""Of all seeds have it."""
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "segment.bytes": "1000",
    "max.message.bytes": "1000",
    "retention.bytes": "2000",
}
_RECORD_BYTES: Final = 200
_BATCH_BYTES: Final = 700
_BURST_MAX: Final = 12
_PAUSE_MAX_S: Final = 0.3


def topic(*, fsync: bool) -> SimTopic:
    """The topic; nobody else writes to it."""
    return SimTopic(TOPIC, 1, 3, _CONFIG | {"flush.mode": "fsync" if fsync else "replicated"}, 0)


class Measurements:
    """`written` counts what leaders have taken."""

    def __init__(self, workload: Workload) -> None:
        self.written = 0
        self._workload = workload

    async def main(self, name: str) -> None:
        """Until the workload stops."""
        await self._workload.for_ever(name, self._write)

    async def _write(self, client: Client, name: str, random: Random) -> None:
        timeouts = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_000}
        async with client.producer(acks=1, enable_idempotence=False, batch_size=_BATCH_BYTES, **timeouts) as producer:
            for _ in range(random.randint(3, 20)):
                if self._workload.stopping:
                    return
                sent = []
                for _ in range(random.randint(1, _BURST_MAX)):
                    value = encode(self._workload.history.new_value()).ljust(_RECORD_BYTES)
                    sent.append(await producer.send(TOPIC, value, partition=0))
                self._count(await asyncio.gather(*sent, return_exceptions=True))
                await asyncio.sleep(random.random() * _PAUSE_MAX_S)

    def _count(self, results: list[object]) -> None:
        """Some may be lost on their way; anything but an error of the SDK's own is a bug."""
        for result in results:
            if isinstance(result, errors.OncelogError):
                self._workload.causes[f"measurement {type(result).__name__}"] += 1
            elif isinstance(result, BaseException):
                raise result
            else:
                self.written += 1
