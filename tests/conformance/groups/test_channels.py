"""What leaders have a coordinator keep of channels, over the wire: fences, fail-overs, and acknowledgements in transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.names import channel_group_id
from oncelog.v1 import channel_pb2 as ch
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog_runtime.metadata.channel_values import CHANNELS
from tests.conformance.script import Place, Script, Writer


@dataclass
class Channel:
    """A channel on one partition, and who says that it leads it in `epoch`."""

    s: Script
    place: Place
    channel_id: str
    epoch: int = 1
    write_no: int = 0

    @property
    def group(self) -> str:
        return channel_group_id(self.channel_id)

    @property
    def named(self) -> dict[str, Any]:
        return {
            "channel_id": self.channel_id,
            "topic_id": self.place.topic_id,
            "partition": self.place.partition,
            "leader_epoch": self.epoch,
        }

    async def open(self) -> co.OpenChannelPartitionReply:
        request = co.OpenChannelPartitionRequest(**self.named)
        reply: co.OpenChannelPartitionReply = await self.s.ask_group(
            self.group, methods.OPEN_CHANNEL_PARTITION, request
        )
        self.write_no = reply.write_no
        return reply

    async def write(self, before: int, *settled: tuple[int, int], seek: bool = False) -> None:
        self.write_no += 1
        request = co.WriteChannelStateRequest(
            **self.named, write_no=self.write_no, settled_before=before, settled=_spans(*settled), seek=seek
        )
        await self.s.ask_group(self.group, methods.WRITE_CHANNEL_STATE, request)

    def acks(self, writer: Writer, *acknowledged: tuple[int, int], seeks: int = 0) -> co.SendChannelAcksRequest:
        return co.SendChannelAcksRequest(
            name=writer.name, seeks=seeks, acknowledged=_spans(*acknowledged), **self.named
        )

    async def ack(self, writer: Writer, *acknowledged: tuple[int, int]) -> None:
        await self.s.ask_group(self.group, methods.SEND_CHANNEL_ACKS, self.acks(writer, *acknowledged))

    async def settled(self) -> tuple[int, set[int]]:
        """How far everything is settled, and what beyond that."""
        state = await self.open()
        bits = sum(int.from_bytes(block.settled, "little") << block.first_offset for block in state.blocks)
        return state.settled_before, {n for n in range(bits.bit_length()) if bits >> n & 1}


def _spans(*items: tuple[int, int]) -> list[co.OffsetRange]:
    return [co.OffsetRange(first_offset=first, last_offset=last) for first, last in items]


CHANNEL = "c" * 32
"""Nobody has made it, so no broker works on it; a coordinator keeps what it is told for a day."""


async def begun(s: Script) -> Channel:
    """A channel that is opened by the leader of its partition, from 0 on."""
    channel = Channel(s, await s.place(), CHANNEL)
    assert not (await channel.open()).known
    await channel.write(0)
    return channel


async def fails_over(s: Script, channel: Channel) -> None:
    """The owner of the channel's shard dies, and another process takes it."""
    old = s.group_owner(channel.group)
    s.kill(old)
    await s.until(lambda: s.group_owner(channel.group) not in ("", old))


async def test_what_was_confirmed_to_a_leader_is_told_to_the_next_one(s: Script) -> None:
    channel = await begun(s)
    await channel.write(3, (5, 6))
    await fails_over(s, channel)
    late = Channel(s, channel.place, channel.channel_id, write_no=channel.write_no)
    channel.epoch = 2
    assert await channel.settled() == (3, {5, 6})
    with pytest.raises(errors.FencedLeaderEpochError):
        await s.call(
            s.group_owner(channel.group),
            methods.WRITE_CHANNEL_STATE,
            co.WriteChannelStateRequest(**late.named, write_no=late.write_no + 1, settled=_spans((9, 9))),
        )
    await channel.write(3, (3, 4))
    assert await channel.settled() == (7, set())


@pytest.mark.parametrize("commit", [True, False])
async def test_acknowledgements_count_when_their_transaction_commits(s: Script, commit: bool) -> None:
    channel = await begun(s)
    writer = await s.session("t")
    await channel.ack(writer, (0, 1))
    await channel.ack(writer, (4, 4))
    assert (await channel.settled(), len((await channel.open()).pending)) == ((0, set()), 1)
    await fails_over(s, channel)
    await s.end(writer, commit, visible=True)
    assert await channel.settled() == ((2, {4}) if commit else (0, set()))
    assert not (await channel.open()).pending
    with pytest.raises((errors.TxnEndedError, errors.TxnAbortedError)):
        await s.ask_group(channel.group, methods.SEND_CHANNEL_ACKS, channel.acks(writer, (7, 7)))
    assert not (await channel.open()).pending


async def test_offsets_and_acknowledgements_of_a_transaction_count_together(s: Script) -> None:
    channel = await begun(s)
    writer = await s.session("t")
    await channel.ack(writer, (0, 1))
    await s.send_offsets(writer, "g", channel.place, 7, sequence=1)
    await s.write(channel.place, writer, "made of it")
    await s.end(writer, visible=True)
    assert await channel.settled() == (2, set())
    assert await s.committed_offset("g", channel.place) == 7
    assert await s.read(channel.place) == ["made of it"]


async def test_the_owner_of_the_shard_asks_for_the_outcome_when_no_marker_comes(s: Script) -> None:
    channel = await begun(s)
    writer = await s.session("t")
    await channel.ack(writer, (0, 1))
    tap = s.hold(methods.WRITE_GROUP_MARKERS)
    await s.end(writer)
    await s.sleep(10)
    assert await channel.settled() == (2, set())
    assert tap.seen


async def test_an_abandoned_transaction_gives_its_records_back(s: Script) -> None:
    channel = await begun(s)
    writer = await s.session("t", timeout_ms=2_000)
    await channel.ack(writer, (0, 1))
    await s.sleep(20)
    state = await channel.open()
    assert (state.settled_before, list(state.blocks), list(state.pending)) == (0, [], [])


async def test_a_seek_in_the_middle_of_a_transaction_counts(s: Script) -> None:
    channel = await begun(s)
    writer = await s.session("t")
    await channel.ack(writer, (0, 1))
    await channel.write(0, seek=True)
    with pytest.raises(errors.OffsetCommitStaleError):
        await channel.ack(writer, (3, 3))
    await s.end(writer, visible=True)
    assert await channel.settled() == (0, set())


async def test_a_channel_is_known_everywhere_when_its_creation_is_answered_and_goes_with_its_topic(s: Script) -> None:
    place = await s.place()
    request = ch.CreateChannelRequest(topic=place.topic, channel="work", nonce="n")
    made = await at_the_controller(s, methods.CREATE_CHANNEL, request)
    assert made.created
    for node in BROKERS:
        listed = await s.call(node, methods.LIST_CHANNELS, ch.ListChannelsRequest())
        assert [channel.channel_id for channel in listed.channels] == [made.channel.channel_id]
    request = ch.AlterChannelRequest(topic=place.topic, channel="work", paused=True)
    assert (await at_the_controller(s, methods.ALTER_CHANNEL, request)).changed
    async with s.client() as client:
        await client.admin.delete_topic(place.topic)
    await s.until(lambda: not s.world.metadata.list(CHANNELS).items)


BROKERS = ("broker-0", "broker-1", "broker-2")


async def at_the_controller(s: Script, spec: MethodSpec[Any, Any], request: Any) -> Any:
    """A call to whichever broker is the controller."""
    for node in BROKERS:
        try:
            return await s.call(node, spec, request)
        except errors.NotControllerError:
            continue
    raise AssertionError("there is no controller")
