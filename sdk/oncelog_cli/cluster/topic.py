"""`oncelog topic ...`: create, list, describe, alter, trim and delete topics."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict

from oncelog.errors import OncelogError, UnknownTopicError
from oncelog.types import PartitionId
from oncelog_cli.terminal.argument_types import UsageError, add_yes, confirm, id_of, matching, options_of, place_of
from oncelog_cli.terminal.bulk import Outcome, each
from oncelog_cli.terminal.output import Printer, duration, table
from oncelog_cli.terminal.parsing import Commands, Noun, add_watch
from oncelog_cli.terminal.session import watch, with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import LogDescription, TopicDescription
    from oncelog.client.client import Client

PARTITION_COLUMNS: Final = (
    "partition", "leader", "epoch", "replicas", "isr", "log_start_offset", "last_stable_offset", "high_watermark",
    "log_end_offset",
)  # fmt: skip
PARTITION_WIDE: Final = ("open_transactions", "size_bytes", "min_insync_replicas")
_LIST_COLUMNS: Final = ("topic", "partitions", "replicas", "leaderless", "under_replicated")
_LIST_WIDE: Final = ("internal", "topic_id", "config")
_CONFIG_COLUMNS: Final = ("name", "value", "source")
_CONFIG_WIDE: Final = ("default_value", "legal")
_CONFIG_HELP: Final = "may be repeated; spans and sizes may have units: retention_ms=7d, segment_bytes=1GiB"


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("topic", "create, list, describe, alter, delete topics")
    _add_create(noun)
    _add_looks(noun)
    _add_changes(noun)
    delete = noun.verb(
        "delete",
        _delete,
        "delete topics and their records",
        ("oncelog topic delete orders", "oncelog topic delete --regex 'test-.*' --yes"),
    )
    delete.add_argument("topic", nargs="+")
    delete.add_argument("--regex", "-r", action="store_true", help="the names are regular expressions; asks first")
    add_yes(delete)


def _add_create(noun: Noun) -> None:
    create = noun.verb(
        "create",
        _create,
        "create topics",
        (
            "oncelog topic create orders --partitions 6",
            "oncelog topic create audit payments --partitions 3 --config flush_mode=fsync --config retention_ms=-1",
            "oncelog topic create clicks -c retention_ms=7d -c segment_bytes=1GiB",
        ),
    )
    create.add_argument("topic", nargs="+")
    create.add_argument("--partitions", "-p", type=id_of, default=1, help="default 1")
    create.add_argument("--replication-factor", "-r", type=id_of, default=0, help="0 = the cluster's default")
    create.add_argument("--config", "-c", action="append", default=[], metavar="NAME=VALUE", help=_CONFIG_HELP)
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is fine")


def _add_looks(noun: Noun) -> None:
    listing = noun.verb(
        "list", _list, "list topics", ("oncelog topic list", "oncelog topic list --regex 'order.*' --format wide")
    )
    listing.add_argument("topic", nargs="*", help="only these")
    listing.add_argument("--regex", "-r", action="store_true", help="the names are regular expressions")
    listing.add_argument("--internal", action="store_true", help="the cluster's own topics too")
    add_watch(listing)
    describe = noun.verb(
        "describe",
        _describe,
        "summary, options and partitions of topics",
        ("oncelog topic describe orders", "oncelog topic describe orders --partitions --watch --format wide"),
        "Without one of --summary, --configs and --partitions: all three.",
    )
    describe.add_argument("topic", nargs="+")
    describe.add_argument("--regex", "-r", action="store_true", help="the names are regular expressions")
    describe.add_argument("--summary", "-s", action="store_true", help="name, id, numbers")
    describe.add_argument("--configs", "-c", action="store_true", help="every option, and where its value comes from")
    describe.add_argument("--partitions", "-p", action="store_true", help="leaders, replicas and offsets")
    add_watch(describe)


def _add_changes(noun: Noun) -> None:
    alter = noun.verb(
        "alter-config",
        _alter_config,
        "set and unset options of topics; in force at once, without restart",
        (
            "oncelog topic alter-config orders --set retention_ms=1d --set max_message_bytes=2MiB",
            "oncelog topic alter-config orders audit --unset retention_ms --dry-run",
        ),
    )
    alter.add_argument("topic", nargs="+")
    alter.add_argument("--set", "-s", action="append", default=[], metavar="NAME=VALUE", help=_CONFIG_HELP)
    alter.add_argument("--unset", "-d", action="append", default=[], metavar="NAME", help="back to the default")
    alter.add_argument("--dry-run", action="store_true", help="check, and change nothing")
    grow = noun.verb(
        "add-partitions",
        _add_partitions,
        "add partitions to topics",
        ("oncelog topic add-partitions orders --num 3", "oncelog topic add-partitions orders audit --total 12"),
        "Keys go to other partitions from then on; there are never fewer partitions again.",
    )
    grow.add_argument("topic", nargs="+")
    grow.add_argument("--num", "-n", type=id_of, help="how many more")
    grow.add_argument("--total", type=id_of, help="how many in total; safe to repeat")
    trim = noun.verb(
        "trim-prefix",
        _trim_prefix,
        "delete the oldest records of a topic",
        (
            "oncelog topic trim-prefix orders --offset @2026-01-31T00:00:00",
            "oncelog topic trim-prefix orders --offset 1500 --partitions 0 --yes",
        ),
    )
    trim.add_argument("topic")
    trim.add_argument("--offset", "-o", required=True, help="first record to keep: an offset, end, @TIME, +N or -N")
    trim.add_argument("--partitions", "-p", type=id_of, action="append", help="may be repeated; default: all")
    add_yes(trim)


# ---------------------------------------------------------------- create, list, delete


def _create(args: argparse.Namespace, printer: Printer) -> int:
    config = options_of(args.config, "--config")

    async def run(client: Client) -> int:
        async def create(name: str) -> Outcome:
            made = await client.admin.create_topic(
                name,
                partitions=args.partitions,
                replication_factor=args.replication_factor,
                config=config,
                if_not_exists=args.if_not_exists,
            )
            verb = "created" if made.created else "existed already"
            return {"topic_id": made.topic_id, "created": made.created}, f"{name} {verb}"

        return await each(args.topic, "topic", create, printer)

    return with_client(args, run)


async def _chosen(client: Client, args: argparse.Namespace, *, internal: bool) -> list[TopicDescription]:
    """The topics that the command line names. Raises `UnknownTopicError`."""
    topics = await client.admin.list_topics(internal=internal or not args.regex)
    if args.regex:
        names = matching(args.topic, (topic.name for topic in topics))
        if not names:
            raise UnknownTopicError("no topic matches; see `oncelog topic list`", given=" ".join(args.topic))
        return [topic for topic in topics if topic.name in names]
    known = {topic.name: topic for topic in topics}
    return [known[name] if name in known else await client.admin.describe_topic(name) for name in args.topic]


def topic_row(topic: TopicDescription) -> dict[str, object]:
    """One line of a list of topics."""
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(p.replicas) for p in topic.partitions), default=0),
        "leaderless": sum(p.leader is None for p in topic.partitions),
        "under_replicated": sum(not p.fully_in_sync for p in topic.partitions),
        "internal": topic.internal,
        "topic_id": topic.topic_id,
        "config": dict(topic.config),
    }


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        async def look() -> list[dict[str, object]]:
            if args.topic:
                topics = await _chosen(client, args, internal=args.internal)
            else:
                topics = await client.admin.list_topics(internal=args.internal)
            return [topic_row(topic) for topic in topics]

        await watch(args, look, lambda rows: printer.rows(rows, _LIST_COLUMNS, _LIST_WIDE))
        return 0

    return with_client(args, run)


def _delete(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        names = args.topic
        if args.regex:
            names = [topic.name for topic in await _chosen(client, args, internal=False)]
            confirm(f"Delete {len(names)} topics with all their records: {', '.join(names)}?", yes=args.yes)
            client.give_up_after(args.timeout_ms)  # the time for thinking does not count

        async def delete(name: str) -> Outcome:
            await client.admin.delete_topic(name)
            return {"deleted": True}, f"{name} deleted"

        return await each(names, "topic", delete, printer)

    return with_client(args, run)


# ---------------------------------------------------------------- describe


def partition_rows(topic: TopicDescription, logs: Mapping[PartitionId, LogDescription]) -> list[dict[str, object]]:
    """Lines of a topic's partitions; offsets of one whose leader does not answer are missing."""
    rows = []
    for p in topic.partitions:
        log = logs.get(PartitionId(topic.topic_id, p.partition))
        rows.append(
            {
                "topic": topic.name,
                "partition": p.partition,
                "leader": p.leader,
                "epoch": p.leader_epoch,
                "replicas": p.replicas,
                "isr": p.isr,
                **({} if log is None else {name: getattr(log, name) for name in (*_OFFSETS, *PARTITION_WIDE)}),
            }
        )
    return rows


