"""Checks the subscription of a member, and finds the topics that it means.

Rule 1: every bound is checked where a membership begins or changes, and a refused subscription changes nothing.
Rule 2: a pattern means the topics that there are now; the cluster's own topics match no pattern and no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from oncelog.core.names import check_topic_name
from oncelog.errors import GroupMaxSizeReachedError, InvalidRequestError, PolicyViolationError
from oncelog_coordinator.core.groups.assigning.assignors import check_assignor
from oncelog_coordinator.core.groups.group_commands import Join
from oncelog_coordinator.core.groups.group_records import MemberRecord, Subscription
from oncelog_coordinator.core.groups.patterns import parse_pattern
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.topology import Topology

_MEMBER_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,64}\Z", re.ASCII)
_TEXT_BYTES_MAX: Final = 255


def check_member_id(member_id: str) -> None:
    """Raises `InvalidRequestError` unless this is a member id."""
    if not _MEMBER_ID.match(member_id):
        raise InvalidRequestError(
            "a member id is 1-64 characters of [a-zA-Z0-9._-], made by the client for one membership: a UUID is right",
            given=ascii(member_id[:64]),
        )


def check_join(join: Join, limits: Limits) -> None:
    """Raises the named error of the first thing that is wrong with a subscription."""
    wants = join.subscription
    if not wants.topics and not wants.pattern:
        raise InvalidRequestError("a member subscribes to topics by name, or by a pattern, or both")
    if wants.version < 1:
        raise InvalidRequestError("the versions of a subscription begin at 1", version=wants.version)
    if len(wants.topics) > limits.max_subscribed_topics:
        raise PolicyViolationError("too many topics in one subscription", limit=limits.max_subscribed_topics)
    for topic in wants.topics:
        check_topic_name(topic)
    if wants.pattern:
        parse_pattern(wants.pattern)
    if wants.assignor:
        check_assignor(wants.assignor)
    if not 0 <= wants.rebalance_timeout_ms <= limits.max_rebalance_timeout_ms:
        raise InvalidRequestError("rebalance_timeout_ms is out of range", limit_ms=limits.max_rebalance_timeout_ms)
    for name in ("instance_id", "rack", "client_id"):
        text = getattr(join.identity, name)
        if len(text.encode()) > _TEXT_BYTES_MAX or (text and not text.isprintable()):
            raise InvalidRequestError(f"{name} is at most {_TEXT_BYTES_MAX} bytes of printable text")


def require_room(member: MemberRecord, others: Iterable[MemberRecord], limits: Limits) -> None:
    """Raises unless the group may have this member beside the others, as far as their number and bytes go."""
    rest = [other for other in others if other.member_id != member.member_id]
    if len(rest) >= limits.group_max_size:
        raise GroupMaxSizeReachedError(
            "the group has as many members as the coordinators allow (group_max_size)", limit=limits.group_max_size
        )
    if member.size() + sum(other.size() for other in rest) > limits.max_group_bytes:
        raise PolicyViolationError(
            "the subscriptions of the group's members are too many bytes together: subscribe to fewer topics by name, "
            "or by a pattern",
            limit_bytes=limits.max_group_bytes,
        )
    patterns = {other.subscription.pattern for other in (*rest, member)} - {""}
    if len(patterns) > limits.max_group_patterns:
        raise PolicyViolationError(
            "the members of a group have too many different patterns", limit=limits.max_group_patterns
        )


class Meanings:
    """Finds the topics of subscriptions; each pattern is matched once.

    `number` counts the topologies that had other topics than the one before; `topology` may become one as of a newer
    revision with the same topics. `since` says for each topic id in which of them it came.
    """

    def __init__(self, topology: Topology, before: Meanings | None = None) -> None:
        self.topology = topology
        self.number: int = 1 if before is None else before.number + 1
        known: dict[str, int] = {} if before is None else before.since
        self.since: dict[str, int] = {topic_id: known.get(topic_id, self.number) for topic_id in topology.partitions}
        self._matched: dict[str, frozenset[str]] = {}

    def topics_of(self, wants: Subscription) -> frozenset[str]:
        """Returns the ids of the topics that a subscription means and that exist."""
        ids = self.topology.topic_ids
        named = frozenset(ids[topic] for topic in wants.topics if topic in ids)
        return named | self._matching(wants.pattern) if wants.pattern else named

    def _matching(self, text: str) -> frozenset[str]:
        if text not in self._matched:
            if len(self._matched) > 1_000:
                self._matched.clear()
            pattern = parse_pattern(text)
            found = (topic_id for name, topic_id in self.topology.topic_ids.items() if pattern.matches(name))
            self._matched[text] = frozenset(found)
        return self._matched[text]

    def partitions_of(self, members: Iterable[MemberRecord]) -> dict[str, int]:
        """Returns the topics that any of the members means: id -> partitions."""
        meant = frozenset[str]().union(*(self.topics_of(member.subscription) for member in members))
        return {topic_id: self.topology.partitions[topic_id] for topic_id in sorted(meant)}
