"""The sticky assignor: balanced, and no partition moves that need not.

Rule 1: where all members subscribe to the same topics, no two loads differ by more than one, and the number of
        partitions that keep their member is the largest that this allows.
Rule 2: where subscriptions differ, no chain of moves could make the loads more even (an optimal semi-matching), and an
        assignment that is even already stays as it is.

THEORY OF OPERATION

With equal subscriptions the loads are known in advance: P partitions on M members make P mod M members with one more than
the others. A member keeps at most that many, so as much as possible is kept when the larger shares go to the members that
own most. What is given up or new goes to members that have room, to one in a near rack if there is one.

With different subscriptions the even loads are not known in advance. Each new partition goes to its least loaded
subscriber. Then, as long as a partition of a loaded member can reach a member with at least two fewer, through a chain of
members that each pass one on, the chain is carried out. Each such step makes the sum of squares of the loads smaller, so
it ends; when no chain is left the loads are as even as they can be.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from oncelog.types import PartitionId

_CHAINS_MAX: Final = 2_000
"""Chains of one computation; a huge group with different subscriptions becomes even over several of them."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as the assignors see it. `order`: its instance id or else its member id. `owned`: its target so far."""

    member_id: str
    order: str
    topics: frozenset[str]
    rack: str = ""
    owned: frozenset[PartitionId] = frozenset()


@dataclass(frozen=True, slots=True)
class Where:
    """The topics: topic id -> number of partitions, and the racks that hold a replica of a partition, where known."""

    partitions: Mapping[str, int]
    racks: Mapping[PartitionId, frozenset[str]] = field(default_factory=dict)

    def is_near(self, rack: str, partition: PartitionId) -> bool:
        """True when a replica of the partition is in this rack."""
        return bool(rack) and rack in self.racks.get(partition, ())


def sticky(subscribers: Sequence[Subscriber], where: Where) -> dict[str, frozenset[PartitionId]]:
    """Returns the partitions of each subscriber; these are sorted by their order."""
    if not subscribers:
        return {}
    subscribed = frozenset[str]().union(*(one.topics for one in subscribers))
    everything = [
        PartitionId(topic_id, number)
        for topic_id, count in sorted(where.partitions.items())
        if topic_id in subscribed
        for number in range(count)
    ]
    kept = _kept(subscribers, set(everything))
    same = all(one.topics & where.partitions.keys() == subscribed & where.partitions.keys() for one in subscribers)
    found = (
        _equal(subscribers, everything, kept, where) if same else _Uneven(subscribers, everything, kept, where).solve()
    )
    return {member_id: frozenset(partitions) for member_id, partitions in found.items()}


def _kept(subscribers: Sequence[Subscriber], everything: set[PartitionId]) -> dict[str, list[PartitionId]]:
    """Returns what each member owns and may go on to own; a partition stays with one member."""
    taken: set[PartitionId] = set()
    kept: dict[str, list[PartitionId]] = {}
    for one in subscribers:
        kept[one.member_id] = sorted(p for p in one.owned & everything if p.topic_id in one.topics and p not in taken)
        taken.update(kept[one.member_id])
    return kept


# ---------------------------------------------------------------- equal subscriptions


def _equal(
    subscribers: Sequence[Subscriber],
    everything: Sequence[PartitionId],
    kept: dict[str, list[PartitionId]],
    where: Where,
) -> dict[str, list[PartitionId]]:
    each, more = divmod(len(everything), len(subscribers))
    by_load = sorted(subscribers, key=lambda one: -len(kept[one.member_id]))
    room: dict[str, int] = {}
    for at, one in enumerate(by_load):
        share, mine = each + (at < more), kept[one.member_id]
        if len(mine) > share:
            mine.sort(key=lambda partition, rack=one.rack: (not where.is_near(rack, partition), partition))  # type: ignore[misc]
            del mine[share:]
        room[one.member_id] = share - len(mine)
    held = {partition for partitions in kept.values() for partition in partitions}
    rest = [partition for partition in everything if partition not in held]
    for member_id, partition in _deal(subscribers, room, rest, where):
        kept[member_id].append(partition)
    return kept


