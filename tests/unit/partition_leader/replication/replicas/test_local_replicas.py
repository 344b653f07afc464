"""A folder is in use while its log is open or a step is under way; a leadership has its replica while it is present."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas
from tests.unit.partition_leader.cluster_place import P0, P1


def test_a_folder_is_in_use_while_its_log_is_open_or_a_step_is_under_way() -> None:
    here = LocalReplicas()
    partition: Any = SimpleNamespace()
    assert not here.is_used(P0)
    here.partitions[P0] = partition
    here.busy[P1] = None
    assert here.is_used(P0)
    assert here.is_used(P1)


def test_an_earlier_leadership_has_no_replica() -> None:
    here = LocalReplicas()
    present: Any = SimpleNamespace(partition=P0)
    earlier: Any = SimpleNamespace(partition=P0)
    assert here.leadership_of(present) is None
    partition: Any = SimpleNamespace(leadership=present)
    here.partitions[P0] = partition
    assert here.leadership_of(present) is partition
    assert here.leadership_of(earlier) is None
