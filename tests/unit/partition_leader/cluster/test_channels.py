"""Channels are made, changed and deleted by one commit each, after all checks, and copies of a call change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.names import waiting_topic
from oncelog_partition_leader.cluster import channels as module
from oncelog_partition_leader.cluster.channels import Channels
from oncelog_runtime.metadata.channel_values import START_EARLIEST, START_LATEST, Channel, ChannelOptions
from oncelog_runtime.metadata.cluster_keys import OFFSETS_TOPIC, DeletedTopic, deleted_topic_key, topic_key
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import TOPIC_ID, Place


class Making:
    """The channels of a cluster with the topic `t`."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.channels = Channels(place.view, Random(3), place.clock, place.commit)

    async def create(self, name: str = "work", topic: str = "t", **more: Any) -> tuple[Channel, bool]:
        call = {"options": {}, "start_timestamp_ms": 0, "if_not_exists": False, "nonce": "", **more}
        return await self.channels.create(topic, name, **call)

    async def alter(self, name: str = "work", paused: bool | None = None, **options: Any) -> tuple[Channel, bool]:
        return await self.channels.alter("t", name, options, paused)

    def there(self, name: str = "work") -> Channel:
        return self.place.view.channels[TOPIC_ID, name].value


def run(scenario: Callable[[Making], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await place.topic()
        await scenario(Making(place))

    cluster_place.run(whole)


# ---------------------------------------------------------------- creating


def test_a_channel_is_there_with_what_was_asked_for() -> None:
    async def scenario(making: Making) -> None:
        channel, created = await making.create(options={"max_deliveries": 5}, start_timestamp_ms=START_LATEST)
        assert created
        assert making.there() == channel
        assert (channel.options.max_deliveries, channel.options.ack_wait_ms) == (5, 30_000)
        assert (channel.start_timestamp_ms, channel.paused) == (START_LATEST, False)
        assert channel.created_ms > 0
        second, _ = await making.create("other")
        assert second.start_timestamp_ms == START_EARLIEST
        assert second.channel_id != channel.channel_id

    run(scenario)


def test_a_name_that_is_taken_is_refused_or_told() -> None:
    async def scenario(making: Making) -> None:
        first, _ = await making.create(nonce="a")
        with pytest.raises(errors.ChannelExistsError):
            await making.create(nonce="b")
        assert await making.create(nonce="c", if_not_exists=True, options={"max_deliveries": 5}) == (first, False)

    run(scenario)


@pytest.mark.parametrize("if_not_exists", [False, True])
def test_of_two_creations_at_once_one_creates_and_the_other_may_try_again(if_not_exists: bool) -> None:
    """Regression: workers that started together were told that their channel exists, although they did not mind."""

    async def scenario(making: Making) -> None:
        calls = [making.create(nonce=nonce, if_not_exists=if_not_exists) for nonce in ("a", "b")]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        (created,) = [item for item in ended if not isinstance(item, BaseException)]
        (error,) = [item for item in ended if isinstance(item, BaseException)]
        assert isinstance(error, errors.RequestTimedOutError)
        assert created == (making.there(), True)

    run(scenario)


def test_a_copy_of_a_creation_gets_its_channel_and_makes_none_after_the_deletion() -> None:
    async def scenario(making: Making) -> None:
        first, _ = await making.create(nonce="a")
        assert await making.create(nonce="a") == (first, True)
        with pytest.raises(errors.ChannelExistsError):
            await making.create(nonce="b")
        await making.channels.delete("t", "work")
        for nonce in ("a", "b"):
            with pytest.raises(errors.UnknownChannelError, match="over"):
                await making.create(nonce=nonce)
        again, _ = await making.create(nonce="c")
        assert again.channel_id != first.channel_id

    run(scenario)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"topic": "no"}, errors.UnknownTopicError),
        ({"topic": OFFSETS_TOPIC}, errors.InvalidTopicError),
        ({"topic": waiting_topic("t")}, errors.InvalidTopicError),
        ({"name": "a/b"}, errors.InvalidRequestError),
        ({"name": ""}, errors.InvalidRequestError),
        ({"nonce": "x" * 65}, errors.InvalidRequestError),
        ({"start_timestamp_ms": -3}, errors.InvalidRequestError),
        ({"options": {"ack_wait_ms": 1}}, errors.InvalidRequestError),
        ({"options": {"dead_letter_topic": "no"}}, errors.UnknownTopicError),
        ({"options": {"dead_letter_topic": "t"}}, errors.InvalidTopicError),
        ({"options": {"dead_letter_topic": OFFSETS_TOPIC}}, errors.InvalidTopicError),
        ({"options": {"dead_letter_topic": waiting_topic("t")}}, errors.InvalidTopicError),
        ({"options": {"dead_letter_topic": "a/b"}}, errors.InvalidTopicError),
    ],
)
def test_mistakes_are_refused_and_leave_nothing(call: dict[str, Any], error: type[errors.OncelogError]) -> None:
    async def scenario(making: Making) -> None:
        with pytest.raises(error):
            await making.create(**call)
        assert not making.place.view.channels

    run(scenario)


