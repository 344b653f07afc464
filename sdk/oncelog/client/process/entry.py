"""Makes what `Client.process` and `process_batches` need of options: the consumer, the name of the transactions, and who works.

Rule 1: options that would break the promise are refused by name.
Rule 2: the transactional id begins with the group id, so that one prefixed rule of access is enough. A static member's is
        always the same, so its next life ends at once what it left open; any other is new, and is removed when it has not been
        used for long.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from oncelog.client.consume.consumer import Consumer
from oncelog.client.home.context import Context
from oncelog.client.process.processor import Processor, Stop
from oncelog.client.process.work import Work
from oncelog.client.produce.producer import Producer
from oncelog.config import ClientConfig, ProducerConfig, load
from oncelog.core.names import check_group_id
from oncelog.errors import ConfigError

TRANSACTION_TIMEOUT_MS: Final = 10_000
"""A transaction is open while its outputs are written, not while the function works. Others wait so long for a dead one."""
_OURS: Final = {
    "group_id": "it is a parameter of process itself",
    "enable_auto_commit": "the offsets are committed with the outputs",
    "isolation_level": "inputs are read when they are committed",
    "transactional_id": "process names its transactions itself, after the group",
    "enable_idempotence": "a transaction needs it",
    "acks": "a transaction needs all",
    "delivery": "process is exactly_once by itself",
    "skip_lost_transactions": "inputs would be left out without a word",
}
_SHARED: Final = frozenset(item.name for item in dataclasses.fields(ClientConfig))


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """The topics that are read, the work on their records, and the topic of the outputs."""

    work: Work
    topics: str | Sequence[str]
    to: str
    group_id: str
    stop: Stop | None = None
    reading: Mapping[str, object] | None = None
    """Options of the consumer."""
    writing: Mapping[str, object] | None = None
    """Options of the producer."""


def processor(
    context: Context,
    make_consumer: Callable[..., Consumer],
    make_producer: Callable[..., Producer],
    job: Job,
) -> Processor:
    """A processor that has begun nothing. Raises `ConfigError`, `InvalidGroupIdError`."""
    check_group_id(job.group_id)
    reading = _checked("reading", job.reading)
    writing = {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, **_checked("writing", job.writing)}
    topics = (job.topics,) if isinstance(job.topics, str) else tuple(job.topics)
    if not topics or not job.to:
        raise ConfigError("process reads at least one topic, and writes to one: name them", topics=topics, to=job.to)
    load(ProducerConfig, {name: value for name, value in writing.items() if name not in _SHARED})
    consumer = make_consumer(group_id=job.group_id, **{"auto_offset_reset": "earliest", **reading})
    consumer.subscribe(*topics)
    name = f"{job.group_id}-process-{consumer.config.group_instance_id or context.nonce()}"

    def new_producer() -> Producer:
        return make_producer(transactional_id=name, **writing)

    async def pause(failures: int) -> None:
        await asyncio.sleep(context.delay_ms(failures) / 1000)

    return Processor(consumer, new_producer, job.to, job.work, job.stop, pause)


def _checked(where: str, options: Mapping[str, object] | None) -> dict[str, object]:
    """Rule 1. Names with dots mean the same as with underscores."""
    plain = {name.replace(".", "_"): value for name, value in (options or {}).items()}
    for name in plain:
        if name in _OURS:
            raise ConfigError(f"leave {name} out of {where}: {_OURS[name]}", given=plain[name])
    return plain
