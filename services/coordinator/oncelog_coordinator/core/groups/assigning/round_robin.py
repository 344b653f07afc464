"""The round_robin assignor: all partitions of all topics are dealt one by one.

Rule 1: without racks the next partition goes to the next member that subscribes to its topic, as in Kafka.
Rule 2: where racks are known it is the members that take turns: each takes the first partition with a replica in its rack, else
        one without a replica in the rack of any member, else the first. So with equal subscriptions each has as many
        as without racks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.assigning.sticky import Subscriber, Where


def round_robin(subscribers: Sequence[Subscriber], where: Where) -> dict[str, frozenset[PartitionId]]:
    """Returns the partitions of each subscriber; these are sorted by their order."""
    has_racks = bool(where.racks) and any(one.rack for one in subscribers)
    found = _by_members(subscribers, where) if has_racks else _by_partitions(subscribers, where)
    return {member_id: frozenset(partitions) for member_id, partitions in found.items()}


def _by_partitions(subscribers: Sequence[Subscriber], where: Where) -> dict[str, list[PartitionId]]:
    given: dict[str, list[PartitionId]] = {one.member_id: [] for one in subscribers}
    turn = 0
    for topic_id, count in sorted(where.partitions.items()):
        if not any(topic_id in one.topics for one in subscribers):
            continue
        for number in range(count):
            while topic_id not in subscribers[turn % len(subscribers)].topics:
                turn += 1
            given[subscribers[turn % len(subscribers)].member_id].append(PartitionId(topic_id, number))
            turn += 1
    return given


def _by_members(subscribers: Sequence[Subscriber], where: Where) -> dict[str, list[PartitionId]]:
    given: dict[str, list[PartitionId]] = {one.member_id: [] for one in subscribers}
    piles = _Piles(subscribers, where)
    waiting = deque(_Player(one, piles) for one in subscribers)
    while waiting:
        player = waiting.popleft()
        drawn = player.draw()
        if drawn is not None:
            given[player.member_id].append(drawn)
            waiting.append(player)
    return given


class _Piles:
    """The partitions that are not dealt yet, by topic, and by topic and rack. A pile may hold what another one has dealt."""

    def __init__(self, subscribers: Sequence[Subscriber], where: Where) -> None:
        self.near: dict[tuple[str, str], deque[PartitionId]] = defaultdict(deque)
        self.near_to_nobody: dict[str, deque[PartitionId]] = {}
        self.near_to_others: dict[str, deque[PartitionId]] = {}
        self._dealt: set[PartitionId] = set()
        racks = {one.rack for one in subscribers if one.rack}
        for topic_id, count in where.partitions.items():
            near_to_nobody = self.near_to_nobody[topic_id] = deque()
            others = self.near_to_others[topic_id] = deque()
            for partition in (PartitionId(topic_id, number) for number in range(count)):
                at = sorted(racks & where.racks.get(partition, frozenset()))
                (others if at else near_to_nobody).append(partition)
                for rack in at:
                    self.near[topic_id, rack].append(partition)

    def take(self, pile: deque[PartitionId]) -> PartitionId | None:
        """Returns the first partition of a pile that is not dealt yet; None = there is none, and never will be."""
        while pile:
            partition = pile.popleft()
            if partition not in self._dealt:
                self._dealt.add(partition)
                return partition
        return None


class _Player:
    """A member, and the piles from which it draws, in this order; it goes on behind those that were empty."""

    def __init__(self, one: Subscriber, piles: _Piles) -> None:
        self.member_id = one.member_id
        self._piles = piles
        topics = sorted(topic_id for topic_id in one.topics if topic_id in piles.near_to_nobody)
        near = (piles.near[topic_id, one.rack] for topic_id in topics if one.rack)
        far = [pile[topic_id] for pile in (piles.near_to_nobody, piles.near_to_others) for topic_id in topics]
        self._open = deque([*near, *far])

    def draw(self) -> PartitionId | None:
        """Returns the member's next partition; None = nothing is left for it."""
        while self._open:
            partition = self._piles.take(self._open[0])
            if partition is not None:
                return partition
            self._open.popleft()
        return None
