"""Channels of topics: creates, alters and deletes their keys in etcd. Only the controller uses it.

Rule 1: a channel's key is the commit point of its creation, of each change, and of its deletion. A channel is created only
        while the key of its topic stands, and `reconcile` removes the channels of topics that were deleted.
Rule 2: everything is checked before anything is written, and each refusal has its name.
Rule 3: a call to create a channel determines the channel's id by its nonce, and the id of a deleted channel is never used
        again: so a copy of the call creates nothing, whenever it comes within ten minutes. The tombstones stand among those of
        topics, without a name (`TopicUpkeep.reconcile` removes them).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import fields, replace
from random import Random
from typing import Any, Final

from oncelog.core.names import check_channel_name
from oncelog.errors import (
    ChannelExistsError,
    InvalidRequestError,
    InvalidTopicError,
    PolicyViolationError,
    RequestTimedOutError,
    UnknownChannelError,
    UnknownTopicError,
)
from oncelog_partition_leader.cluster.controller_term import Commit
from oncelog_runtime.metadata.channel_values import START_EARLIEST, START_LATEST, Channel, ChannelOptions, channel_key
from oncelog_runtime.metadata.cluster_keys import INTERNAL_TOPICS, DeletedTopic, Topic, deleted_topic_key, topic_key
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.metadata.waiting_topics import is_waiting
from oncelog_runtime.ports import Compare, Put, WallClock

_log = logging.getLogger(__name__)
CHANNELS_MAX: Final = 1_000
"""Channels of one topic."""
_CHUNK: Final = 50
_NONCE_MAX: Final = 64
_FIXED: Final = ("order_by_key", "ephemeral")
"""Options that a channel keeps for its life."""
Options = Mapping[str, object]
"""Options of a channel that a call names, by name."""
_NAMES: Final = frozenset(item.name for item in fields(ChannelOptions))


class Channels:
    """Creates, alters and deletes channels, for the controller."""

    def __init__(self, view: ClusterView, random: Random, clock: WallClock, commit: Commit) -> None:
        self._view = view
        self._random = random
        self._clock = clock
        self._commit = commit

    # ------------------------------------------------------------ commands

    async def create(
        self,
        topic_name: str,
        name: str,
        options: Options,
        start_timestamp_ms: int,
        *,
        if_not_exists: bool,
        nonce: str = "",
    ) -> tuple[Channel, bool]:
        """Creates a channel; returns it, and whether this call created it. Raises the caller's mistakes by name.

        `start_timestamp_ms`: as `Channel` has it, 0 = earliest. `nonce` empty: a copy of the call can create the channel again
        after it was deleted.
        """
        check_channel_name(name)
        if len(nonce) > _NONCE_MAX:
            raise InvalidRequestError("a nonce is too long", limit=_NONCE_MAX)
        if is_waiting(topic_name):  # one of an earlier version may still be altered and deleted
            raise InvalidTopicError(
                "what waits is delivered when it is due: make a channel of its topic", topic=topic_name
            )
        topic = self._topic(topic_name)
        topic_id = topic.value.topic_id
        channel_id = _id_of_call(topic_id, name, nonce) if nonce else f"{self._random.getrandbits(128):032x}"
        existing = self._view.channels.get((topic_id, name))
        if existing is not None:
            return await self._existing(existing.value, channel_id if nonce else "", if_not_exists=if_not_exists)
        if channel_id in self._view.deleted_topics:
            raise UnknownChannelError(
                "what this call was about is over: make a new call to create a channel", channel=name
            )
        chosen = self._checked(topic.value, _changed(ChannelOptions(), options))
        self._require_room(topic_id)
        now_ms = self._clock.now_ms()
        channel = Channel(
            topic_id, name, channel_id, chosen, start_timestamp_ms=_start(start_timestamp_ms), created_ms=now_ms
        )
        await self._write_new(topic, channel)
        return channel, True

    async def _existing(self, channel: Channel, channel_id: str, *, if_not_exists: bool) -> tuple[Channel, bool]:
        """Answers a call that finds its name taken. `channel_id`: of the channel that the call would create; empty = any."""
        if channel.channel_id == channel_id:
            return channel, True
        if (
            channel_id and channel_id not in self._view.deleted_topics
        ):  # a late copy must not create it after a deletion
            compares = [Compare(deleted_topic_key(channel_id), 0)]
            if not await self._commit(compares, [self._tombstone(channel_id)]):
                raise RequestTimedOutError("the cluster changed meanwhile: try again")
        if if_not_exists:
            return channel, False
        raise ChannelExistsError(f"the channel {channel.name} exists", channel=channel.name)

    async def _write_new(self, topic: Versioned[Topic], channel: Channel) -> None:
        compares = [
            Compare(channel.key, 0),
            Compare(topic_key(topic.value.name), topic.mod_revision),
            Compare(deleted_topic_key(channel.channel_id), 0),
        ]
        if not await self._commit(compares, [Put(channel.key, channel.encode())]):
            # Also when another call has just created it: the next try finds that one (`_existing`).
            raise RequestTimedOutError("the cluster changed meanwhile: try again", channel=channel.name)
        _log.info("created channel %s (%s) of topic %s", channel.name, channel.channel_id, topic.value.name)

    async def alter(
        self, topic_name: str, name: str, options: Options, paused: bool | None, channel_id: str = ""
    ) -> tuple[Channel, bool]:
        """Alters a channel; returns it, and whether it changed. Options that are not named, and `paused` None, stay.

        Safe to repeat. Raises `UnknownTopicError`, `UnknownChannelError`, `InvalidTopicError`, `InvalidRequestError`.
        """
        topic, entry = self._require(topic_name, name, channel_id)
        channel = entry.value
        chosen = _changed(channel.options, options)
        for option in _FIXED:
            if getattr(chosen, option) != getattr(channel.options, option):
                raise InvalidRequestError(f"{option} cannot be changed: create another channel", channel=name)
        wanted = replace(channel, options=chosen, paused=channel.paused if paused is None else paused)
        if wanted == channel:
            return channel, False
        if chosen != channel.options:  # a pause does not ask whether the dead-letter topic is still there
            self._checked(topic, chosen)
        if not await self._commit([Compare(channel.key, entry.mod_revision)], [Put(channel.key, wanted.encode())]):
            raise RequestTimedOutError("the cluster changed meanwhile: try again", channel=name)
        _log.info("altered channel %s of topic %s: %s, paused %s", name, topic_name, chosen, wanted.paused)
        return wanted, True

    async def delete(self, topic_name: str, name: str, channel_id: str = "") -> str:
        """Deletes a channel; returns its id. Raises `UnknownTopicError`, `UnknownChannelError` or `InvalidTopicError`."""
        if channel_id and channel_id in self._view.deleted_topics:
            return channel_id
        _, entry = self._require(topic_name, name, channel_id)
        return await self._delete(entry)

    async def _delete(self, entry: Versioned[Channel]) -> str:
        channel = entry.value
        tombstone = self._tombstone(channel.channel_id)
        if not await self._commit([Compare(channel.key, entry.mod_revision)], [tombstone], [channel.key]):
            raise RequestTimedOutError("the channel changed meanwhile: try again", channel=channel.name)
        _log.info("deleted channel %s (%s)", channel.name, channel.channel_id)
        while (seen := self._view.channels.get((channel.topic_id, channel.name))) is not None:
            if seen.value.channel_id != channel.channel_id:
                break
            await self._view.changed()
        return channel.channel_id

    # ------------------------------------------------------------ keeping clean

    async def reconcile(self) -> None:
        """Removes the channels of deleted topics. Those of a topic that is only absent (etcd was restored) stay as they are."""
        known, deleted = self._view.topic_names, self._view.deleted_topics
        keys = [channel_key(*key) for key in self._view.channels if key[0] in deleted and key[0] not in known]
        for start in range(0, len(keys), _CHUNK):
            await self._commit([], [], keys[start : start + _CHUNK])

    # ------------------------------------------------------------ checks

    def _topic(self, name: str) -> Versioned[Topic]:
        """Returns a topic that may have channels. Raises `InvalidTopicError` or `UnknownTopicError`."""
        if name in INTERNAL_TOPICS:
            raise InvalidTopicError("the cluster's own topics have no channels", topic=name)
        entry = self._view.topics.get(name)
        if entry is None:
            raise UnknownTopicError(f"no topic {name!r}", topic=name)
        return entry

    def _require(self, topic_name: str, name: str, channel_id: str) -> tuple[Topic, Versioned[Channel]]:
        """Returns a channel, with this id if one is given. Raises `UnknownChannelError`, or as `_topic` does."""
        topic = self._topic(topic_name).value
        entry = self._view.channels.get((topic.topic_id, name))
        if entry is None or channel_id not in ("", entry.value.channel_id):
            raise UnknownChannelError(f"no channel {name!r}", topic=topic_name, channel=name, channel_id=channel_id)
        return topic, entry

    def _checked(self, topic: Topic, options: ChannelOptions) -> ChannelOptions:
        options.check()
        letters = options.dead_letter_topic
        if letters in INTERNAL_TOPICS or is_waiting(letters) or letters == topic.name:
            raise InvalidTopicError("dead records go to another topic, and to none of the cluster's own", topic=letters)
        if letters and letters not in self._view.topics:
            raise UnknownTopicError("the dead-letter topic does not exist: create it first", topic=letters)
        return options

    def _require_room(self, topic_id: str) -> None:
        if sum(of_topic == topic_id for of_topic, _ in self._view.channels) >= CHANNELS_MAX:
            raise PolicyViolationError("the topic has too many channels: delete some", limit=CHANNELS_MAX)

    def _tombstone(self, channel_id: str) -> Put:
        return Put(deleted_topic_key(channel_id), DeletedTopic("", self._clock.now_ms()).encode())


def _changed(before: ChannelOptions, options: Options) -> ChannelOptions:
    """Returns the options with these values; the caller takes their names from the contract."""
    assert options.keys() <= _NAMES, "the contract has an option that is unknown here"
    values: dict[str, Any] = dict(options)
    return replace(before, **values)


def _start(timestamp_ms: int) -> int:
    """Returns where a channel begins. Raises `InvalidRequestError`."""
    if timestamp_ms == 0:
        return START_EARLIEST
    if timestamp_ms < 0 and timestamp_ms not in (START_EARLIEST, START_LATEST):
        raise InvalidRequestError("a channel begins at -1 (latest), -2 (earliest) or a time", given=timestamp_ms)
    return timestamp_ms


def _id_of_call(topic_id: str, name: str, nonce: str) -> str:
    """Returns the id of the channel that a call creates: the same for each copy of the call."""
    return hashlib.sha256(f"channel/{topic_id}/{name}/{nonce}".encode()).hexdigest()[:32]
