"""The gauges of consumer groups and their members, read from the shards at a scrape; none has a label for the group.

Rule: every state has its series, also when its number is 0, so a sum or an alert does not depend on who is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.groups.group import Group
from oncelog_coordinator.core.groups.states import GroupState, MemberState
from oncelog_coordinator.shard.shard import Shard
from oncelog_runtime.metadata.cluster_view import ShardKey
from oncelog_runtime.observability import metric_names as names
from oncelog_runtime.observability.metrics import SLICE, Family, labels_of


class GroupCollector:
    """`collect` is a `metrics.Collector`. `shards` is the dict that the ownership maintains."""

    def __init__(self, shards: dict[ShardKey, Shard]) -> None:
        self._shards = shards

    def collect(self) -> Iterator[Family | None]:
        """Yields the number of groups and of members by state."""
        groups: Counter[str] = Counter()
        members: Counter[str] = Counter()
        seen = 0
        for table in self._tables():
            had_members = {name for name, group in table.groups.groups.items() if group.record.slots}
            groups[GroupState.EMPTY] += len(set(table.offsets.used()) - had_members)
            for group in list(table.groups.groups.values()):
                if group.record.slots:
                    groups[group.state()] += 1
                members.update(member.state for member in group.members.values())
                seen += _work(group)
                if seen >= SLICE:
                    seen = 0
                    yield None
        yield Family(names.GROUPS, [(labels_of(names.GROUPS, state), groups[state]) for state in GroupState])
        shown = [state for state in MemberState if state is not MemberState.LEFT]
        yield Family(names.GROUP_MEMBERS, [(labels_of(names.GROUP_MEMBERS, state), members[state]) for state in shown])

    def _tables(self) -> Iterator[GroupShardTable]:
        for shard in list(self._shards.values()):
            if shard.is_serving and isinstance(shard.life.table, GroupShardTable):
                yield shard.life.table


def _work(group: Group) -> int:
    return 1 + len(group.members)
