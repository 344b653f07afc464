"""A broker is in sync when all its replicas are, and looks at them again only when something has changed."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster import in_sync_watch as module
from oncelog_partition_leader.cluster.in_sync_watch import InSyncWatch
from oncelog_runtime.metadata.cluster_keys import BROKERS, Partition, Reassignment, partition_key, reassignment_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import KeyValue

ME, OTHER = BrokerRef(1, 11), BrokerRef(2, 12)
TOPIC_ID = "0" * 32


class Watched:
    """A view, and how often all partitions were looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.view = ClusterView()
        self.me = ME
        self.looks = 0
        self.watch = InSyncWatch(self.view, lambda: self.me)
        self._revision = 0
        out_of_sync = module.out_of_sync

        def counted(*given: Any) -> int:
            self.looks += 1
            return out_of_sync(*given)

        monkeypatch.setattr(module, "out_of_sync", counted)

    def learn(self, key: str, value: bytes) -> None:
        self._revision += 1
        self.view.learn([KeyValue(key, value, self._revision)])

    def isr_is(self, *isr: BrokerRef, number: int = 0) -> None:
        self.learn(partition_key(TOPIC_ID, number), Partition("t", (1, 2), OTHER, 0, isr).encode())


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_it_follows_the_partitions(watched: Watched) -> None:
    assert watched.watch.is_in_sync()
    watched.isr_is(OTHER)
    assert not watched.watch.is_in_sync()
    watched.isr_is(OTHER, ME)
    assert watched.watch.is_in_sync()


def test_another_incarnation_is_not_in_sync_before_etcd_names_it(watched: Watched) -> None:
    watched.isr_is(OTHER, ME)
    assert watched.watch.is_in_sync()
    watched.me = BrokerRef(1, 99)
    assert not watched.watch.is_in_sync()


def test_a_replica_that_is_being_added_does_not_count(watched: Watched) -> None:
    watched.isr_is(OTHER)
    assert not watched.watch.is_in_sync()
    watched.learn(reassignment_key(TOPIC_ID, 0), Reassignment((2,), (2, 1)).encode())
    assert watched.watch.is_in_sync()


def test_all_partitions_are_looked_at_only_after_a_change(watched: Watched) -> None:
    watched.isr_is(OTHER, ME)
    for _ in range(5):
        assert watched.watch.is_in_sync()
    watched.learn(f"{BROKERS}7", b"{}")
    assert watched.watch.is_in_sync()
    assert watched.looks == 1
    watched.isr_is(OTHER, ME, number=1)
    assert watched.watch.is_in_sync()
    assert watched.looks == 2