_OFFSETS: Final = PARTITION_COLUMNS[5:]


class Described(TypedDict):
    """The answer of `topic describe` about one topic: of its three parts those that were asked for."""

    topic: str
    summary: NotRequired[dict[str, object]]
    configs: NotRequired[list[dict[str, str]]]
    partitions: NotRequired[list[dict[str, object]]]


def _describe(args: argparse.Namespace, printer: Printer) -> int:
    everything = not (args.summary or args.configs or args.partitions)

    async def run(client: Client) -> int:
        async def look() -> list[Described]:
            topics = await _chosen(client, args, internal=True)
            logs = await client.admin.describe_partitions(topics) if everything or args.partitions else {}
            return [await described(topic, logs) for topic in topics]

        async def described(topic: TopicDescription, logs: Mapping[PartitionId, LogDescription]) -> Described:
            found: Described = {"topic": topic.name}
            if everything or args.summary:
                row = topic_row(topic)
                found["summary"] = {name: row[name] for name in ("internal", "topic_id", *_LIST_COLUMNS[1:])}
            if everything or args.configs:
                found["configs"] = [dataclasses.asdict(c) for c in await client.admin.topic_configs(topic.name)]
            if everything or args.partitions:
                names = (*PARTITION_COLUMNS, *PARTITION_WIDE)
                rows = partition_rows(topic, logs)
                found["partitions"] = [{name: row.get(name) for name in names} for row in rows]
            return found

        await watch(args, look, lambda found: _show(found, printer))
        return 0

    return with_client(args, run)


