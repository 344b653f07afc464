"""`oncelog group ...`: committed offsets of groups, how far behind they are, and moving them.

Groups have no members yet: each process that commits under a group's name counts as one, so CONSUMER-ID, HOST and
CLIENT-ID are empty.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Final, TypedDict

from oncelog.errors import InvalidGroupIdError
from oncelog.types import PartitionId
from oncelog_cli.terminal.argument_types import Place, UsageError, add_yes, confirm, matching, partition_of, place_of
from oncelog_cli.terminal.bulk import Outcome, each
from oncelog_cli.terminal.output import Printer, table
from oncelog_cli.terminal.parsing import Commands, Noun, add_watch
from oncelog_cli.terminal.session import watch, with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import (
        GroupDescription,
        GroupListing,
        GroupOffset,
        LogDescription,
        PendingOffsets,
        TopicDescription,
    )
    from oncelog.client.client import Client

COLUMNS: Final = (
    "group", "topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id", "host", "client_id",
)  # fmt: skip
WIDE: Final = ("lag_offsets", "lag_is_exact", "high_watermark", "committed_ms", "leader_epoch", "metadata", "topic_id")
_LIST_COLUMNS: Final = ("group", "state", "partitions", "open_transactions")
_LIST_WIDE: Final = ("coordinator", "group_shard")
_LAG_WORDS: Final = (
    "LAG is the number of records that a read_committed consumer of the group still gets: markers and aborted records\n"
    "do not count. The leader counts in at most 16 MiB of the log; further on every offset counts, and lag_is_exact\n"
    "(--format wide, json, yaml) says so. LOG-END-OFFSET is the last stable offset, where such a consumer's view ends.\n"
    "lag_offsets (same formats) counts every offset up to there, markers and aborted records too. So do the metrics\n"
    "oncelog_consumer_group_lag_..., except for markers at the very end, so they can be above 0 with no record left."
)
_SEEK_WORDS: Final = (
    "Stop the group's consumers first: the next commit of a running one overwrites the offset.\n"
    "Places: start, end, an offset, @TIME (ISO 8601, seconds or milliseconds), +N after the start, -N before the end\n"
    "(write --to=-5). An offset outside of what is kept becomes the nearest one that is."
)


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("group", "list, describe, move and delete committed offsets of groups")
    listing = noun.verb("list", _list, "groups that have offsets", ("oncelog group list", "oncelog group list --watch"))
    add_watch(listing)
    describe = noun.verb(
        "describe",
        _describe,
        "offsets and lag of groups",
        ("oncelog group describe billing", "oncelog group describe --regex 'bill.*' --format json"),
        _LAG_WORDS,
    )
    describe.add_argument("group", nargs="+")
    describe.add_argument("--regex", "-r", action="store_true", help="the names are regular expressions")
    add_watch(describe)
    _add_changes(noun)


def _add_changes(noun: Noun) -> None:
    seek = noun.verb(
        "seek",
        _seek,
        "move a group's committed offsets",
        (
            "oncelog group seek billing --to start --dry-run",
            "oncelog group seek billing orders orders-eu/3 --to @2026-01-31T12:00:00",
        ),
        _SEEK_WORDS,
    )
    seek.add_argument("group")
    seek.add_argument("partition", nargs="*", metavar="TOPIC[/PARTITION]", help="default: where it has offsets")
    seek.add_argument("--to", required=True, metavar="PLACE", help="start, end, OFFSET, @TIME, +N or -N")
    seek.add_argument("--dry-run", action="store_true", help="show, and change nothing")
    delete = noun.verb(
        "delete",
        _delete,
        "forget groups with all their offsets",
        ("oncelog group delete billing", "oncelog group delete -r 'test-.*' -y"),
    )
    delete.add_argument("group", nargs="+")
    delete.add_argument("--regex", "-r", action="store_true", help="the names are regular expressions; asks first")
    add_yes(delete)
    offsets = noun.verb(
        "offset-delete",
        _offset_delete,
        "forget some of a group's offsets",
        ("oncelog group offset-delete billing orders/0 orders/1", "oncelog group offset-delete billing orders"),
    )
    offsets.add_argument("group")
    offsets.add_argument("partition", nargs="+", metavar="TOPIC[/PARTITION]")


# ---------------------------------------------------------------- looking


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        def show(groups: list[GroupListing]) -> None:
            printer.rows([_listing_row(group) for group in groups], _LIST_COLUMNS, _LIST_WIDE)

        await watch(args, client.admin.list_groups, show)
        return 0

    return with_client(args, run)


def _listing_row(group: GroupListing) -> dict[str, object]:
    row = dataclasses.asdict(group)
    return {**row, "group": row.pop("group_id"), "partitions": row.pop("offsets")}


async def _found(client: Client, name: str) -> GroupDescription:
    """Raises `InvalidGroupIdError` for a group that has nothing."""
    group = await client.admin.describe_group(name)
    if not group.offsets and not group.pending:
        raise InvalidGroupIdError("no such group has offsets; see `oncelog group list`", group=name)
    return group


async def _names(client: Client, args: argparse.Namespace) -> list[str]:
    if not args.regex:
        return list(args.group)
    names = matching(args.group, [group.group_id for group in await client.admin.list_groups()])
    if not names:
        raise InvalidGroupIdError("no group matches; see `oncelog group list`", given=" ".join(args.group))
    return names


def _describe(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        async def look() -> list[Described]:
            groups = [await _found(client, name) for name in await _names(client, args)]
            topics = await client.admin.list_topics(internal=True)
            return [await _described(client, group, topics) for group in groups]

        await watch(args, look, lambda groups: _show(groups, printer))
        return 0

    return with_client(args, run)


class Pending(TypedDict):
    """Offsets that are committed together with a transaction that is still open; each is (topic, partition, offset)."""

    txn_producer_id: int
    txn_no: int
    txn_shard: int
    since_ms: int
    offsets: tuple[tuple[str, int, int], ...]


class Described(TypedDict):
    """One group with its committed offsets, as programs get it. `total_lag` None: the lag of a partition is not known."""

    group: str
    state: str
    coordinator: str
    members: int
    total_lag: int | None
    offsets: list[dict[str, object]]
    pending: list[Pending]


async def _described(client: Client, group: GroupDescription, topics: list[TopicDescription]) -> Described:
    committed = {PartitionId(item.topic_id, item.partition): item.offset for item in group.offsets}
    logs = await client.admin.describe_partitions(topics, committed)
    rows = [
        offset_row(group.listing.group_id, item, logs.get(PartitionId(item.topic_id, item.partition)))
        for item in group.offsets
    ]
    lags = [lag for row in rows if isinstance(lag := row["lag"], int)]
    return {
        "group": group.listing.group_id,
        "state": group.listing.state,
        "coordinator": group.listing.coordinator,
        "members": 0,
        "total_lag": sum(lags) if len(lags) == len(rows) else None,
        "offsets": rows,
        "pending": [_pending(item) for item in group.pending],
    }


def _pending(found: PendingOffsets) -> Pending:
    return {
        "txn_producer_id": found.txn_producer_id,
        "txn_no": found.txn_no,
        "txn_shard": found.txn_shard,
        "since_ms": found.since_ms,
        "offsets": found.offsets,
    }


def offset_row(group: str, item: GroupOffset, log: LogDescription | None) -> dict[str, object]:
    """One committed offset and its lag; without lag when the partition is gone or its leader does not answer."""
    row: dict[str, object] = {
        "group": group,
        "topic": item.topic,
        "partition": item.partition,
        "current_offset": item.offset,
        "log_end_offset": None,
        "lag": None,
        "consumer_id": item.member_id or None,
        "host": None,
        "client_id": None,
        **{name: getattr(item, name) for name in ("committed_ms", "leader_epoch", "metadata", "topic_id")},
        "lag_offsets": None,
        "lag_is_exact": None,
        "high_watermark": None,
    }
    if log is not None:
        end = log.last_stable_offset
        row["log_end_offset"], row["high_watermark"] = end, log.high_watermark
        row["lag_offsets"] = max(0, end - max(item.offset, log.log_start_offset))
        row["lag"] = log.records + max(0, end - max(log.counted_to, item.offset))
        row["lag_is_exact"] = log.counted_to >= end or item.offset >= end
    return {name: row[name] for name in (*COLUMNS, *WIDE)}


def _show(groups: list[Described], printer: Printer) -> None:
    if not printer.is_text:
        printer.data(groups)
        return
    for number, group in enumerate(groups):
        if number:
            printer.text("")
        lag = "-" if group["total_lag"] is None else group["total_lag"]
        printer.text(
            f"GROUP        {group['group']}\nCOORDINATOR  {group['coordinator']}\nSTATE        {group['state']}\n"
            f"MEMBERS      {group['members']}\nTOTAL-LAG    {lag}\n"
        )
        printer.text(table(group["offsets"], COLUMNS + (WIDE if printer.style == "wide" else ())))
        for item in group["pending"]:
            where = ", ".join(f"{topic}/{partition} at {offset}" for topic, partition, offset in item["offsets"])
            printer.text(f"\npending in transaction {item['txn_no']} of producer {item['txn_producer_id']}: {where}")


# ---------------------------------------------------------------- changes


async def _partitions(client: Client, words: list[str]) -> list[tuple[str, int]]:
    """The partitions that the command line names, each once. Raises `UnknownTopicError`."""
    chosen: dict[tuple[str, int], None] = {}
    for topic, number in map(partition_of, words):
        numbers = [number]
        if number is None:
            numbers = [p.partition for p in (await client.admin.describe_topic(topic)).partitions]
        chosen.update(((topic, n), None) for n in numbers if n is not None)
    return list(chosen)


def _seek(args: argparse.Namespace, printer: Printer) -> int:
    place = place_of(args.to)

    async def run(client: Client) -> int:
        group = await client.admin.describe_group(args.group)
        before = await _before(client, group)
        chosen = await _partitions(client, args.partition) if args.partition else list(before)
        if not chosen:
            raise UsageError(
                f"{args.group} has no offsets yet: name the topics, as in `group seek {args.group} orders`"
            )
        after = await _offsets(client, chosen, place)
        if not args.dry_run:
            await client.admin.set_group_offsets(args.group, after)
        rows = [
            {
                "group": args.group,
                "topic": topic,
                "partition": partition,
                "prior_offset": before.get((topic, partition)),
                "current_offset": offset,
                "dry_run": args.dry_run,
            }
            for (topic, partition), offset in after.items()
        ]
        printer.rows(rows, ("topic", "partition", "prior_offset", "current_offset"), ("group", "dry_run"))
        if args.dry_run and printer.is_text:
            printer.text("nothing was changed (--dry-run)")
        return 0

    return with_client(args, run)


async def _before(client: Client, group: GroupDescription) -> dict[tuple[str, int], int]:
    """Where the group stands, without the offsets of earlier topics of a name that is another topic's by now."""
    ids = {topic.name: topic.topic_id for topic in await client.admin.list_topics()}
    return {
        (item.topic, item.partition): item.offset
        for item in group.offsets
        if ids.get(item.topic, item.topic_id) == item.topic_id
    }