def _deal(
    subscribers: Sequence[Subscriber], room: dict[str, int], rest: Sequence[PartitionId], where: Where
) -> Iterable[tuple[str, PartitionId]]:
    """Gives the partitions to members with room: first to near ones, then in order."""
    far = []
    by_rack: dict[str, list[str]] = defaultdict(list)
    for one in subscribers:
        if one.rack:
            by_rack[one.rack].append(one.member_id)
    for partition in rest:
        near = [m for rack in sorted(where.racks.get(partition, ())) for m in by_rack.get(rack, ()) if room[m]]
        if not near:
            far.append(partition)
            continue
        chosen = max(near, key=lambda member_id: room[member_id])
        room[chosen] -= 1
        yield chosen, partition
    open_ones = deque(one.member_id for one in subscribers if room[one.member_id])
    for partition in far:
        chosen = open_ones.popleft()
        room[chosen] -= 1
        if room[chosen]:
            open_ones.append(chosen)
        yield chosen, partition


# ---------------------------------------------------------------- different subscriptions


class _Uneven:
    """One computation with subscriptions that differ."""

    def __init__(
        self,
        subscribers: Sequence[Subscriber],
        everything: Sequence[PartitionId],
        kept: dict[str, list[PartitionId]],
        where: Where,
    ) -> None:
        self._everything = everything
        self._where = where
        self._members = {one.member_id: one for one in subscribers}
        self._readers: dict[str, list[str]] = defaultdict(list)
        for one in subscribers:
            for topic_id in sorted(one.topics):
                self._readers[topic_id].append(one.member_id)
        self._load = {member_id: len(partitions) for member_id, partitions in kept.items()}
        self._of: dict[str, dict[str, list[PartitionId]]] = {member_id: defaultdict(list) for member_id in kept}
        """Member -> topic -> its partitions; the ones that it did not own before come last, and are passed on first."""
        for member_id, partitions in kept.items():
            for partition in partitions:
                self._of[member_id][partition.topic_id].append(partition)

    def solve(self) -> dict[str, list[PartitionId]]:
        """Returns the partitions of each member."""
        self._give_what_is_free()
        for _ in range(_CHAINS_MAX):
            chain = self._chain()
            if not chain:
                break
            self._carry_out(chain)
        return {m: [p for partitions in topics.values() for p in partitions] for m, topics in self._of.items()}

    def _give_what_is_free(self) -> None:
        held = {p for topics in self._of.values() for partitions in topics.values() for p in partitions}
        free = [partition for partition in self._everything if partition not in held]
        for partition in sorted(free, key=lambda one: (len(self._readers[one.topic_id]), one)):
            readers = self._readers[partition.topic_id]
            chosen = min(readers, key=lambda m: (self._load[m], not self._is_near(m, partition)))
            self._of[chosen][partition.topic_id].append(partition)
            self._load[chosen] += 1

    def _is_near(self, member_id: str, partition: PartitionId) -> bool:
        return self._where.is_near(self._members[member_id].rack, partition)

    def _chain(self) -> list[tuple[str, str, str]]:
        """Returns (giver, topic, taker) steps that end at a member with two fewer than the first one; empty = none."""
        searched: set[str] = set()
        for start in sorted(self._load, key=lambda m: (-self._load[m], m)):
            if start in searched:  # a more loaded member reached it, and from there nothing was found
                continue
            found = self._chain_from(start, searched)
            if found:
                return found
        return []

    def _chain_from(self, start: str, searched: set[str]) -> list[tuple[str, str, str]]:
        came: dict[str, tuple[str, str]] = {start: ("", "")}
        seen_topics: set[str] = set()
        waiting = deque([start])
        while waiting:
            giver = waiting.popleft()
            for topic_id in sorted(t for t, partitions in self._of[giver].items() if partitions):
                if topic_id in seen_topics:
                    continue
                seen_topics.add(topic_id)
                for taker in self._readers[topic_id]:
                    if taker in came:
                        continue
                    came[taker] = (giver, topic_id)
                    if self._load[taker] <= self._load[start] - 2:
                        return _steps(came, taker)
                    waiting.append(taker)
        searched.update(came)
        return []

    def _carry_out(self, chain: Sequence[tuple[str, str, str]]) -> None:
        for giver, topic_id, taker in chain:
            partition = self._of[giver][topic_id].pop()
            self._of[taker][topic_id].append(partition)
        self._load[chain[0][0]] -= 1
        self._load[chain[-1][2]] += 1


def _steps(came: Mapping[str, tuple[str, str]], end: str) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    taker = end
    while came[taker][0]:
        giver, topic_id = came[taker]
        found.append((giver, topic_id, taker))
        taker = giver
    found.reverse()
    return found
