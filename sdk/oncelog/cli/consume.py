"""`oncelog consume TOPIC`: prints records, one line each."""

from __future__ import annotations

import argparse
from typing import Any

from oncelog.cli.output import Printer
from oncelog.cli.parsing import Commands
from oncelog.cli.session import with_client
from oncelog.errors import ConfigError


def add_parser(commands: Commands) -> None:
    """This verb."""
    consume = commands.verb("consume", _run, "print records", ("oncelog consume orders --from earliest",))
    consume.add_argument("topic")
    consume.add_argument("--partition", type=int, action="append", help="may be repeated; default: all")
    consume.add_argument("--from", dest="start", default="earliest", help="earliest, latest or an offset")
    consume.add_argument("--max-records", "-n", type=int, default=0, help="stop after so many; 0 = never")
    consume.add_argument("--until-end", action="store_true", help="stop at the end as it is now")
    consume.add_argument("--read-uncommitted", action="store_true", help="also records of open transactions")


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Ends after `--max-records`, at the end with `--until-end`, else never."""
    return with_client(args, lambda client: _consume(client, args, printer))


async def _consume(client: Any, args: argparse.Namespace, printer: Printer) -> int:
    topic = await client.admin.describe_topic(args.topic)
    chosen = args.partition or [p.partition for p in topic.partitions]
    isolation = "read_uncommitted" if args.read_uncommitted else "read_committed"
    consumer = client.consumer(auto_offset_reset="earliest", isolation_level=isolation)
    async with consumer:
        assignment = [(args.topic, p) for p in chosen]
        await consumer.assign(assignment)
        await _seek(consumer, assignment, args.start)
        ends = await _ends(client, args, chosen) if args.until_end else None
        await _print_records(consumer, args, printer, ends)
    return 0


async def _seek(consumer: Any, assignment: list[tuple[str, int]], start: str) -> None:
    if start == "earliest":
        await consumer.seek_to_beginning(*assignment)
    elif start == "latest":
        await consumer.seek_to_end(*assignment)
    elif start.isdigit():
        for where in assignment:
            consumer.seek(where, int(start))
    else:
        raise ConfigError("--from is earliest, latest or an offset", given=start)


async def _ends(client: Any, args: argparse.Namespace, chosen: list[int]) -> dict[tuple[str, int], int]:
    offsets = await client.admin.partition_offsets(args.topic)
    if args.read_uncommitted:
        return {(args.topic, p): offsets[p].high_watermark for p in chosen}
    return {(args.topic, p): offsets[p].last_stable_offset for p in chosen}


async def _is_at_end(consumer: Any, ends: dict[tuple[str, int], int]) -> bool:
    for where, end in ends.items():
        if await consumer.position(where) < end:
            return False
    return True


async def _print_records(
    consumer: Any, args: argparse.Namespace, printer: Printer, ends: dict[tuple[str, int], int] | None
) -> None:
    printed = 0
    while ends is None or not await _is_at_end(consumer, ends):
        for record in await consumer.getmany(timeout_ms=500):
            if ends is not None and record.offset >= ends[record.topic, record.partition]:
                continue
            _print(record, printer)
            printed += 1
            if args.max_records and printed >= args.max_records:
                return


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _print(record: Any, printer: Printer) -> None:
    row = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
    }
    key = "" if row["key"] is None else f"{row['key']}\t"
    printer.value(row, f"{key}{row['value']}")
