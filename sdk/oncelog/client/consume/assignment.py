"""Holds which partitions a consumer reads, and replaces them.

Rule 1: partitions are assigned by hand: by number, or as whole topics. Topics that `Client.consumer` was given without a
        group are assigned when something is read for the first time.
Rule 2: an assignment has two steps: `look_up` asks the cluster for the partitions and waits, `replace` changes what is read at
        once. Partitions that a group assigns to its member come in by the same two steps.
Rule 3: a partition that stays assigned keeps its position.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog import errors
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.following import Following
from oncelog.client.consume.offsets import as_partition
from oncelog.client.home.context import Context
from oncelog.client.routing.metadata import Metadata
from oncelog.core.consume.consumer import Cursor
from oncelog.types import PartitionId, TopicPartition


class Assignment:
    """See the module. One per consumer. `wanted`: the topics that `Client.consumer` was given without a group."""

    def __init__(
        self, context: Context, metadata: Metadata, fetcher: Fetcher, following: Following, wanted: tuple[str, ...]
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._fetcher = fetcher
        self._following = following
        self._wanted = wanted
        self.is_made = False
        """True from the first assignment on."""

    @property
    def to_make(self) -> tuple[str, ...]:
        """The topics that the first assignment is made of; none when there is one already, or when the caller makes it."""
        return () if self.is_made else self._wanted

    def check(self) -> None:
        """Raises `IllegalStateError` when there is nothing to read, rather than wait without an end."""
        if not self.is_made and not self._wanted:
            raise errors.IllegalStateError(
                "nothing is assigned: give topics, as in client.consumer('orders'), or call assign([('orders', 0)])"
            )

    def check_none(self) -> None:
        """Raises `IllegalStateError` unless a group may assign partitions instead."""
        if self.is_made or self._wanted:
            raise errors.IllegalStateError(
                "partitions were assigned by hand: subscribe with another consumer, as in"
                " client.consumer('orders', group_id='billing')"
            )

    async def look_up(self, partitions: Iterable[TopicPartition]) -> list[Cursor]:
        """A cursor without a position for each of them. Raises `UnknownTopicError`. Rule 2."""
        deadline_ms = self._context.deadline_ms()
        cursors: list[Cursor] = []
        for partition in partitions:
            topic = await self._metadata.topic_with(partition.topic, partition.partition, deadline_ms)
            cursors.append(Cursor(partition, PartitionId(topic.topic_id, partition.partition)))
        return cursors

    def replace(self, cursors: list[Cursor]) -> None:
        """These partitions and no others are read from now on. Rules 2 and 3."""
        places = {c.id: (c.position, c.last_leader_epoch) for c in self._fetcher.cursors.values() if c.position >= 0}
        self.is_made = True
        self._following.follow(())
        self._fetcher.assign(cursors)
        for cursor in cursors:
            if cursor.id in places:
                cursor.found(*places[cursor.id])

    async def partitions_of(self, topics: tuple[str, ...]) -> list[TopicPartition]:
        """All that these topics have now. Raises `UnknownTopicError`, `InvalidTopicError`."""
        deadline_ms = self._context.deadline_ms()
        found = [await self._metadata.topic(name, deadline_ms) for name in topics]
        return [TopicPartition(topic.name, number) for topic in found for number in range(topic.partitions)]

    def follow(self, topics: tuple[str, ...]) -> None:
        """Just assigned as whole topics: partitions that are added to them are read as well (`Following`)."""
        self._following.follow(topics)

    def partitions(self) -> list[TopicPartition]:
        """Returns the assigned partitions, in the order of the assignment."""
        return list(self._fetcher.cursors)

    def cursor(self, partition: tuple[str, int]) -> Cursor:
        """Returns the cursor of an assigned partition. Raises `IllegalStateError` when it is not assigned."""
        found = self._fetcher.cursors.get(as_partition(partition))
        if found is None:
            raise errors.IllegalStateError("this partition is not assigned", partition=partition)
        return found
