"""`oncelog group ...`: groups with their members and committed offsets, how far behind they are, and moving them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oncelog.errors import InvalidGroupIdError, NonEmptyGroupError
from oncelog.types import PartitionId
from oncelog_cli.cluster.group_rows import (
    COLUMNS,
    LIST_COLUMNS,
    LIST_WIDE,
    MEMBER_COLUMNS,
    MEMBER_WIDE,
    WIDE,
    Described,
    described,
    heading,
    listing_row,
)
from oncelog_cli.terminal.argument_types import Place, UsageError, add_yes, confirm, matching, partition_of, place_of
from oncelog_cli.terminal.bulk import Outcome, each
from oncelog_cli.terminal.output import Printer, table
from oncelog_cli.terminal.parsing import Commands, Noun, add_watch
from oncelog_cli.terminal.session import watch, with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import GroupDescription, GroupListing, TopicDescription
    from oncelog.client.client import Client

_LAG_WORDS: Final = (
    "LAG is the number of records that a read_committed consumer of the group still gets: markers and aborted records\n"
    "do not count. The leader counts in at most 16 MiB of the log; further on every offset counts, and lag_is_exact\n"
    "(--format wide, json, yaml) says so. LOG-END-OFFSET is the last stable offset, where such a consumer's view ends.\n"
    "lag_offsets (same formats) counts every offset up to there, markers and aborted records too. So do the metrics\n"
    "oncelog_consumer_group_lag_..., except for markers at the very end, so they can be above 0 with no record left.\n"
    "LAG-TIME (--time) is the age of the first record that the group has not committed: this machine's clock less the\n"
    "record's timestamp, to the millisecond, and as right as that clock and the one that stamped the record: the\n"
    "producer's, or the broker's for a topic with append time. One batch is read of each partition with lag, which\n"
    "takes READ on its topic; a partition that gives none within 5 s has no LAG-TIME. The metric\n"
    "oncelog_consumer_group_lag_seconds reads nothing: it counts from when the broker was seen to have something new.\n"
    "A group that has had members, and has none, goes with its offsets after the coordinators' group_retention_ms:\n"
    "EXPIRES says when. While members are there, a partition without a committed offset is shown without a lag.\n"
    "HOST is empty: members tell no address."
)
_SEEK_WORDS: Final = (
    "Stop the group's consumers first. While the group has members this is refused (NON_EMPTY_GROUP), also with --dry-run;\n"
    "and a consumer that commits without being a member overwrites the offset with its next commit.\n"
    "Places: start, end, an offset, @TIME (ISO 8601, seconds or milliseconds), +N after the start, -N before the end\n"
    "(write --to=-5). An offset outside of what is kept becomes the nearest one that is."
)

_REMOVE_WORDS: Final = (
    "Their partitions go to other members at once, not when their sessions end. Stop the processes first: one that still\n"
    "runs learns it with its next heartbeat, stops reading, and joins again under a new id. It takes DELETE and DESCRIBE on\n"
    "the group, and stands in the audit log."
)


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("group", "list and describe groups, move and delete their offsets, remove members")
    listing = noun.verb(
        "list", _list, "groups that have members or offsets", ("oncelog group list", "oncelog group list --watch")
    )
    add_watch(listing)
    describe = noun.verb(
        "describe",
        _describe,
        "offsets, lag and members of groups",
        (
            "oncelog group describe billing",
            "oncelog group describe billing --members",
            "oncelog group describe --regex 'bill.*' --time --format json",
        ),
        _LAG_WORDS,
    )
    describe.add_argument("group", nargs="+")
    describe.add_argument("--members", action="store_true", help="show the members instead of the offsets")
    describe.add_argument(
        "--time", action="store_true", help="show the lag in time, too: reads one batch per partition"
    )
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
    _add_member_remove(noun)


def _add_member_remove(noun: Noun) -> None:
    remove = noun.verb(
        "member-remove",
        _member_remove,
        "end memberships of processes that are gone",
        (
            "oncelog group member-remove billing 7d0e5c9c-0b3c-4f0e-a5ab-1f0d7d3f0c11",
            "oncelog group member-remove billing --instance-id till-3",
            "oncelog group member-remove billing --all",
        ),
        _REMOVE_WORDS,
    )
    remove.add_argument("group")
    remove.add_argument("member", nargs="*", metavar="MEMBER-ID")
    remove.add_argument("--instance-id", action="append", default=[], metavar="ID", help="a static member; repeatable")
    remove.add_argument("--all", action="store_true", help="every member; asks first")
    add_yes(remove)


# ---------------------------------------------------------------- looking


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        def show(groups: list[GroupListing]) -> None:
            printer.rows([listing_row(group) for group in groups], LIST_COLUMNS, LIST_WIDE)

        await watch(args, client.admin.list_groups, show)
        return 0

    return with_client(args, run)


async def _found(client: Client, name: str) -> GroupDescription:
    """Raises `InvalidGroupIdError` for a group that has nothing."""
    group = await client.admin.describe_group(name)
    if not group.offsets and not group.pending and not group.group_epoch:
        raise InvalidGroupIdError("no such group has members or offsets; see `oncelog group list`", group=name)
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
            return [await _described(client, group, topics, with_times=args.time) for group in groups]

        await watch(args, look, lambda groups: _show(groups, args, printer))
        return 0

    return with_client(args, run)


async def _described(
    client: Client, group: GroupDescription, topics: list[TopicDescription], *, with_times: bool
) -> Described:
    committed = {PartitionId(item.topic_id, item.partition): item.offset for item in group.offsets}
    found = described(group, await client.admin.describe_partitions(topics, committed))
    if with_times:
        from oncelog_cli.cluster.group_lag_time import add_lag_times

        await add_lag_times(client, found["offsets"])
    return found


def _show(groups: list[Described], args: argparse.Namespace, printer: Printer) -> None:
    if not printer.is_text:
        printer.data(groups)
        return
    for number, group in enumerate(groups):
        if number:
            printer.text("")
        printer.text(heading(group))
        is_wide = printer.style == "wide"
        if args.members:
            printer.text(table(group["membership"], MEMBER_COLUMNS + (MEMBER_WIDE if is_wide else ())))
            continue
        printer.text(table(group["offsets"], _columns(is_wide=is_wide, with_times=args.time)))
        for item in group["pending"]:
            where = ", ".join(f"{topic}/{partition} at {offset}" for topic, partition, offset in item["offsets"])
            printer.text(f"\npending in transaction {item['txn_no']} of producer {item['txn_producer_id']}: {where}")


def _columns(*, is_wide: bool, with_times: bool) -> Sequence[str]:
    columns = COLUMNS + (WIDE if is_wide else ())
    if not with_times:
        return [name for name in columns if name != "lag_time_ms"]
    after = columns.index("lag") + 1
    return (*columns[:after], "lag_time_ms", *(name for name in columns[after:] if name != "lag_time_ms"))


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
        _require_no_members(group)
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


def _require_no_members(group: GroupDescription) -> None:
    """Raises `NonEmptyGroupError`. The coordinator refuses as well; this says it before anything is looked up."""
    if group.members:
        name = group.listing.group_id
        raise NonEmptyGroupError(
            f"members read on from where they are: stop them first (`oncelog group describe {name} --members` shows them)",
            group=name,
            members=len(group.members),
        )


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


def _member_remove(args: argparse.Namespace, printer: Printer) -> int:
    if args.all == bool(args.member or args.instance_id):
        raise UsageError("name members, or instance ids, or --all")

    async def run(client: Client) -> int:
        members = {m.member_id: m for m in (await _found(client, args.group)).members}
        wanted = list(members) if args.all else list(dict.fromkeys(args.member))
        if args.all and members:
            confirm(f"Remove {len(members)} members of {args.group}?", yes=args.yes)
            client.give_up_after(args.timeout_ms)  # the time for thinking does not count
        removed = await client.admin.remove_group_members(args.group, wanted, instance_ids=args.instance_id)
        instances = {member.instance_id for member in members.values()}
        missing = [name for name in wanted if name not in removed]
        missing += [name for name in dict.fromkeys(args.instance_id) if name not in instances]
        for name in missing:
            printer.complain(f"{args.group} has no member {name} (any more)")
        rows = [{"group": args.group, "member_id": name, "removed": True} for name in removed]
        printer.rows(rows, ("group", "member_id", "removed"))
        return 1 if missing else 0

    return with_client(args, run)
