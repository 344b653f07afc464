"""Makes what `Client.once` needs of its options: the consumer, the topic of ids, and the name of the transactions.

Rule 1: options that would break the promise are refused by name: by the preset `exactly_once`, and here.
Rule 2: the transactional id begins with the group id, so that one prefixed rule of access is enough. A static member's is
        always the same, so its next life ends at once what it left open; any other is new, and is removed when it has not been
        used for long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from oncelog.client.consume.consumer import Consumer
from oncelog.client.home.context import Context
from oncelog.client.once.id_topic import IdTopic, Topics
from oncelog.client.once.in_log import OnceInLog, Producer
from oncelog.core.names import check_group_id
from oncelog.delivery_presets import EXACTLY_ONCE
from oncelog.errors import ConfigError

REMEMBER_IDS_MS: Final = 7 * 24 * 3_600_000
TRANSACTION_TIMEOUT_MS: Final = 10_000
"""A transaction is open while outputs are written, not while the work goes on. Others wait so long for a dead one."""
_OURS: Final = {
    "group_id": "it is a parameter of once itself",
    "delivery": "once is exactly_once by itself",
    "transactional_id": "once names its transactions itself, after the group",
    "key_serializer": "ids are written with the same producer: serialize what you send",
    "value_serializer": "ids are written with the same producer: serialize what you send",
}


class LogJob(NamedTuple):
    """The parameters of `Client.once`."""

    topics: tuple[str, ...]
    group_id: str
    id_header: str
    ids_topic: str
    remember_ids_ms: int
    reading: Mapping[str, object] | None
    """Options of the consumer."""
    writing: Mapping[str, object] | None
    """Options of the producer."""


class Admin(Topics, Protocol):
    """The part of `oncelog.client.admin` that is used."""

    async def end_of_epoch(self, topic: str, partition: int, leader_epoch: int, topic_id: str = "") -> int:
        """Returns where a leader epoch ends in the log."""
        ...


def once_in_log(
    context: Context,
    admin: Admin,
    make_consumer: Callable[..., Consumer],
    make_producer: Callable[..., Producer],
    job: LogJob,
) -> OnceInLog:
    """An object that has begun nothing. Raises `ConfigError`, `InvalidGroupIdError`."""
    check_group_id(job.group_id)
    if not job.topics:
        raise ConfigError("once reads at least one topic: name it")
    if job.remember_ids_ms < 1:
        raise ConfigError("remember_ids_ms is at least 1", given=job.remember_ids_ms)
    if job.ids_topic and not job.id_header:
        raise ConfigError("ids_topic keeps the ids of records: name the header that holds them with id_header")
    reading = {"auto_offset_reset": "earliest", **_checked("reading", job.reading)}
    writing = {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, **_checked("writing", job.writing)}
    consumer = make_consumer(group_id=job.group_id, delivery=EXACTLY_ONCE, **reading)
    consumer.subscribe(*job.topics)
    name = f"{job.group_id}-once-{consumer.config.group_instance_id or context.nonce()}"

    def new_producer() -> Producer:
        return make_producer(transactional_id=name, delivery=EXACTLY_ONCE, **writing)

    ids = IdTopic(job.ids_topic or f"{job.group_id}-once-ids", job.remember_ids_ms, admin, make_consumer)
    return OnceInLog(
        context, consumer, new_producer, admin.end_of_epoch, job.topics, job.id_header, ids, job.remember_ids_ms
    )


def _checked(where: str, options: Mapping[str, object] | None) -> dict[str, object]:
    """Rule 1. Names with dots mean the same as with underscores."""
    plain = {name.replace(".", "_"): value for name, value in (options or {}).items()}
    for name in plain:
        if name in _OURS:
            raise ConfigError(f"leave {name} out of {where}: {_OURS[name]}", given=plain[name])
    return plain
