"""Group shards are told which channels there are, once per life and change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog_coordinator.core.channels.channel_commands import SeeChannels
from oncelog_coordinator.effects.channel_watch import ChannelWatch
from oncelog_runtime.metadata.channel_values import Channel, ChannelOptions
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from tests.unit.coordinator.fake_cluster import USER_TOPIC_ID, Cluster
from tests.unit.coordinator.marker_place import Life


def serving(life: Any) -> Any:
    return SimpleNamespace(is_serving=life is not None, life=life)


def told(life: Life) -> list[set[str]]:
    return [set(command.channel_ids) for command in life.told if isinstance(command, SeeChannels)]


def put(cluster: Cluster, name: str, channel_id: str, *, paused: bool = False) -> None:
    channel = Channel(USER_TOPIC_ID, name, channel_id, ChannelOptions(), paused)
    cluster.put(channel.key, channel.encode())


def test_a_shard_is_told_once_per_life_and_per_change() -> None:
    cluster, life, txn = Cluster(), Life(), Life()
    shards: Any = {(KIND_GROUP, 0): serving(life), (KIND_TXN, 0): serving(txn), (KIND_GROUP, 1): serving(None)}
    watch = ChannelWatch(cluster.view, shards)
    watch.look()
    watch.look()
    assert told(life) == [set()], "that there are none is news too"
    put(cluster, "work", "c" * 32)
    watch.look()
    put(cluster, "work", "c" * 32, paused=True)
    watch.look()
    assert told(life) == [set(), {"c" * 32}], "a pause is no news"
    put(cluster, "work", "d" * 32)
    watch.look()
    assert told(life)[-1] == {"d" * 32}, "a channel that is made again is another one"
    next_life = Life()
    shards[KIND_GROUP, 0] = serving(next_life)
    watch.look()
    assert told(next_life) == [{"d" * 32}]
    assert not txn.told
    del shards[KIND_GROUP, 0]
    watch.look()


def test_nothing_is_told_before_the_cluster_was_read() -> None:
    life = Life()
    shards: Any = {(KIND_GROUP, 0): serving(life)}
    ChannelWatch(ClusterView(), shards).look()
    assert not life.told
