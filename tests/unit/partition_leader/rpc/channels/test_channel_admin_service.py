"""The controller changes channels and answers when every broker knows; every broker lists them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import Buffer
from oncelog.v1 import channel_pb2 as pb
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog_partition_leader.cluster.channels import Channels
from oncelog_partition_leader.rpc.channels.channel_admin_service import ChannelAdminService, options_of
from oncelog_runtime.metadata.channel_values import START_EARLIEST
from oncelog_runtime.metadata.cluster_keys import OFFSETS_TOPIC, topic_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.serving.call_context import CALL, CallInfo
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import TOPIC_ID, Place
from tests.unit.partition_leader.rpc.admin_hands import controller, named, once


class Serving:
    """Broker 0, the controller. The others have seen everything once they are asked again."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.controller = controller(place, channels=Channels(place.view, Random(1), place.clock, place.commit))
        self.service = ChannelAdminService(place.view, self.controller, place.transport, once())
        self.behind = 0
        """So many answers say that a broker has seen nothing yet."""
        self.asked = 0
        for broker_id in range(3):
            place.transport.serve(f"broker-{broker_id}:9092", methods.GET_METADATA, self._metadata)

    async def _metadata(self, _request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        self.asked += 1
        revision = self.place.view.revision if self.asked > self.behind else 0
        return pa.GetMetadataReply(revision=revision), b""

    async def create(self, **more: Any) -> pb.CreateChannelReply:
        request = pb.CreateChannelRequest(**{"topic": "t", "channel": "work", **more})
        return (await self.service.create_channel(request, b""))[0]

    async def alter(self, **more: Any) -> pb.AlterChannelReply:
        request = pb.AlterChannelRequest(**{"topic": "t", "channel": "work", **more})
        return (await self.service.alter_channel(request, b""))[0]

    async def delete(self, **more: Any) -> str:
        request = pb.DeleteChannelRequest(**{"topic": "t", "channel": "work", **more})
        return (await self.service.delete_channel(request, b""))[0].channel_id

    async def names(self, *topics: str) -> list[tuple[str, str]]:
        reply, _ = await self.service.list_channels(pb.ListChannelsRequest(topics=topics), b"")
        return [(channel.topic, channel.channel) for channel in reply.channels]


def run(scenario: Callable[[Serving], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await place.topic()
        await scenario(Serving(place))

    cluster_place.run(whole)


def test_a_channel_is_told_with_every_option() -> None:
    async def scenario(serving: Serving) -> None:
        reply = await serving.create(options=pb.ChannelOptions(max_deliveries=3))
        channel = reply.channel
        assert reply.created
        assert (channel.topic, channel.topic_id, channel.channel) == ("t", TOPIC_ID, "work")
        assert len(channel.channel_id) == 32
        assert (channel.options.max_deliveries, channel.options.ack_wait_ms) == (3, 30_000)
        assert {field.name for field, _ in channel.options.ListFields()} == {
            field.name for field in pb.ChannelOptions.DESCRIPTOR.fields
        }
        assert channel.start_timestamp_ms == START_EARLIEST
        assert channel.created_ms

    run(scenario)


def test_options_that_a_request_does_not_have_are_not_named() -> None:
    assert options_of(pb.ChannelOptions()) == {}
    assert options_of(pb.ChannelOptions(max_deliveries=0, dead_letter_topic="", ephemeral=False)) == {
        "max_deliveries": 0,
        "dead_letter_topic": "",
        "ephemeral": False,
    }


def test_the_answer_waits_until_every_broker_has_seen_the_change() -> None:
    async def scenario(serving: Serving) -> None:
        serving.behind = 5
        await serving.create()
        assert serving.asked >= 8
        serving.asked = 0
        await serving.alter(paused=True)
        assert serving.asked >= 8
        serving.asked = 0
        await serving.delete()
        assert serving.asked >= 8

    run(scenario)


def test_a_channel_is_altered_paused_and_goes_on() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create()
        reply = await serving.alter(options=pb.ChannelOptions(ack_wait_ms=500), paused=True)
        assert (reply.changed, reply.channel.options.ack_wait_ms, reply.channel.paused) == (True, 500, True)
        assert (await serving.alter(options=pb.ChannelOptions(ack_wait_ms=600))).channel.paused
        assert not (await serving.alter(paused=False)).channel.paused
        assert not (await serving.alter(paused=False)).changed

    run(scenario)


def test_only_the_controller_changes_channels_and_a_copy_of_a_call_does_not() -> None:
    async def scenario(serving: Serving) -> None:
        first = (await serving.create()).channel.channel_id
        await serving.alter(paused=True, call=named("a"))
        await serving.alter(paused=False)
        await serving.alter(paused=True, call=named("a"))
        assert not serving.place.view.channels[TOPIC_ID, "work"].value.paused
        assert await serving.delete(call=named("b")) == first
        await serving.create()
        assert await serving.delete(call=named("b")) == first
        assert await serving.names() == [("t", "work")]
        serving.controller.is_controller = False
        for asked in (serving.create(), serving.alter(), serving.delete()):
            with pytest.raises(errors.NotControllerError):
                await asked

    run(scenario)


def test_channels_are_listed_by_topic_and_name() -> None:
    async def scenario(serving: Serving) -> None:
        topic = serving.place.view.topic("t")
        await serving.place.put(topic_key("s"), type(topic)("s", "b" * 32, 1, 1, {}).encode())
        for where, name in (("t", "b"), ("t", "a"), ("s", "z")):
            await serving.create(topic=where, channel=name)
        serving.controller.is_controller = False
        assert await serving.names() == [("s", "z"), ("t", "a"), ("t", "b")]
        assert await serving.names("t") == [("t", "a"), ("t", "b")]
        assert await serving.names("no") == []

    run(scenario)


def test_a_broker_that_has_not_read_etcd_yet_lists_nothing() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create()
        serving.service._view = ClusterView()
        with pytest.raises(errors.LeaderNotAvailableError):
            await serving.names("t")

    run(scenario)


def test_clients_make_no_channels_of_the_clusters_own_topics() -> None:
    async def scenario(serving: Serving) -> None:
        CALL.set(CallInfo("ipv4:10.0.0.7:4", listener="client"))
        for asked in (
            serving.create(topic=OFFSETS_TOPIC),
            serving.alter(topic=OFFSETS_TOPIC),
            serving.delete(topic=OFFSETS_TOPIC),
        ):
            with pytest.raises(errors.TopicAuthorizationError):
                await asked

    run(scenario)
