"""The topic that remembers the ids of records whose work was done: one record for each id, in the partition of its own number.

Rule 1: an id lies in the partition that has the number of the record's own partition, so the topic may get more of them later.
Rule 2: ids are read back up to the end of what is written, not of what is stable: a transaction that was decided may still
        wait for its markers, and reading waits for them.
Rule 3: a topic that would forget ids before their time to live ends is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from oncelog import errors
from oncelog.client.consume.consumer import Consumer
from oncelog.client.once.refusals import OnceTopicError
from oncelog.config import READ_COMMITTED, READ_UNCOMMITTED
from oncelog.core.once.remembered import IdKey, RememberedIds, decode_id_key
from oncelog.types import TopicPartition

_CLOCKS_MS: Final = 3_600_000
"""The topic keeps ids for so much longer, because clocks of workers and brokers disagree."""
_BOUNDS: Final = ("retention_ms", "retention_bytes")


class Described(Protocol):
    """The part of a `TopicDescription` that is used."""

    @property
    def partitions(self) -> Sequence[object]:
        """One for each partition."""
        ...


class Option(Protocol):
    """The part of a `ConfigValue` that is used."""

    @property
    def name(self) -> str:
        """The option of the topic."""
        ...

    @property
    def value(self) -> str:
        """Its value, as text."""
        ...


class Topics(Protocol):
    """The part of `oncelog.client.admin` that is used."""

    async def create_topic(
        self, name: str, *, partitions: int = ..., config: Mapping[str, str] | None = ..., if_not_exists: bool = ...
    ) -> object:
        """Creates a topic."""
        ...

    async def describe_topic(self, name: str) -> Described:
        """Returns a `TopicDescription`."""
        ...

    async def topic_configs(self, name: str) -> Sequence[Option]:
        """Returns a `ConfigValue` for each option."""
        ...


class IdTopic:
    """See the module. `make_consumer` makes a consumer of the client, with these options."""

    def __init__(self, name: str, remember_ids_ms: int, admin: Topics, make_consumer: Callable[..., Consumer]) -> None:
        self.name = name
        self._remember_ids_ms = remember_ids_ms
        self._admin = admin
        self._make_consumer = make_consumer
        self._checked = 0
        """How many partitions the topic had when it was looked at."""

    async def create(self, topics: Sequence[str]) -> None:
        """Creates it, unless it is there, with as many partitions as the largest of these topics."""
        counts = [len((await self._admin.describe_topic(topic)).partitions) for topic in topics]
        config = {"retention_ms": str(self._remember_ids_ms + _CLOCKS_MS)}
        await self._admin.create_topic(self.name, partitions=max(counts), config=config, if_not_exists=True)

    async def require(self, partition: int) -> None:
        """Raises `OnceTopicError` when the topic cannot remember ids of this partition for their time."""
        if partition < self._checked:
            return
        try:
            count = len((await self._admin.describe_topic(self.name)).partitions)
        except errors.UnknownTopicError as error:
            raise OnceTopicError(
                f"the topic of ids, {self.name}, is not there: create it with once.create_topic(), once"
            ) from error
        if partition >= count:
            raise OnceTopicError(
                f"the topic of ids, {self.name}, has fewer partitions than the topics that are read: add some with"
                " admin.add_partitions()",
                partitions=count,
                needed=partition + 1,
            )
        await self._require_retention()
        self._checked = count

    async def _require_retention(self) -> None:
        """Rule 3."""
        given = {
            item.name: int(item.value) for item in await self._admin.topic_configs(self.name) if item.name in _BOUNDS
        }
        least = {"retention_ms": self._remember_ids_ms, "retention_bytes": None}
        for name, value in given.items():
            if value >= 0 and (least[name] is None or value < self._remember_ids_ms):
                raise OnceTopicError(
                    f"the topic of ids, {self.name}, forgets ids too early: set its {name} to -1, or give a smaller"
                    " remember_ids_ms than its retention_ms",
                    option=name,
                    value=value,
                    remember_ids_ms=self._remember_ids_ms,
                )

    async def read_back(self, group_id: str, of: TopicPartition, since_ms: int) -> RememberedIds:
        """Returns the ids of a partition that were written since then. Rule 2."""
        found = RememberedIds(self._remember_ids_ms)
        where = TopicPartition(self.name, of.partition)
        async with self._make_consumer(isolation_level=READ_UNCOMMITTED) as looking:
            start = (await looking.offsets_for_times({where: since_ms}))[where]
            end = (await looking.end_offsets([where]))[where]
        if start is None:
            return found
        async with self._make_consumer(isolation_level=READ_COMMITTED, auto_offset_reset="none") as reading:
            async for rows in reading.read_range(where, start.offset, end):
                times_us = rows.column("timestamp").cast("int64").to_pylist()
                for key, time_us in zip(rows.column("key").to_pylist(), times_us, strict=True):
                    id_key = decode_id_key(key)
                    if id_key is not None and id_key[:3] == (group_id, *of):
                        found.add(id_key.record_id, time_us // 1_000)
        return found

    def key(self, group_id: str, of: TopicPartition, record_id: str) -> bytes:
        """The key under which an id is written."""
        return IdKey(group_id, *of, record_id).encode()
