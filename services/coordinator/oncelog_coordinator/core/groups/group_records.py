"""The log records of a group with members: one for the group, and one for each membership.

Rule 1: the newest record of a key holds the whole state under it, so a replay needs no other record of the member.
Rule 2: the keys have the form of `EndedTransactions` with a negative producer id, which no transaction has. A coordinator of
        the previous version reads such a record as that, and leaves it alone: it can own the shard, and this version goes
        on with the groups afterwards (decision 0061).
Rule 3: a member has a slot, a number that the group gives once; the slot stands in the key, since a key has to begin with
        what the previous version knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from oncelog.core.malformed import MALFORMED, JsonObject
from oncelog.errors import CorruptMessageError
from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.states import MemberState
from oncelog_coordinator.core.sizes import text_bytes
from oncelog_coordinator.core.transactions.records import Tombstone, dump, parse

_PREFIX: Final = "ended:-"
_GROUP_SLOT: Final = 0
_DIGITS_MAX: Final = 18
_AS_ENDED: Final = {"up_to": 0, "shard": -1, "epoch": -1}
"""The fields that the previous version reads."""
_MEMBER_BYTES: Final = 600
"""Upper bound for the numbers and names of a member's record, without its texts and partitions."""

Epochs = Mapping[PartitionId, int]
"""Partition -> the epoch in which its member got it."""


def membership_key(slot: int, group_id: str) -> str:
    """Returns the key of a member's record, or of the group's own one (slot 0)."""
    return f"{_PREFIX}{slot + 1}:{group_id}"


def parse_membership_key(key: str) -> tuple[int, str] | None:
    """Returns (slot, group id); None for the key of another record."""
    if not key.startswith(_PREFIX):
        return None
    number, _, group_id = key.removeprefix(_PREFIX).partition(":")
    if not number.isdecimal() or not number.isascii() or len(number) > _DIGITS_MAX:
        return None
    return int(number) - 1, group_id


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group that has, or had, members.

    `topics`: the subscribed topics in this epoch, id -> partitions. `metadata`: (restored at, revision) of the cluster's
    metadata that they were taken from. `emptied_ms`: when the last member left; 0 = it has members.
    """

    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    slots: int = 0
    topics: Mapping[str, int] = field(default_factory=dict)
    metadata: tuple[int, int] = (0, 0)
    emptied_ms: int = 0

    @property
    def key(self) -> str:
        """One key per group."""
        return membership_key(_GROUP_SLOT, self.group_id)

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return dump(
            {
                **_AS_ENDED,
                "group": self.group_id,
                "pid": -1,
                "group_epoch": self.epoch,
                "assignment_epoch": self.assignment_epoch,
                "assignor": self.assignor,
                "slots": self.slots,
                "topics": dict(self.topics),
                "metadata": list(self.metadata),
                "emptied_ms": self.emptied_ms,
            }
        )


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member wants to read. `version` grows with each change of the member's."""

    version: int
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assignor: str = ""
    rebalance_timeout_ms: int = 0

    def size(self) -> int:
        """Returns an upper bound for its bytes in a record."""
        return (
            sum(text_bytes(topic) + 1 for topic in self.topics) + text_bytes(self.pattern) + text_bytes(self.assignor)
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """The fields of a member that its join fixes."""

    instance_id: str = ""
    rack: str = ""
    client_id: str = ""

    def size(self) -> int:
        """Returns an upper bound for its bytes in a record."""
        return text_bytes(self.instance_id) + text_bytes(self.rack) + text_bytes(self.client_id)


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """One membership, with its target and with what it owns.

    `previous_epoch`: the one that the member knew when it was given `epoch`; until it shows the new one, both are right.
    `number` counts the assignments that were given to the member; `assigned` is the last one. `revoking`: partitions that
    it has to let go, and owns until it says that it did. `left_ms`: when the membership ended; 0 = it has not.
    """

    group_id: str
    member_id: str
    slot: int
    identity: Identity = Identity()
    subscription: Subscription = Subscription(0)
    state: MemberState = MemberState.STABLE
    epoch: int = 0
    previous_epoch: int = 0
    number: int = 0
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)
    target: frozenset[PartitionId] = frozenset()
    left_ms: int = 0

    @property
    def key(self) -> str:
        """One key per membership."""
        return membership_key(self.slot, self.group_id)

    @property
    def order(self) -> str:
        """The place of the member among the others; a static one keeps it when it comes back."""
        return self.identity.instance_id or self.member_id

    @property
    def is_away(self) -> bool:
        """True for a static member that has left and may come back."""
        return self.state is MemberState.AWAY

    def owned(self) -> Iterable[PartitionId]:
        """Yields the partitions that no other member may have now."""
        yield from self.assigned
        yield from self.revoking

    def size(self) -> int:
        """Returns an upper bound for the bytes of the record, without partitions."""
        return _MEMBER_BYTES + text_bytes(self.group_id) * 2 + self.identity.size() + self.subscription.size()

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        wants = self.subscription
        return dump(
            {
                **_AS_ENDED,
                "group": self.group_id,
                "pid": -1 - self.slot,
                "member": self.member_id,
                "identity": [self.identity.instance_id, self.identity.rack, self.identity.client_id],
                "wants": [wants.version, list(wants.topics), wants.pattern, wants.assignor, wants.rebalance_timeout_ms],
                "state": self.state.value,
                "member_epoch": self.epoch,
                "previous_epoch": self.previous_epoch,
                "number": self.number,
                "assigned": _encoded(self.assigned),
                "revoking": _encoded(self.revoking),
                "target": _encoded(dict.fromkeys(self.target, 0)),
                "left_ms": self.left_ms,
            }
        )


