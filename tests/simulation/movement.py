"""Whether anything that the invariants look at was assigned to since they last looked: most steps move nothing.

Rule: production classes do what they did. Their `__setattr__` also raises a flag, when one of a few attributes is set.
"""

from __future__ import annotations

from typing import Any, Final

from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.log.checkpoints import RecoveryPoint
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.partition.partition import LocalPartition

_WATCHED: Final[dict[type, frozenset[str]]] = {
    LocalPartition: frozenset({"leadership", "failed", "_follower_watermark"}),
    PartitionLog: frozenset({"_log_end", "_synced_end"}),
    RecoveryPoint: frozenset({"end_offset", "log_start_offset"}),
    ReplicaSet: frozenset({"high_watermark"}),
}


class Movement:
    """`happened` is true since one of the attributes was set; whoever looks sets it back."""

    happened = True


def notice() -> None:
    """Begins to notice, in this whole process. Calling it again changes nothing."""
    for watched, names in _WATCHED.items():
        if "__setattr__" not in vars(watched):
            watched.__setattr__ = _noticing(names)  # type: ignore[method-assign, assignment]


def _noticing(names: frozenset[str]) -> Any:
    def set_and_notice(self: object, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in names:
            Movement.happened = True

    return set_and_notice
