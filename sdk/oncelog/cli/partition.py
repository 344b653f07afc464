"""`oncelog partition ...`: where partitions stand, and which of them are in trouble."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from oncelog.cli.output import Printer
from oncelog.cli.parsing import Commands, add_watch
from oncelog.cli.session import watch, with_client
from oncelog.cli.topic import PARTITION_WIDE, partition_rows

if TYPE_CHECKING:
    from oncelog.client.client import Client
    from oncelog.client.descriptions import TopicDescription

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
        "Several filters: partitions to which one of them applies. Exit code 1 when a filter finds some.",
    )
    listing.add_argument("--topic", action="append", default=[], help="may be repeated; default: all, internal too")
    listing.add_argument("--under-replicated", action="store_true", help="a replica is not in sync")
    listing.add_argument("--leaderless", action="store_true", help="nobody leads it")
    listing.add_argument("--under-min-isr", action="store_true", help="acks=all is refused: too few are in sync")
    add_watch(listing)


def _list(args: argparse.Namespace, printer: Printer) -> int:
    flags = {
        "under-replicated": args.under_replicated,
        "leaderless": args.leaderless,
        "under-min-isr": args.under_min_isr,
    }
    wanted = [name for name, chosen in flags.items() if chosen]

    async def run(client: Client) -> int:
        async def look() -> list[dict[str, Any]]:
            topics = await client.admin.list_topics(internal=True)
            if args.topic:
                topics = [await client.admin.describe_topic(name) for name in args.topic]
            rows = await _rows(client, topics, offsets=not printer.is_text or printer.style == "wide")
            return [row for row in rows if not wanted or set(wanted) & set(row["problems"])]

        seen = await watch(args, look, lambda rows: printer.rows(rows, COLUMNS, WIDE))
        return 1 if wanted and seen else 0

    return with_client(args, run)


async def _rows(client: Client, topics: list[TopicDescription], *, offsets: bool) -> list[dict[str, Any]]:
    logs = await client.admin.describe_partitions(topics) if offsets else {}
    minimum = await client.admin.min_insync_replicas(topics)
    rows = [row for topic in topics for row in partition_rows(topic, logs)]
    for row in rows:
        least = min(minimum[row["topic"]], len(row["replicas"]))
        checks = {
            "leaderless": row["leader"] is None,
            "under-min-isr": len(row["isr"]) < least,
            "under-replicated": len(row["isr"]) < len(row["replicas"]),
        }
        row["problems"] = [name for name, holds in checks.items() if holds]
        row["min_insync_replicas"] = least
    return rows
