"""`oncelog partition ...`: where partitions stand, and which of them are in trouble."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Final

from oncelog_cli.cluster.partition_elect import add_elect
from oncelog_cli.cluster.topic import PARTITION_WIDE, partition_rows
from oncelog_cli.terminal.argument_types import UsageError, id_of, partition_of
from oncelog_cli.terminal.bulk import Outcome, each
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands, Noun, add_watch
from oncelog_cli.terminal.session import watch, with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import PartitionDescription, Reassignment, TopicDescription
    from oncelog.client.client import Client

COLUMNS: Final = ("topic", "partition", "leader", "epoch", "replicas", "isr", "problems")
WIDE: Final = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset", *PARTITION_WIDE)


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("partition", "list partitions and move their leaders and replicas")
    listing = noun.verb(
        "list",
        _list,
        "partitions with leader, replicas and what is wrong",
        (
            "oncelog partition list --under-replicated --leaderless",
            "oncelog partition list --topic orders --format wide",
        ),
        "With several filters: partitions to which any of them applies. Exit code 1 when a filter finds some.",
    )
    listing.add_argument("--topic", action="append", default=[], help="may be repeated; default: all, internal too")
    listing.add_argument("--under-replicated", action="store_true", help="a replica is not in sync")
    listing.add_argument("--leaderless", action="store_true", help="it has no leader")
    listing.add_argument("--under-min-isr", action="store_true", help="acks=all is refused: too few are in sync")
    add_watch(listing)
    _add_moves(noun)
    add_elect(noun)


def _list(args: argparse.Namespace, printer: Printer) -> int:
    flags = {
        "under-replicated": args.under_replicated,
        "leaderless": args.leaderless,
        "under-min-isr": args.under_min_isr,
    }
    wanted = [name for name, chosen in flags.items() if chosen]

    async def run(client: Client) -> int:
        async def look() -> list[dict[str, object]]:
            topics = await client.admin.list_topics(internal=True)
            if args.topic:
                topics = [await client.admin.describe_topic(name) for name in args.topic]
            offsets = not printer.is_text or printer.style == "wide"
            return await _rows(client, topics, frozenset(wanted), offsets=offsets)

        seen = await watch(args, look, lambda rows: printer.rows(rows, COLUMNS, WIDE))
        return 1 if wanted and seen else 0

    return with_client(args, run)


async def _rows(
    client: Client, topics: list[TopicDescription], wanted: frozenset[str], *, offsets: bool
) -> list[dict[str, object]]:
    """Returns one row per partition; with `wanted` only those that have one of these problems."""
    logs = await client.admin.describe_partitions(topics) if offsets else {}
    minimum = await client.admin.min_insync_replicas(topics)
    rows: list[dict[str, object]] = []
    for topic in topics:
        for p, row in zip(topic.partitions, partition_rows(topic, logs), strict=True):
            least = min(minimum[topic.name], len(p.replicas))
            problems = _problems(p, least)
            if not wanted or not wanted.isdisjoint(problems):
                rows.append({**row, "problems": problems, "min_insync_replicas": least})
    return rows


def _problems(partition: PartitionDescription, least: int) -> list[str]:
    """Names what is wrong with a partition; `least`: how many replicas have to be in sync."""
    checks = {
        "leaderless": partition.leader is None,
        "under-min-isr": len(partition.isr) < least,
        "under-replicated": len(partition.isr) < len(partition.replicas),
    }
    return [name for name, holds in checks.items() if holds]


# ---------------------------------------------------------------- moving


def _add_moves(noun: Noun) -> None:
    transfer = noun.verb(
        "transfer-leadership",
        _transfer,
        "let another in-sync replica lead",
        ("oncelog partition transfer-leadership orders/0 --to 2",),
        "The leader goes back to the preferred replica (the first of REPLICAS) within 30 s; `reassign` changes the order.",
    )
    transfer.add_argument("partition", nargs="+", metavar="TOPIC/PARTITION")
    transfer.add_argument("--to", type=id_of, required=True, metavar="NODE", help="id of the broker that is to lead")
    reassign = noun.verb(
        "reassign",
        _reassign,
        "move replicas to other brokers, or cancel that",
        (
            "oncelog partition reassign orders/0=1,2,3 orders/1=2,3,1 --wait",
            "oncelog partition reassign orders/0 --cancel",
        ),
        "New replicas are in sync before old ones leave. The first broker is the preferred leader.",
    )
    reassign.add_argument("move", nargs="+", metavar="TOPIC/PARTITION=NODE,...")
    reassign.add_argument(
        "--cancel", action="store_true", help="go back to the replicas from before; give no =NODE,..."
    )
    reassign.add_argument("--wait", action="store_true", help="return when the moves are done")
    moves = noun.verb(
        "moves",
        _moves,
        "moves of replicas that are under way",
        ("oncelog partition moves --watch",),
        "`left`: offsets that the new replica furthest behind still lacks; empty while its leader does not say.",
    )
    add_watch(moves)


def _one(text: str) -> tuple[str, int]:
    topic, number = partition_of(text)
    if number is None:
        raise UsageError(f"name one partition, for example {topic}/0")
    return topic, number


def _transfer(args: argparse.Namespace, printer: Printer) -> int:
    wanted = {text: _one(text) for text in args.partition}

    async def run(client: Client) -> int:
        async def transfer(text: str) -> Outcome:
            topic, partition = wanted[text]
            await client.admin.transfer_leadership(topic, partition, args.to)
            return {"leader": args.to}, f"{text} is led by {args.to}"

        return await each(wanted, "partition", transfer, printer)

    return with_client(args, run)


def _targets(args: argparse.Namespace) -> dict[tuple[str, int], tuple[int, ...]]:
    """Raises `UsageError`."""
    found: dict[tuple[str, int], tuple[int, ...]] = {}
    for word in args.move:
        name, equals, nodes = word.partition("=")
        understood = bool(equals) != args.cancel and bool(nodes) != args.cancel
        try:
            numbers = tuple(map(id_of, nodes.split(","))) if nodes else ()
        except argparse.ArgumentTypeError:
            numbers, understood = (), False
        if not understood:
            raise UsageError(
                "write TOPIC/PARTITION=NODE,NODE,... to move, or TOPIC/PARTITION with --cancel; not " + word
            )
        found[_one(name)] = numbers
    return found


def _reassign(args: argparse.Namespace, printer: Printer) -> int:
    targets = _targets(args)

    async def run(client: Client) -> int:
        refused = {(item.topic, item.partition): item.error for item in await client.admin.reassign_partitions(targets)}
        if args.wait:
            await _until_moved(client, set(targets) - set(refused))
        verb = "cancelled" if args.cancel else "moved" if args.wait else "moving"
        rows = [
            {
                "topic": topic,
                "partition": partition,
                "target": nodes,
                "result": verb if (topic, partition) not in refused else str(refused[topic, partition]),
                "error": refused[topic, partition].code.name if (topic, partition) in refused else None,
            }
            for (topic, partition), nodes in targets.items()
        ]
        printer.rows(rows, ("topic", "partition", "target", "result"), ("error",))
        return 1 if refused else 0

    return with_client(args, run, lasting=args.wait)


async def _until_moved(client: Client, partitions: set[tuple[str, int]]) -> None:
    """Two looks without a move: the first one may be of a broker that has not heard of it yet."""
    import asyncio

    quiet = 0
    while quiet < 2:
        under_way = {(move.topic, move.partition) for move in await client.admin.list_reassignments()}
        quiet = 0 if under_way & partitions else quiet + 1
        await asyncio.sleep(0.5)


def _moves(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        async def look() -> list[dict[str, object]]:
            moves = await client.admin.list_reassignments()
            left = await _left(client, moves)
            return [dataclasses.asdict(move) | {"left": left.get((move.topic, move.partition))} for move in moves]

        columns = ("topic", "partition", "original", "target", "replicas", "isr", "left")
        await watch(args, look, lambda rows: printer.rows(rows, columns))
        return 0

    return with_client(args, run)


async def _left(client: Client, moves: list[Reassignment]) -> dict[tuple[str, int], int]:
    """Returns how many offsets the new replicas of each move still lack; a partition whose leader says nothing is absent."""
    from oncelog.errors import UnknownTopicError

    topics = []
    for name in dict.fromkeys(move.topic for move in moves):
        try:
            topics.append(await client.admin.describe_topic(name))
        except UnknownTopicError:  # deleted meanwhile
            continue
    logs = (await client.admin.describe_partitions(topics)).values() if topics else ()
    known = {(log.topic, log.partition): log for log in logs}
    new = {(move.topic, move.partition): set(move.target) - set(move.original) for move in moves}
    return {where: known[where].missing(brokers) for where, brokers in new.items() if where in known}
