"""All channels on this broker: each channel of a topic on each of its partitions that is led here.

Rule 1: etcd says which channels there are (`view.channels`), the partitions say what is led here; whatever changes, the two are
        compared again for the partitions that it is about. A channel that was deleted and made again is another one.
Rule 2: a channel that a fence or a fault has ended here is opened again after a pause, while the leadership lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from oncelog.errors import FencedLeaderEpochError, LeaderNotAvailableError, NotLeaderError, UnknownChannelError
from oncelog.types import PartitionId
from oncelog_partition_leader.partition.channels.ephemeral import EphemeralChannels
from oncelog_partition_leader.partition.channels.led_channel import LedChannel, Surroundings
from oncelog_partition_leader.partition.channels.opening import Beginning
from oncelog_partition_leader.partition.channels.shared_channel import SharedChannel
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.channel_values import CHANNELS, Channel, channel_of
from oncelog_runtime.metadata.cluster_view import ClusterView

_AGAIN_S: Final = 1.0
_UNKNOWN_MS: Final = 1_000
"""How long a request for a channel that this broker does not know waits for etcd's word: it may have been made just now."""


class ChannelHost:
    """See the module. One per broker."""

    def __init__(
        self,
        view: ClusterView,
        partitions: Mapping[PartitionId, LocalPartition],
        around: Surroundings,
        ephemeral: EphemeralChannels,
    ) -> None:
        self.shared: dict[str, SharedChannel] = {}
        """By channel id: those of which a partition is led here."""
        self.around = around
        self._view = view
        self._partitions = partitions
        self._ephemeral = ephemeral
        self._channels: dict[str, dict[str, Channel]] = {}
        """By topic id and name."""
        self._led: dict[PartitionId, dict[str, LedChannel]] = {}
        """By partition and channel id."""
        self._begun: dict[PartitionId, tuple[Leadership, set[str]]] = {}
        """The ids of the channels that were begun in the present leadership of a partition."""
        self.deposed: Callable[[Leadership, int], None] = lambda _leadership, _epoch: None
        """Called when a coordinator knows a newer leader epoch than that of this leadership, which has to end then."""
        around.doubts.stood_still = self._stood_still
        around.doubts.cut_off = lambda: self._doubt_all(stood_still=False)
        view.listen(self._saw)

    # ------------------------------------------------------------ following

    def role_changed(self, partition_id: PartitionId) -> None:
        """Looks at a partition whose leadership has begun or ended."""
        self._try_to_look(partition_id, Beginning.LATER)

    def _try_to_look(self, place: PartitionId, beginning: Beginning) -> None:
        try:
            self._look(place, beginning)
        except Exception as error:  # the partition is led all the same
            self.around.bugs.met("task", error, "channels of a partition")

    def _saw(self, keys: Iterable[str]) -> None:
        topics: dict[str, None] = {}  # with channels that have changed
        for key in keys:
            if key.startswith(CHANNELS):
                topic_id, name = channel_of(key)
                self._enter(topic_id, name)
                topics[topic_id] = None
        if topics:
            for place in [place for place in self._partitions if place.topic_id in topics]:
                self._try_to_look(place, Beginning.NEW)

    def _enter(self, topic_id: str, name: str) -> None:
        entry = self._view.channels.get((topic_id, name))
        if entry is not None:
            self._channels.setdefault(topic_id, {})[name] = entry.value
            return
        known = self._channels.get(topic_id, {})
        known.pop(name, None)
        if not known:
            self._channels.pop(topic_id, None)

    def _look(self, place: PartitionId, beginning: Beginning) -> None:
        """Begins, configures and ends the channels of one partition. `beginning`: of those that were not begun in this
        leadership yet.
        """
        partition = self._partitions.get(place)
        leadership = partition.leadership if partition is not None else None
        if leadership is not None and leadership.ended is not None:
            leadership = None
        wanted = {channel.channel_id: channel for channel in self._channels.get(place.topic_id, {}).values()}
        for channel_id, led in list(self._led.get(place, {}).items()):
            if led.leadership is not leadership:
                led.end(NotLeaderError("this broker does not lead the partition any more", partition=place.partition))
            elif channel_id not in wanted:
                led.end(UnknownChannelError("the channel was deleted", channel=led.channel.name))
        if partition is None or leadership is None:
            self._begun.pop(place, None)
            return
        begun = self._begun_in(place, leadership)
        begun &= wanted.keys()
        here = self._led.get(place, {})
        for channel_id, channel in wanted.items():
            if channel_id in here:
                self.shared[channel_id].channel = channel
                here[channel_id].configure(channel)
            else:
                self._begin(partition, leadership, channel, Beginning.AGAIN if channel_id in begun else beginning)
                begun.add(channel_id)

    def _begun_in(self, place: PartitionId, leadership: Leadership) -> set[str]:
        known = self._begun.get(place)
        if known is None or known[0] is not leadership:
            known = self._begun[place] = (leadership, set())
        return known[1]

    def _begin(self, partition: LocalPartition, leadership: Leadership, channel: Channel, beginning: Beginning) -> None:
        shared = self.shared.get(channel.channel_id)
        if shared is None:
            shared = self.shared[channel.channel_id] = SharedChannel(
                channel, partition.topic, self.around, self._ephemeral.look
            )
        shared.channel = channel
        led = LedChannel(
            self.around, partition, leadership, channel, beginning=beginning, news=shared.wake, ended=self._ended
        )
        self._led.setdefault(partition.id, {})[channel.channel_id] = led
        self.around.doubts.begin()
        shared.add(led)

    def _stood_still(self) -> None:
        """No request of a worker was read meanwhile, so none was silent."""
        for shared in self.shared.values():
            shared.workers.spare(self.around.clock.monotonic_ms())
        self._doubt_all(stood_still=True)

    def _doubt_all(self, *, stood_still: bool) -> None:
        """Another broker may lead: the state of the channels here may be outdated."""
        for led in [led for here in self._led.values() for led in here.values()]:
            led.doubt(stood_still=stood_still)

    def _ended(self, led: LedChannel) -> None:
        place, channel_id = led.partition.id, led.place.channel_id
        here = self._led.get(place, {})
        if here.get(channel_id) is led:
            del here[channel_id]
            if not here:
                del self._led[place]
        if not self._led:
            self.around.doubts.end()
        shared = self.shared.get(channel_id)
        if shared is not None:
            shared.remove(led)
            if not shared.led:
                shared.close()
                del self.shared[channel_id]
        if isinstance(led.ended, FencedLeaderEpochError) and "newest_epoch" in led.ended.context:
            self.deposed(led.leadership, int(led.ended.context["newest_epoch"]))
        if not isinstance(led.ended, NotLeaderError | UnknownChannelError):
            asyncio.get_running_loop().call_later(_AGAIN_S, self._try_to_look, place, Beginning.AGAIN)

    # ------------------------------------------------------------ asked by handlers

    async def find(self, topic_id: str, name: str, channel_id: str) -> Channel:
        """Returns a channel as etcd says. Raises `UnknownChannelError`, after it has waited for etcd's word for a while."""
        try:
            async with asyncio.timeout(_UNKNOWN_MS / 1000):
                while (channel := self._known(topic_id, name, channel_id)) is None:
                    await self._view.changed()
        except TimeoutError:
            raise UnknownChannelError(topic_id=topic_id, channel=name, channel_id=channel_id) from None
        return channel

    def _known(self, topic_id: str, name: str, channel_id: str) -> Channel | None:
        channel = self._channels.get(topic_id, {}).get(name)
        return channel if channel is not None and channel_id in ("", channel.channel_id) else None

    def led(self, partition: LocalPartition, channel: Channel) -> LedChannel:
        """Returns a channel on a partition that is led here. Raises as `require_leadership`, or `LeaderNotAvailableError`."""
        self.around.doubts.look()
        partition.require_leadership()
        led = self._led.get(partition.id, {}).get(channel.channel_id)
        if led is None:
            raise LeaderNotAvailableError("the channel begins here in a moment", partition=partition.id.partition)
        return led

    def shared_of(self, channel: Channel) -> SharedChannel | None:
        """Returns the channel over the partitions that are led here; None when none is."""
        return self.shared.get(channel.channel_id)