def _encoded(epochs: Epochs) -> list[list[object]]:
    """Returns [topic id, epoch, partitions] lists: partitions mostly come many at a time."""
    found: dict[tuple[str, int], list[int]] = {}
    for partition, epoch in sorted(epochs.items()):
        found.setdefault((partition.topic_id, epoch), []).append(partition.partition)
    return [[topic_id, epoch, numbers] for (topic_id, epoch), numbers in found.items()]


def _decoded(items: Any) -> dict[PartitionId, int]:
    return {PartitionId(topic_id, number): epoch for topic_id, epoch, numbers in items for number in numbers}


def _group(value: JsonObject) -> GroupRecord:
    restored, revision = value["metadata"]
    return GroupRecord(
        group_id=value["group"],
        epoch=value["group_epoch"],
        assignment_epoch=value["assignment_epoch"],
        assignor=value["assignor"],
        slots=value["slots"],
        topics=dict(value["topics"]),
        metadata=(restored, revision),
        emptied_ms=value["emptied_ms"],
    )


def _member(value: JsonObject) -> MemberRecord:
    version, topics, pattern, assignor, timeout_ms = value["wants"]
    return MemberRecord(
        group_id=value["group"],
        member_id=value["member"],
        slot=-1 - value["pid"],
        identity=Identity(*value["identity"]),
        subscription=Subscription(version, tuple(topics), pattern, assignor, timeout_ms),
        state=MemberState(value["state"]),
        epoch=value["member_epoch"],
        previous_epoch=value["previous_epoch"],
        number=value["number"],
        assigned=_decoded(value["assigned"]),
        revoking=_decoded(value["revoking"]),
        target=frozenset(_decoded(value["target"])),
        left_ms=value["left_ms"],
    )


MembershipRecord = GroupRecord | MemberRecord | Tombstone


def decode_membership_record(key: str, value: bytes | None) -> MembershipRecord:
    """Decodes a record. Raises `CorruptMessageError` for one that this version cannot read."""
    if value is None:
        return Tombstone(key)
    try:
        fields = parse(value)
        record: GroupRecord | MemberRecord = _group(fields) if fields["pid"] == -1 else _member(fields)
    except MALFORMED as error:
        raise CorruptMessageError("a record of a group's members cannot be read", key=key) from error
    if record.key != key:
        raise CorruptMessageError("a record of a group's members has another key than its value says", key=key)
    return record