def test_a_channel_that_an_earlier_version_has_made_of_a_waiting_topic_can_be_deleted() -> None:
    async def scenario(making: Making) -> None:
        waiting = waiting_topic("t")
        await making.place.topic(waiting, "d" * 32)
        old = Channel("d" * 32, "work", "e" * 32, ChannelOptions())
        await making.place.put(old.key, old.encode())
        await making.channels.alter(waiting, "work", {}, True)
        assert await making.channels.delete(waiting, "work") == old.channel_id
        with pytest.raises(errors.InvalidTopicError):
            await making.create(topic=waiting)

    run(scenario)


def test_a_topic_has_so_many_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHANNELS_MAX", 2)

    async def scenario(making: Making) -> None:
        for name in ("a", "b"):
            await making.create(name)
        with pytest.raises(errors.PolicyViolationError):
            await making.create("c")
        assert (await making.create("a", if_not_exists=True))[1] is False

    run(scenario)


def test_a_topic_that_goes_meanwhile_gets_no_channel() -> None:
    async def scenario(making: Making) -> None:
        async def topic_goes() -> None:
            await making.place.etcd.commit(deletes=[topic_key("t")])

        making.place.metadata.before_commit = topic_goes
        with pytest.raises(errors.RequestTimedOutError):
            await making.create()
        await making.place.seen()
        assert not making.place.view.channels

    run(scenario)


# ---------------------------------------------------------------- altering


def test_options_that_are_not_named_stay() -> None:
    async def scenario(making: Making) -> None:
        await making.place.put(topic_key("dead"), making.place.view.topic("t").encode())
        await making.create(options={"max_deliveries": 5, "dead_letter_topic": "dead"})
        channel, changed = await making.alter(ack_wait_ms=500)
        assert changed
        assert (channel.options.max_deliveries, channel.options.ack_wait_ms) == (5, 500)
        assert not (await making.alter(ack_wait_ms=500))[1]
        assert (await making.alter(dead_letter_topic="", max_deliveries=0))[0].options.dead_letter_topic == ""
        assert making.there().options.max_deliveries == 0

    run(scenario)


def test_a_pause_needs_nothing_else() -> None:
    async def scenario(making: Making) -> None:
        await making.place.put(topic_key("dead"), making.place.view.topic("t").encode())
        await making.create(options={"dead_letter_topic": "dead"})
        await making.place.delete(topic_key("dead"))
        assert (await making.alter(paused=True))[0].paused
        assert (await making.alter())[0].paused
        assert not (await making.alter(paused=False))[0].paused
        with pytest.raises(errors.UnknownTopicError):
            await making.alter(max_deliveries=3)

    run(scenario)


@pytest.mark.parametrize("option", ["order_by_key", "ephemeral"])
def test_what_a_channel_is_cannot_be_changed(option: str) -> None:
    async def scenario(making: Making) -> None:
        await making.create()
        with pytest.raises(errors.InvalidRequestError, match=option):
            await making.alter(**{option: True})
        assert not (await making.alter(**{option: False}))[1]

    run(scenario)


def test_only_the_channel_that_is_named_is_altered_or_deleted() -> None:
    async def scenario(making: Making) -> None:
        channel, _ = await making.create()
        for asked in (
            making.channels.alter("t", "work", {}, True, "f" * 32),
            making.channels.alter("t", "no", {}, True),
            making.channels.delete("t", "work", "f" * 32),
            making.channels.delete("t", "no"),
        ):
            with pytest.raises(errors.UnknownChannelError):
                await asked
        assert making.there() == channel

    run(scenario)


def test_a_change_that_comes_first_is_not_overwritten() -> None:
    async def scenario(making: Making) -> None:
        channel, _ = await making.create()

        async def other_comes_first() -> None:
            await making.place.put(channel.key, channel.encode())

        making.place.metadata.before_commit = other_comes_first
        with pytest.raises(errors.RequestTimedOutError):
            await making.alter(paused=True)
        assert not making.there().paused

    run(scenario)


# ---------------------------------------------------------------- deleting


def test_a_deletion_is_safe_to_repeat_and_the_name_is_free() -> None:
    async def scenario(making: Making) -> None:
        channel, _ = await making.create()
        assert await making.channels.delete("t", "work", channel.channel_id) == channel.channel_id
        assert not making.place.view.channels
        second, _ = await making.create()
        assert await making.channels.delete("t", "work", channel.channel_id) == channel.channel_id
        assert making.there() == second

    run(scenario)


def test_channels_of_a_deleted_topic_are_removed_and_those_of_an_absent_one_stay() -> None:
    async def scenario(making: Making) -> None:
        await making.create()
        await making.channels.reconcile()
        topic = making.place.view.topic("t")
        await making.place.delete(topic_key("t"))
        await making.channels.reconcile()
        await making.place.seen()
        assert making.place.view.channels, "etcd may have been restored without the topic"
        await making.place.put(topic_key("t"), topic.encode())
        await making.place.put(deleted_topic_key(TOPIC_ID), DeletedTopic("t", 1).encode())
        await making.channels.reconcile()
        await making.place.seen()
        assert making.place.view.channels, "the topic is there"
        await making.place.delete(topic_key("t"))
        await making.channels.reconcile()
        await making.place.seen()
        assert not making.place.view.channels

    run(scenario)
