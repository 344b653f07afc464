"""The broker's remote methods that create, alter, delete and list channels.

Rule: the controller changes channels and answers when every live broker has seen the change, so that a worker which starts then
is known everywhere, and meets no channel that was deleted. Any broker lists them, as it last saw them.
"""

from __future__ import annotations

from dataclasses import asdict

from oncelog.ports import Transport
from oncelog.types import Buffer
from oncelog.v1 import channel_pb2 as pb
from oncelog.wire import methods
from oncelog_partition_leader.cluster.channels import Options
from oncelog_partition_leader.cluster.controller import Controller, require_controller
from oncelog_partition_leader.rpc.get_metadata import require_listing
from oncelog_partition_leader.rpc.topic_readiness import wait_until_known
from oncelog_runtime.metadata.channel_values import Channel
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import register
from oncelog_runtime.serving.once import Once
from oncelog_runtime.serving.topic_access import TopicOperation, require_access


class ChannelAdminService:
    """The handlers of these methods."""

    def __init__(self, view: ClusterView, controller: Controller, transport: Transport, once: Once) -> None:
        self._view = view
        self._controller = controller
        self._transport = transport
        self._once = once

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.CREATE_CHANNEL, self.create_channel)
        register(server, methods.ALTER_CHANNEL, self.alter_channel)
        register(server, methods.DELETE_CHANNEL, self.delete_channel)
        register(server, methods.LIST_CHANNELS, self.list_channels)

    async def create_channel(
        self, request: pb.CreateChannelRequest, _payload: Buffer
    ) -> tuple[pb.CreateChannelReply, Buffer]:
        """Creates a channel, on the controller."""
        require_access(request.topic, TopicOperation.READ)
        require_controller(self._controller, self._view)
        channel, created = await self._controller.channels.create(
            request.topic,
            request.channel,
            options_of(request.options),
            request.start_timestamp_ms,
            if_not_exists=request.if_not_exists,
            nonce=request.nonce,
        )
        await self._wait(channel)
        return pb.CreateChannelReply(channel=described(channel, request.topic), created=created), b""

    async def alter_channel(
        self, request: pb.AlterChannelRequest, _payload: Buffer
    ) -> tuple[pb.AlterChannelReply, Buffer]:
        """Alters, pauses or resumes a channel, on the controller."""
        require_access(request.topic, TopicOperation.READ)
        require_controller(self._controller, self._view)
        return await self._once.run(request.call, self._controller.term, lambda: self._alter(request)), b""

    async def _alter(self, request: pb.AlterChannelRequest) -> pb.AlterChannelReply:
        channel, changed = await self._controller.channels.alter(
            request.topic,
            request.channel,
            options_of(request.options),
            request.paused if request.HasField("paused") else None,
            request.channel_id,
        )
        await self._wait(channel)
        return pb.AlterChannelReply(channel=described(channel, request.topic), changed=changed)

    async def delete_channel(
        self, request: pb.DeleteChannelRequest, _payload: Buffer
    ) -> tuple[pb.DeleteChannelReply, Buffer]:
        """Deletes a channel, on the controller."""
        require_access(request.topic, TopicOperation.READ)
        require_controller(self._controller, self._view)
        return await self._once.run(request.call, self._controller.term, lambda: self._delete(request)), b""

    async def _delete(self, request: pb.DeleteChannelRequest) -> pb.DeleteChannelReply:
        channel_id = await self._controller.channels.delete(request.topic, request.channel, request.channel_id)
        # The channel has gone from this broker's view by now, so its revision is that of the deletion or a later one.
        await wait_until_known(self._view, self._transport, self._view.revision)
        return pb.DeleteChannelReply(channel_id=channel_id)

    async def list_channels(
        self, request: pb.ListChannelsRequest, _payload: Buffer
    ) -> tuple[pb.ListChannelsReply, Buffer]:
        """Lists the channels of these topics, or of all, by topic and name. Raises `LeaderNotAvailableError` before this broker
        knows them.
        """
        require_listing(self._view)
        wanted = frozenset(request.topics)
        reply = pb.ListChannelsReply()
        for topic, entry in sorted(self._view.topics.items()):
            if not wanted or topic in wanted:
                reply.channels.extend(described(channel, topic) for channel in self._of(entry.value.topic_id))
        return reply, b""

    def _of(self, topic_id: str) -> list[Channel]:
        """Returns the channels of a topic by name."""
        found = (entry.value for key, entry in self._view.channels.items() if key[0] == topic_id)
        return sorted(found, key=lambda channel: channel.name)

    async def _wait(self, channel: Channel) -> None:
        entry = self._view.channels.get((channel.topic_id, channel.name))
        if entry is not None:
            await wait_until_known(self._view, self._transport, entry.mod_revision)


def options_of(options: pb.ChannelOptions) -> Options:
    """Returns the options that a request names."""
    return {field.name: value for field, value in options.ListFields()}


def described(channel: Channel, topic: str) -> pb.Channel:
    """Returns a channel with every option."""
    return pb.Channel(
        topic=topic,
        topic_id=channel.topic_id,
        channel=channel.name,
        channel_id=channel.channel_id,
        options=pb.ChannelOptions(**asdict(channel.options)),
        paused=channel.paused,
        start_timestamp_ms=channel.start_timestamp_ms,
        created_ms=channel.created_ms,
    )
