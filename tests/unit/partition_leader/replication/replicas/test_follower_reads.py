"""A replica that follows is asked what its broker knows of it: etcd's ISR, its leader's voice, its own log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import FencedLeaderEpochError, NotLeaderError, StorageError, UnknownLeaderEpochError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.replication.vouching import Told
from oncelog_partition_leader.replication.replicas.follower_reads import FollowerReads
from oncelog_runtime.metadata.cluster_keys import Partition

ME, LEADER, PLACE = BrokerRef(1, 11), BrokerRef(2, 12), PartitionId("0" * 32, 0)


@dataclass
class Surroundings:
    """One replica and what its broker knows; a test changes what it is about."""

    state: Partition | None = field(default_factory=lambda: Partition("orders", (2, 1), LEADER, 3, (LEADER, ME)))
    heard: bool = True
    failed: StorageError | None = None
    told: Told = field(default_factory=lambda: Told(3, 7, 4))
    known_epoch: int = 3

    def partition(self) -> Any:
        log = SimpleNamespace(log_start_offset=2, log_end_offset=9)
        return SimpleNamespace(
            id=PLACE, log=log, failed=self.failed, known_epoch=self.known_epoch, told=self.told, high_watermark=7
        )

    def reads(self) -> FollowerReads:
        entries = {PLACE: SimpleNamespace(value=self.state)} if self.state is not None else {}
        cluster = SimpleNamespace(
            view=SimpleNamespace(partitions=entries),
            me=lambda: ME,
            contacts=SimpleNamespace(heard=lambda ref: self.heard and ref == LEADER),
            signpost=SimpleNamespace(leader=lambda _: "b2:1"),
        )
        return FollowerReads(cast(Any, cluster))


def test_an_in_sync_follower_is_read_up_to_the_watermark_and_from_its_leaders_log_start() -> None:
    around = Surroundings()
    found = around.reads().require(around.partition(), 3)
    assert (found.epoch, found.high_watermark, found.log_start_offset, found.is_leader) == (3, 7, 4, False)


def changed(**values: Any) -> Callable[[Surroundings], None]:
    def change(around: Surroundings) -> None:
        for name, value in values.items():
            setattr(around, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed(state=None), "not in sync"),
        (changed(state=Partition("orders", (2, 1), LEADER, 3, (LEADER,))), "not in sync"),
        (changed(state=Partition("orders", (2, 1), LEADER, 3, (LEADER, BrokerRef(1, 10)))), "not in sync"),
        (changed(state=Partition("orders", (2, 1), LEADER, 2, (LEADER, ME))), "not in sync"),
        (changed(state=Partition("orders", (2, 1), None, 3, (LEADER, ME))), "hear its leader"),
        (changed(heard=False), "hear its leader"),
        (changed(told=Told(2, 7, 4)), "newest epoch"),
        (changed(told=Told(3, 10, 4)), "ends before"),
    ],
)
def test_a_follower_that_cannot_vouch_sends_the_reader_to_its_leader(
    change: Callable[[Surroundings], None], reason: str
) -> None:
    around = Surroundings()
    change(around)
    with pytest.raises(NotLeaderError, match=reason) as refused:
        around.reads().require(around.partition())
    assert refused.value.go_to == "b2:1"
    assert refused.value.retriable


def test_a_failed_log_and_another_epoch_are_refused_as_a_leader_refuses_them() -> None:
    around = Surroundings()
    with pytest.raises(UnknownLeaderEpochError):
        around.reads().require(around.partition(), 4)
    with pytest.raises(FencedLeaderEpochError):
        around.reads().require(around.partition(), 2)
    around.failed = StorageError("rotten", reason="rot")
    with pytest.raises(StorageError):
        around.reads().require(around.partition())