def _show(topics: list[Described], printer: Printer) -> None:
    if not printer.is_text:
        printer.data(topics)
        return
    wide = printer.style == "wide"
    for number, topic in enumerate(topics):
        parts = [f"{chr(10) if number else ''}TOPIC  {topic['topic']}"]
        if "summary" in topic:
            parts.append(
                "\n".join(f"{name.upper().replace('_', '-'):16}  {_text(v)}" for name, v in topic["summary"].items())
            )
        if "configs" in topic:
            parts.append(
                table([_readable(row) for row in topic["configs"]], _CONFIG_COLUMNS + (_CONFIG_WIDE if wide else ()))
            )
        if "partitions" in topic:
            parts.append(table(topic["partitions"], PARTITION_COLUMNS + (PARTITION_WIDE if wide else ())))
        printer.text("\n\n".join(parts))


def _text(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _readable(row: dict[str, str]) -> dict[str, str]:
    """An option as people read it: a span of time beside its milliseconds."""
    value = row["value"]
    if row["name"].endswith("_ms") and value.isdigit():
        return {**row, "value": f"{value} ({duration(int(value))})"}
    return row


# ---------------------------------------------------------------- changes


def _alter_config(args: argparse.Namespace, printer: Printer) -> int:
    changes = options_of(args.set, "--set")
    if not changes and not args.unset:
        raise UsageError("say what to change: --set NAME=VALUE or --unset NAME")

    async def run(client: Client) -> int:
        async def alter(name: str) -> Outcome:
            after = await client.admin.alter_topic(name, config=changes, unset=args.unset, validate_only=args.dry_run)
            verb = "would change" if args.dry_run else "changed"
            row = {"changed": after.changed and not args.dry_run, "dry_run": args.dry_run, "config": dict(after.config)}
            return row, f"{name} {verb}" if after.changed else f"{name} needs no change"

        return await each(args.topic, "topic", alter, printer)

    return with_client(args, run)


def _add_partitions(args: argparse.Namespace, printer: Printer) -> int:
    if (args.num is None) == (args.total is None) or (args.num is not None and args.num < 1):
        raise UsageError("say how many: --num N (1 and up) more, or --total N in all")

    async def run(client: Client) -> int:
        async def grow(name: str) -> Outcome:
            before = len((await client.admin.describe_topic(name)).partitions)
            after = await client.admin.add_partitions(name, args.total if args.num is None else before + args.num)
            row: dict[str, object] = {
                "partitions_before": before,
                "partitions": after.partitions,
                "changed": after.changed,
            }
            return row, f"{name} has {after.partitions} partitions (before: {before})"

        return await each(args.topic, "topic", grow, printer)

    return with_client(args, run)


def _trim_prefix(args: argparse.Namespace, printer: Printer) -> int:
    place = place_of(args.offset)
    if place.kind == "start":
        raise UsageError("nothing lies before the start; name the first record to keep")

    async def run(client: Client) -> int:
        from oncelog_cli.terminal.offset_spec import offsets_at

        topic = await client.admin.describe_topic(args.topic)
        chosen = args.partitions or [p.partition for p in topic.partitions]
        offsets = await offsets_at(client, [(args.topic, p) for p in chosen], place)
        many = ", ".join(f"{partition} below {offset}" for (_, partition), offset in offsets.items())
        confirm(f"Delete records of {args.topic}, in partition {many}? They cannot be brought back.", yes=args.yes)
        client.give_up_after(args.timeout_ms)  # the time for thinking does not count
        rows: list[dict[str, object]] = []
        for (_, partition), offset in offsets.items():
            row: dict[str, object] = {"topic": args.topic, "partition": partition}
            try:
                row["log_start_offset"] = await client.admin.delete_records(args.topic, partition, offset)
            except OncelogError as error:  # the partitions that were trimmed before are reported all the same
                row["error"] = error.code.name
                printer.complain(f"error {error.code.name}: partition {partition}: {error}")
            rows.append(row)
        failed = any("error" in row for row in rows)
        printer.rows(rows, ("topic", "partition", "log_start_offset", *(("error",) if failed else ())))
        return 1 if failed else 0

    return with_client(args, run)
