"""Makes rows of a group, as the command line shows them: its offsets with lag and reader, and its members. Pure functions.

Rule: a partition that a member has is shown although nothing is committed for it; then its offset and lag are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypedDict

from oncelog.types import PartitionId, TopicPartition
from oncelog_cli.terminal.output import moment

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import (
        GroupDescription,
        GroupListing,
        GroupMemberDescription,
        GroupOffset,
        LogDescription,
        PendingOffsets,
    )

Row = dict[str, object]
COLUMNS: Final = (
    "group", "topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id", "host", "client_id",
)  # fmt: skip
WIDE: Final = (
    "lag_time_ms", "lag_offsets", "lag_is_exact", "high_watermark", "committed_ms", "leader_epoch", "metadata", "topic_id",
)  # fmt: skip
MEMBER_COLUMNS: Final = (
    "group", "member_id", "instance_id", "client_id", "rack", "state", "member_epoch", "partitions", "assigned",
)  # fmt: skip
MEMBER_WIDE: Final = ("topics", "pattern", "revoking", "target")
LIST_COLUMNS: Final = ("group", "state", "members", "partitions", "open_transactions")
LIST_WIDE: Final = ("coordinator", "group_shard")


class Pending(TypedDict):
    """Offsets that are committed together with a transaction that is still open; each is (topic, partition, offset)."""

    txn_producer_id: int
    txn_no: int
    txn_shard: int
    since_ms: int
    offsets: tuple[tuple[str, int, int], ...]


class Described(TypedDict):
    """One group, as programs get it. `total_lag` None: the lag of a partition is not known.

    `expires_ms` None: the group does not expire. `members` is their number, and `membership` has a row for each.
    """

    group: str
    state: str
    coordinator: str
    members: int
    group_epoch: int
    assignment_epoch: int
    assignor: str
    expires_ms: int | None
    total_lag: int | None
    offsets: list[Row]
    membership: list[Row]
    pending: list[Pending]


def described(group: GroupDescription, logs: Mapping[PartitionId, LogDescription]) -> Described:
    """A group with the lag that follows from what the leaders say of its partitions."""
    name, readers = group.listing.group_id, _readers(group.members)
    rows = [
        offset_row(
            name,
            item,
            logs.get(PartitionId(item.topic_id, item.partition)),
            readers.pop(TopicPartition(item.topic, item.partition), None),
        )
        for item in group.offsets
    ]
    rows += [
        _uncommitted_row(name, where, reader) for where, reader in sorted(readers.items(), key=lambda pair: pair[0])
    ]
    lags = [lag for row in rows if isinstance(lag := row["lag"], int)]
    return {
        "group": name,
        "state": group.listing.state,
        "coordinator": group.listing.coordinator,
        "members": len(group.members),
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "expires_ms": group.expires_ms,
        "total_lag": sum(lags) if len(lags) == len(rows) else None,
        "offsets": rows,
        "membership": [member_row(name, member) for member in group.members],
        "pending": [_pending(item) for item in group.pending],
    }


def _readers(members: Iterable[GroupMemberDescription]) -> dict[TopicPartition, GroupMemberDescription]:
    """Partition -> its member; one that has to let it go has it until it did."""
    return {where: member for member in members for where in (*member.assigned, *member.revoking)}


def offset_row(
    group: str, item: GroupOffset, log: LogDescription | None, reader: GroupMemberDescription | None = None
) -> Row:
    """One committed offset and its lag; without lag when the partition is gone or its leader does not answer."""
    row: Row = {
        **dict.fromkeys((*COLUMNS, *WIDE)),
        "group": group,
        "topic": item.topic,
        "partition": item.partition,
        "current_offset": item.offset,
        "consumer_id": item.member_id or None,
        **{name: getattr(item, name) for name in ("committed_ms", "leader_epoch", "metadata", "topic_id")},
        **_of_reader(reader),
    }
    if log is not None:
        end = log.last_stable_offset
        row["log_end_offset"], row["high_watermark"] = end, log.high_watermark
        row["lag_offsets"] = max(0, end - max(item.offset, log.log_start_offset))
        row["lag"] = log.records + max(0, end - max(log.counted_to, item.offset))
        row["lag_is_exact"] = log.counted_to >= end or item.offset >= end
    return row


def _uncommitted_row(group: str, where: TopicPartition, reader: GroupMemberDescription) -> Row:
    return {
        **dict.fromkeys((*COLUMNS, *WIDE)),
        "group": group,
        "topic": where.topic,
        "partition": where.partition,
        **_of_reader(reader),
    }


def _of_reader(reader: GroupMemberDescription | None) -> Row:
    return {} if reader is None else {"consumer_id": reader.member_id, "client_id": reader.client_id or None}


def member_row(group: str, member: GroupMemberDescription) -> Row:
    """One member with what it reads."""
    return {
        "group": group,
        "member_id": member.member_id,
        "instance_id": member.instance_id or None,
        "client_id": member.client_id or None,
        "rack": member.rack or None,
        "state": member.state,
        "member_epoch": member.epoch,
        "partitions": len(member.assigned),
        "assigned": _words(member.assigned),
        "topics": list(member.topics),
        "pattern": member.pattern or None,
        "revoking": _words(member.revoking),
        "target": _words(member.target),
    }


def _words(partitions: Iterable[TopicPartition]) -> list[str]:
    """As the command line takes them."""
    return [f"{topic}/{partition}" for topic, partition in partitions]


def _pending(found: PendingOffsets) -> Pending:
    return {
        "txn_producer_id": found.txn_producer_id,
        "txn_no": found.txn_no,
        "txn_shard": found.txn_shard,
        "since_ms": found.since_ms,
        "offsets": found.offsets,
    }


def listing_row(group: GroupListing) -> Row:
    """One group of a list."""
    return {
        "group": group.group_id,
        "state": group.state,
        "members": group.members,
        "partitions": group.offsets,
        "open_transactions": group.open_transactions,
        "coordinator": group.coordinator,
        "group_shard": group.group_shard,
    }


def heading(group: Described) -> str:
    """The lines above the table, for people."""
    lines = {
        "GROUP": group["group"],
        "COORDINATOR": group["coordinator"],
        "STATE": group["state"],
        "MEMBERS": group["members"],
        "TOTAL-LAG": "-" if group["total_lag"] is None else group["total_lag"],
    }
    if group["members"]:
        epochs = f"{group['group_epoch']} (assigned: {group['assignment_epoch']})"
        lines |= {"ASSIGNOR": group["assignor"], "EPOCH": epochs}
    if group["expires_ms"] is not None:
        lines["EXPIRES"] = f"{moment(group['expires_ms'])} at the earliest, with its offsets, unless somebody uses it"
    return "\n".join(f"{name:<12} {value}" for name, value in lines.items()) + "\n"
