"""Group shards are told which topics there are, once per life and change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog_coordinator.core.topology import SeeTopics
from oncelog_coordinator.effects.topic_watch import TopicWatch
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Change
from tests.unit.coordinator.fake_cluster import BROKER, USER_TOPIC_ID, Cluster
from tests.unit.coordinator.marker_place import Life


def serving(life: Any) -> Any:
    return SimpleNamespace(is_serving=life is not None, life=life)


def told(life: Life) -> list[Any]:
    return [command.topology for command in life.told if isinstance(command, SeeTopics)]


def test_a_shard_is_told_once_per_life_and_per_change() -> None:
    cluster, life, txn = Cluster(), Life(), Life()
    shards: Any = {(KIND_GROUP, 0): serving(life), (KIND_TXN, 0): serving(txn), (KIND_GROUP, 1): serving(None)}
    watch = TopicWatch(cluster.view, shards)
    watch.look()
    watch.look()
    (first,) = told(life)
    assert first.topic_ids == {"user": USER_TOPIC_ID}, "and none of the cluster's own"
    assert not txn.told
    cluster.topic("more", "b" * 32)
    watch.look()
    assert [sorted(topology.topic_ids) for topology in told(life)] == [["user"], ["more", "user"]]
    cluster.lead("more", "b" * 32, 0, 1)
    watch.look()
    assert len(told(life)) == 2, "another leader is no news"
    next_life = Life()
    shards[KIND_GROUP, 0] = serving(next_life)
    watch.look()
    assert len(told(next_life)) == 1
    del shards[KIND_GROUP, 0]
    watch.look()


def test_topics_that_stay_are_told_as_of_each_newer_revision() -> None:
    cluster, life, later = Cluster(), Life(), Life()
    shards: Any = {(KIND_GROUP, 0): serving(life)}
    watch = TopicWatch(cluster.view, shards)
    watch.look()
    cluster.view.change(Change(cluster_keys.shard_epoch_key(KIND_GROUP, 0), b"2", 500))
    shards[KIND_GROUP, 1] = serving(later)
    watch.look()
    watch.look()
    before, after = told(life)
    assert before.content == after.content
    assert (before.metadata, after.metadata) == ((0, 1), (0, 500)), "so it does not seem to lag behind"
    assert [topology.metadata for topology in told(later)] == [(0, 500)]


def test_racks_are_those_of_the_replicas() -> None:
    cluster, life = Cluster(), Life()
    cluster.put(cluster_keys.broker_key(0), cluster_keys.Broker(BROKER, BROKER, "0", rack="r1").encode())
    shards: Any = {(KIND_GROUP, 0): serving(life)}
    TopicWatch(cluster.view, shards).look()
    (topology,) = told(life)
    assert set(topology.racks.values()) == {frozenset(["r1"])}


def test_nothing_is_told_before_the_cluster_was_read() -> None:
    life = Life()
    shards: Any = {(KIND_GROUP, 0): serving(life)}
    TopicWatch(ClusterView(), shards).look()
    assert not life.told
