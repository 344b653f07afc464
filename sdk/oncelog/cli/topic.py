"""`oncelog topic ...`"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from oncelog.cli.output import Printer
from oncelog.cli.parsing import Commands
from oncelog.cli.session import with_client
from oncelog.errors import ConfigError

PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "log_start_offset", "last_stable_offset",
                     "high_watermark")  # fmt: skip


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("topic", "create, list, describe, delete topics")
    create = noun.verb("create", _create, "create a topic", ("oncelog topic create orders --partitions 6",))
    create.add_argument("topic")
    create.add_argument("--partitions", type=int, default=1)
    create.add_argument("--replication-factor", type=int, default=0, help="0 = the cluster's default")
    create.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is fine")
    listing = noun.verb("list", _list, "list topics", ("oncelog topic list",))
    listing.add_argument("--internal", action="store_true", help="the cluster's own topics too")
    describe = noun.verb(
        "describe", _describe, "partitions, leaders, replicas of a topic", ("oncelog topic describe orders",)
    )
    describe.add_argument("topic")
    delete = noun.verb("delete", _delete, "delete a topic and its records", ("oncelog topic delete orders",))
    delete.add_argument("topic")


def _config(pairs: list[str]) -> dict[str, str]:
    config = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise ConfigError("--config takes NAME=VALUE", given=pair)
        config[name] = value
    return config


def _create(args: argparse.Namespace, printer: Printer) -> int:
    config = _config(args.config)
    created = with_client(
        args,
        lambda client: client.admin.create_topic(
            args.topic,
            partitions=args.partitions,
            replication_factor=args.replication_factor,
            config=config,
            if_not_exists=args.if_not_exists,
        ),
    )
    verb = "created" if created.created else "existed already"
    printer.value(
        {"topic": args.topic, "topic_id": created.topic_id, "created": created.created}, f"{args.topic} {verb}"
    )
    return 0


def _list(args: argparse.Namespace, printer: Printer) -> int:
    topics = with_client(args, lambda client: client.admin.list_topics(internal=args.internal))
    rows = [
        {
            "topic": t.name,
            "partitions": len(t.partitions),
            "replicas": max((len(p.replicas) for p in t.partitions), default=0),
            "leaderless": sum(p.leader is None for p in t.partitions),
            "under_replicated": sum(len(p.isr) < len(p.replicas) for p in t.partitions),
        }
        for t in topics
    ]
    printer.rows(rows, ("topic", "partitions", "replicas", "leaderless", "under_replicated"))
    return 0


def _describe(args: argparse.Namespace, printer: Printer) -> int:
    async def work(client: Any) -> list[dict[str, Any]]:
        topic = await client.admin.describe_topic(args.topic)
        offsets = await client.admin.partition_offsets(args.topic)
        return [
            {
                "partition": p.partition,
                "leader": p.leader,
                "epoch": p.leader_epoch,
                "replicas": p.replicas,
                "isr": p.isr,
                **(dataclasses.asdict(offsets[p.partition]) if p.partition in offsets else {}),
            }
            for p in topic.partitions
        ]

    printer.rows(with_client(args, work), PARTITION_COLUMNS)
    return 0


def _delete(args: argparse.Namespace, printer: Printer) -> int:
    with_client(args, lambda client: client.admin.delete_topic(args.topic))
    printer.value({"topic": args.topic, "deleted": True}, f"{args.topic} deleted")
    return 0
