"""Finds the channel of a worker, and makes it where it is not there.

Rule 1: what is there is taken as it is: options that the worker was given and the channel does not have are a warning.
Rule 2: any broker is asked, and one that lags may not know of a channel that was just made. So a channel that is missing
        is looked for again, at another broker, for a second.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.calls import Caller
from oncelog.config import CHANNEL_OPTIONS, WorkerConfig, start_time_ms
from oncelog.v1 import channel_pb2 as ch
from oncelog.wire import methods

_log = logging.getLogger(__name__)
_GRACE_MS: Final = 1_000


class ChannelId(NamedTuple):
    """A channel, as every request about its records names it."""

    topic_id: str
    channel: str
    channel_id: str


async def list_channels(caller: Caller, topics: list[str]) -> list[ch.Channel]:
    """The channels of these topics (none = of all), as some broker knows them."""
    reply = await caller.to_any_broker(methods.LIST_CHANNELS, ch.ListChannelsRequest(topics=topics))
    return list(reply.channels)


async def find_channel(context: Context, caller: Caller, topic: str, name: str) -> ch.Channel:
    """The channel of this name. Raises `UnknownChannelError`. Rule 2."""
    until_ms = now_ms() + _GRACE_MS
    attempt = 0
    while True:
        for channel in await list_channels(caller, [topic]):
            if (channel.topic, channel.channel) == (topic, name):
                return channel
        attempt += 1
        if not await context.pause(attempt, until_ms):
            raise errors.UnknownChannelError(f"topic `{topic}` has no channel `{name}`", topic=topic, channel=name)


async def make_channel(
    context: Context, caller: Caller, topic: str, name: str, options: Mapping[str, object], start_ms: int
) -> ch.CreateChannelReply:
    """Makes it unless it is there. Raises what the controller refuses."""
    request = ch.CreateChannelRequest(
        topic=topic,
        channel=name,
        options=options_of(options),
        start_timestamp_ms=start_ms,
        if_not_exists=True,
        nonce=context.nonce(),
    )
    return await caller.to_controller(methods.CREATE_CHANNEL, request)


def options_of(options: Mapping[str, object]) -> ch.ChannelOptions:
    """Those that are given; the others are absent."""
    return ch.ChannelOptions(**{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]


class ChannelLookup:
    """See the module. One per worker."""

    def __init__(self, context: Context, caller: Caller, topic: str, name: str, config: WorkerConfig) -> None:
        self._context = context
        self._caller = caller
        self._topic = topic
        self._name = name
        self._config = config

    async def find(self) -> ChannelId:
        """Finds it, or makes it. Raises `UnknownChannelError` where it must not, and what the controller refuses."""
        channel = await self._found_or_made()
        self._warn(channel)
        return ChannelId(channel.topic_id, channel.channel, channel.channel_id)

    async def _found_or_made(self) -> ch.Channel:
        if not self._config.create:
            return await find_channel(self._context, self._caller, self._topic, self._name)
        for channel in await list_channels(self._caller, [self._topic]):
            if (channel.topic, channel.channel) == (self._topic, self._name):
                return channel
        start_ms = start_time_ms(self._config.start)
        reply = await make_channel(
            self._context, self._caller, self._topic, self._name, self._config.channel_options, start_ms
        )
        return reply.channel

    async def is_there(self, channel: ChannelId) -> bool:
        """Whether a broker still knows just this channel."""
        known = await list_channels(self._caller, [self._topic])
        return any(item.channel_id == channel.channel_id for item in known)

    def _warn(self, channel: ch.Channel) -> None:
        """Rule 1."""
        for name in CHANNEL_OPTIONS:
            wanted, has = getattr(self._config, name), getattr(channel.options, name)
            if wanted is not None and wanted != has:
                _log.warning(
                    "channel %s of topic %s has %s=%s, not %s as this worker was given: alter_channel changes it",
                    self._name,
                    self._topic,
                    name,
                    has,
                    wanted,
                )
