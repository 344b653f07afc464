"""The offsets that a group keeps, as one consumer asks for them and commits them.

Rule: an offset belongs to the topic that it was read from; one of a topic that was created again since is neither committed nor
      told (`oncelog.client.consume.offsets`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable

from oncelog import errors
from oncelog.client.consume.observe.read_observer import ReadObserver
from oncelog.client.consume.offsets import NO_EPOCH, GroupMetadata, OffsetAndMetadata, Offsets, offset_entries
from oncelog.client.home.context import Context
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.core.consume.membership import Membership
from oncelog.core.names import check_group_id
from oncelog.types import TopicPartition
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

_log = logging.getLogger(__name__)


class GroupOffsets:
    """See the module. One per consumer; `group_id` None: it keeps none."""

    def __init__(
        self, context: Context, metadata: Metadata, caller: Caller, group_id: str | None, observer: ReadObserver
    ) -> None:
        if group_id is not None:
            check_group_id(group_id)
        self._context = context
        self._metadata = metadata
        self._caller = caller
        self._observer = observer
        self._commit_sequence = 0
        self._group_id = group_id
        self.membership: Callable[[], Membership | None] = lambda: None
        """The consumer's membership, if it subscribes: only the owner of a partition may commit its offset then."""

    @property
    def group(self) -> GroupMetadata | None:
        """The group, if there is one, and who commits in it now."""
        if self._group_id is None:
            return None
        member = self.membership()
        return GroupMetadata(self._group_id, *(() if member is None else (member.member_id, member.epoch)))

    def required(self) -> GroupMetadata:
        """The group. Raises `IllegalStateError` without one."""
        if self.group is None:
            raise errors.IllegalStateError("offsets belong to a group: give the consumer a group_id")
        return self.group

    async def commit(self, offsets: Offsets) -> None:
        """See `Consumer.commit`."""
        group = self.required()
        self._commit_sequence = sequence = self._commit_sequence + 1
        entries, outdated = await offset_entries(self._metadata, offsets, self._context.deadline_ms())
        for partition in outdated:
            _log.warning(
                "topic %s was deleted and created again: the offset that was read of partition %d of the old one is not"
                " committed",
                *partition,
            )
        if not entries:
            return
        request = co.CommitOffsetsRequest(member=group.to_proto(), commit_sequence=sequence, offsets=entries)
        with self._observer.committing(offsets):
            reply = await self._caller.to_group_coordinator(group.group_id, methods.COMMIT_OFFSETS, request)
        for failed in reply.errors:
            raise from_detail(failed.error)

    async def committed(self, chosen: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See `Consumer.committed`; no partition chosen: all."""
        group = self.required()
        asked = await self._named(chosen)
        request = co.FetchOffsetsRequest(group_id=group.group_id, partitions=asked, require_stable=True)
        reply = await self._caller.to_group_coordinator(group.group_id, methods.FETCH_OFFSETS, request)
        ids = await self._ids_of_today(reply.offsets) if not chosen else {item.topic: item.topic_id for item in asked}
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(chosen)
        for entry in reply.offsets:
            if entry.offset < 0 or entry.partition < 0:
                raise errors.InvalidResponseError("the coordinator told an offset that cannot be", offset=entry.offset)
            partition = TopicPartition(entry.topic, entry.partition)
            if ids.get(entry.topic) == entry.topic_id and (not chosen or partition in found):
                leader_epoch = entry.leader_epoch if entry.epoch_known else NO_EPOCH
                found[partition] = OffsetAndMetadata(entry.offset, leader_epoch, entry.metadata, entry.topic_id)
        return found

    async def _named(self, partitions: list[TopicPartition]) -> list[types_pb2.TopicPartition]:
        """As they travel, with the ids of today."""
        deadline_ms = self._context.deadline_ms()
        named: list[types_pb2.TopicPartition] = []
        for name, number in partitions:
            topic = await self._metadata.topic(name, deadline_ms)
            named.append(types_pb2.TopicPartition(topic=topic.name, partition=number, topic_id=topic.topic_id))
        return named

    async def _ids_of_today(self, entries: Iterable[co.OffsetEntry]) -> dict[str, str]:
        """Topic -> id. A topic that is there no more keeps its own: no other topic can take its offsets for another's."""
        ids = {entry.topic: entry.topic_id for entry in entries}
        deadline_ms, grace_ms = self._context.deadline_ms(), self._metadata.grace_until_ms()  # one for all of them
        for name in ids:
            with contextlib.suppress(errors.UnknownTopicError):
                ids[name] = (await self._metadata.topic(name, deadline_ms, grace_ms)).topic_id
        return ids
