"""Assigns partitions to members: pure functions of subscriptions, topics, racks and the assignment before.

Rule 1: every partition of a topic that some member subscribes to is given to exactly one of its subscribers.
Rule 2: equal input gives equal output: members are taken in the order of their instance id, or else their member id.
Rule 3: `sticky` (the default) is balanced, and moves no partition that need not move; `range` gives each member
        neighbouring partitions of each topic; `round_robin` deals all partitions out one by one.
Rule 4: where racks are known, all of them prefer a member in a rack with a replica, within what balance allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.errors import UnsupportedAssignorError
from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.assigning.round_robin import round_robin
from oncelog_coordinator.core.groups.assigning.sticky import Subscriber, Where, sticky

Assignment = dict[str, frozenset[PartitionId]]
"""Member id -> its partitions."""
DEFAULT: Final = "sticky"


def assign(name: str, subscribers: Iterable[Subscriber], where: Where) -> Assignment:
    """Returns the partitions of each subscriber. Raises `UnsupportedAssignorError`."""
    check_assignor(name)
    return _ASSIGNORS[name](sorted(subscribers, key=lambda one: one.order), where)


def check_assignor(name: str) -> None:
    """Raises `UnsupportedAssignorError` unless there is an assignor of this name."""
    if name not in _ASSIGNORS:
        raise UnsupportedAssignorError(
            f"there is no such assignor: choose one of {', '.join(sorted(_ASSIGNORS))}", assignor=name[:64]
        )


def preferred(votes: Iterable[str]) -> str:
    """Returns the assignor that most members ask for; at a tie the first by name, without votes the default."""
    counts: dict[str, int] = {}
    for vote in votes:
        if vote:
            counts[vote] = counts.get(vote, 0) + 1
    return min(counts, key=lambda name: (-counts[name], name)) if counts else DEFAULT


# ---------------------------------------------------------------- range


@dataclass(slots=True)
class _Share:
    """The part of a topic that one member may still take."""

    member_id: str
    rack: str
    room: int


def _range(subscribers: Sequence[Subscriber], where: Where) -> Assignment:
    given: dict[str, list[PartitionId]] = {one.member_id: [] for one in subscribers}
    for topic_id, count in sorted(where.partitions.items()):
        interested = [one for one in subscribers if topic_id in one.topics]
        for member_id, partition in _ranges(interested, topic_id, count, where):
            given[member_id].append(partition)
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def _ranges(
    interested: Sequence[Subscriber], topic_id: str, count: int, where: Where
) -> Iterator[tuple[str, PartitionId]]:
    if not interested:
        return
    each, more = divmod(count, len(interested))
    shares = [_Share(one.member_id, one.rack, each + (at < more)) for at, one in enumerate(interested)]
    rest = [PartitionId(topic_id, number) for number in range(count)]
    if any(share.rack for share in shares) and where.racks:
        near = list(_near(shares, rest, where.racks))
        yield from near
        taken = {partition for _, partition in near}
        rest = [partition for partition in rest if partition not in taken]
    waiting = iter(rest)
    for share in shares:
        for _ in range(share.room):
            yield share.member_id, next(waiting)


def _near(
    shares: Sequence[_Share], partitions: Sequence[PartitionId], racks: Mapping[PartitionId, frozenset[str]]
) -> Iterator[tuple[str, PartitionId]]:
    """Yields the partitions that a member in a rack with a replica takes; the others are left."""
    for partition in partitions:
        at = racks.get(partition, frozenset())
        share = next((share for share in shares if share.room and share.rack in at), None)
        if share is not None:
            share.room -= 1
            yield share.member_id, partition


_ASSIGNORS: Final[dict[str, Callable[[Sequence[Subscriber], Where], Assignment]]] = {
    "range": _range,
    "round_robin": round_robin,
    "sticky": sticky,
}
NAMES: Final = tuple(_ASSIGNORS)