async def _offsets(client: Client, chosen: list[tuple[str, int]], place: Place) -> dict[tuple[str, int], int]:
    from oncelog_cli.terminal.offset_spec import offsets_at

    found = await offsets_at(client, chosen, place)
    if place.kind != "offset":
        return found
    starts = await offsets_at(client, chosen, Place("start"))
    ends = await offsets_at(client, chosen, Place("end"))
    return {where: min(max(offset, starts[where]), ends[where]) for where, offset in found.items()}


def _delete(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        names = await _names(client, args)
        if args.regex:
            confirm(f"Forget {len(names)} groups: {', '.join(names)}?", yes=args.yes)
            client.give_up_after(args.timeout_ms)  # the time for thinking does not count

        async def delete(name: str) -> Outcome:
            await _found(client, name)
            count = await client.admin.delete_group_offsets(name)
            return {"deleted_offsets": count}, f"{name} deleted ({count} offsets)"

        return await each(names, "group", delete, printer)

    return with_client(args, run)


def _offset_delete(args: argparse.Namespace, printer: Printer) -> int:
    wanted = [partition_of(word) for word in args.partition]

    async def run(client: Client) -> int:
        group = await _found(client, args.group)
        rows = []
        for item in group.offsets:
            if not any(topic == item.topic and number in (None, item.partition) for topic, number in wanted):
                continue
            count = await client.admin.delete_group_offsets(args.group, [PartitionId(item.topic_id, item.partition)])
            row = {"group": args.group, "topic": item.topic, "partition": item.partition, "offset": item.offset}
            rows.append({**row, "deleted": bool(count)})
        missing = [
            f"{topic}/{number}" if number is not None else topic
            for topic, number in wanted
            if not any(row["topic"] == topic and number in (None, row["partition"]) for row in rows)
        ]
        for name in missing:
            printer.complain(f"{args.group} has no offset on {name}")
        printer.rows(rows, ("group", "topic", "partition", "offset", "deleted"))
        return 1 if missing else 0

    return with_client(args, run)
