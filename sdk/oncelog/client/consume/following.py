"""Decides a consumer's assignment when topics change under it: partitions are added, a topic is created again.

Rule 1: all partitions of a followed topic are read. Metadata is asked every `metadata_max_age_ms` while a consumer reads,
        in the background: no reader waits for it.
Rule 2: a partition that a running consumer finds begins where its group stands, else at its first record whatever
        `auto_offset_reset` says: nothing that came before it was found is passed over.
Rule 3: a topic that was created again under its name is another topic. What is buffered of the old one is dropped, the new
        one is read as by rule 2, and a warning says so; with `auto_offset_reset="none"` the reader gets an error.
Rule 4: a partition that the new topic lacks is missing, not forgotten: it is read as by rule 2 when the topic has it again,
        also when it was assigned by its number. A warning says so once, and the reader who named it gets an error.
"""

from __future__ import annotations

import logging
from typing import Final

from oncelog import errors
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.metadata import Metadata, Topic, created_again, no_partition
from oncelog.config import ConsumerConfig
from oncelog.core.consume.consumer import Cursor
from oncelog.types import PartitionId, TopicPartition

_log = logging.getLogger(__name__)
_GROUP_GOES_ON: Final = "the group goes on with the first record of the new one"


class Following:
    """See the module. One per consumer; `topics` are followed as a whole."""

    def __init__(self, context: Context, metadata: Metadata, fetcher: Fetcher, config: ConsumerConfig) -> None:
        self._context = context
        self._metadata = metadata
        self._fetcher = fetcher
        self._resets = config.auto_offset_reset != "none"
        self._seen_changes = -1
        self._ask_at_ms = 0
        self._missing: dict[TopicPartition, bool] = {}  # whether it was paused
        self.topics: tuple[str, ...] = ()
        self.is_by_group = False
        """True: a group assigns. Its coordinator says which partitions of a topic that was created again are read here."""

    def follow(self, topics: tuple[str, ...]) -> None:
        """These, as they were just assigned; none = only what was assigned by number is read."""
        self.topics = topics
        self._missing.clear()
        self._ask_at_ms = now_ms() + self._context.config.metadata_max_age_ms

    def wait_ms(self, left_ms: int) -> int:
        """How long a reader may wait before it must `look` again."""
        until_ms = self._ask_at_ms - now_ms() if self._waits_for_news else left_ms
        return max(1, min(left_ms, until_ms))

    @property
    def _waits_for_news(self) -> bool:
        return bool(self.topics or self._missing)

    def look(self) -> None:
        """Takes what metadata has learnt. Raises `UnknownTopicError`, once, for a topic that was created again and may not
        be reset, or lacks a partition that was assigned by its number.
        """
        if self._waits_for_news and now_ms() >= self._ask_at_ms:
            self._ask_at_ms = now_ms() + self._context.config.metadata_max_age_ms
            self._metadata.request_refresh().add_done_callback(lambda _: self._fetcher.wake())
        if self._metadata.changes == self._seen_changes:
            return
        self._seen_changes = self._metadata.changes
        problem = self._replace_recreated()
        self._add_new()
        if problem is not None:
            raise problem

    def _replace_recreated(self) -> errors.OncelogError | None:
        """Returns the first error that the reader must get."""
        problem: errors.OncelogError | None = None
        for partition, cursor in list(self._fetcher.cursors.items()):
            topic = self._metadata.newer_topic(partition.topic, cursor.id.topic_id)
            if topic is None:
                continue
            self._fetcher.remove(partition)
            found = None
            if self.is_by_group:  # the next assignment has the new topic
                found = None if self._resets else created_again(topic.name, partition.partition, _GROUP_GOES_ON)
            elif partition.partition < topic.partitions:
                self._add(topic, partition, at_first=self._resets, is_paused=cursor.is_paused)
                found = None if self._resets else created_again(topic.name, partition.partition)
            else:
                found = self._miss(topic, partition, cursor.is_paused)
            _log.warning(
                "topic %s was deleted and created again; records of the old topic that were not read are lost: partition %d,"
                " from offset %d",
                topic.name,
                partition.partition,
                cursor.position,
            )
            problem = problem or found
        return problem

    def _miss(self, topic: Topic, partition: TopicPartition, is_paused: bool) -> errors.UnknownTopicError | None:
        """Returns the error of a partition that the topic lacks now."""
        self._missing[partition] = is_paused
        _log.warning(
            "topic %s has only the partitions 0 to %d now: partition %d is read again when the topic has it again",
            topic.name,
            topic.partitions - 1,
            partition.partition,
        )
        return None if topic.name in self.topics else no_partition(topic, partition.partition)

    def _add_new(self) -> None:
        for name in dict.fromkeys((*self.topics, *(partition.topic for partition in self._missing))):
            topic = self._metadata.latest_topic(name)
            for number in range(topic.partitions if topic is not None else 0):
                partition = TopicPartition(name, number)
                is_wanted = name in self.topics or partition in self._missing
                if topic is not None and is_wanted and partition not in self._fetcher.cursors:
                    self._add(topic, partition, at_first=True, is_paused=self._missing.pop(partition, False))

    def is_of_today(self, cursor: Cursor) -> bool:
        """False when its topic was created again: then its position means nothing in the topic of this name."""
        return self._metadata.newer_topic(cursor.partition.topic, cursor.id.topic_id) is None

    def _add(self, topic: Topic, partition: TopicPartition, at_first: bool, is_paused: bool = False) -> None:
        cursor = Cursor(partition, PartitionId(topic.topic_id, partition.partition))
        cursor.begins_at_first, cursor.is_paused = at_first, is_paused
        self._fetcher.add(cursor)
