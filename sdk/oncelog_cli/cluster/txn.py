"""`oncelog txn ...`: what is open, who writes, what hangs, and how to end it."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import TYPE_CHECKING, Final

from oncelog_cli.terminal.argument_types import partition_of, span_ms, txn_no_of
from oncelog_cli.terminal.bulk import Outcome, each
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands, Noun, add_watch
from oncelog_cli.terminal.session import watch, with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import TransactionDescription
    from oncelog.client.client import Client

COLUMNS: Final = (
    "coordinator", "transactional_id", "producer_id", "producer_epoch", "state", "start_timestamp_ms", "timeout_ms",
    "topic_partitions", "duration_ms",
)  # fmt: skip
WIDE: Final = ("txn_no", "txn_shard", "groups", "owner_run", "tokens")
PRODUCER_COLUMNS: Final = (
    "producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms", "coordinator_epoch", "txn_start_offset",
)  # fmt: skip
PRODUCER_WIDE: Final = ("topic", "partition", "txn_producer_id", "txn_no")
HANGING_COLUMNS: Final = (
    "topic", "partition", "txn_producer_id", "txn_no", "transactional_id", "first_offset", "open_since_ms",
    "duration_ms", "reason",
)  # fmt: skip
OUTCOME_COLUMNS: Final = ("transactional_id", "txn_no", "outcome", "visible")
_STATES: Final = ("EMPTY", "ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", "COMPLETE_COMMIT", "COMPLETE_ABORT", "DEAD")
_MINUTE_MS: Final = 60_000


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("txn", "list, describe, find, abort and fence transactions")
    listing = noun.verb(
        "list",
        _list,
        "transactional ids and their states",
        ("oncelog txn list --state ONGOING", "oncelog txn list --min-duration 5m --watch"),
        "The list is complete: it waits for shards that move or load, and one that does not answer in time is an error.",
    )
    listing.add_argument(
        "--state", action="append", type=str.upper, default=[], choices=_STATES, help="may be repeated"
    )
    listing.add_argument("--min-duration", type=span_ms, metavar="SPAN", help="open for at least so long, like 5m")
    add_watch(listing)
    describe = noun.verb("describe", _describe, "transactional ids in full", ("oncelog txn describe my-job",))
    describe.add_argument("transactional_id", nargs="+")
    add_watch(describe)
    outcome = noun.verb(
        "outcome",
        _outcome,
        "the outcomes of transactions, by their numbers",
        ("oncelog txn outcome my-job 41", "oncelog txn outcome my-job 41 42 --format json"),
        "Committed and aborted never change. An ongoing transaction is not decided yet: its producer, the next producer with\n"
        "its id, or the time-out will do that. Not begun: the cluster has not heard of this number so far. A new producer\n"
        "with the transactional id closes the number after the last one as aborted; higher ones have not been given out.",
    )
    outcome.add_argument("transactional_id")
    outcome.add_argument("txn_no", nargs="+", type=txn_no_of)
    producers = noun.verb(
        "producers",
        _producers,
        "who writes to partitions, as their leaders know it",
        ("oncelog txn producers orders/0", "oncelog txn producers orders --format wide"),
        "A producer that writes in two open transactions has a line for each. LAST-TIMESTAMP is not kept for those.",
    )
    producers.add_argument("partition", nargs="+", metavar="TOPIC[/PARTITION]")
    add_watch(producers)
    hanging = noun.verb(
        "find-hanging",
        _find_hanging,
        "transactions that are open on a partition, but not at their coordinator",
        ("oncelog txn find-hanging", "oncelog txn find-hanging --topic orders --min-age 30m"),
        "Exit code 1 when there are some. The default age is the largest time-out (15 minutes) and five minutes in\n"
        "which leaders ask the coordinators by themselves.",
    )
    hanging.add_argument(
        "--topic",
        action="append",
        default=[],
        help="may be repeated; default: all but the cluster's own",
    )
    hanging.add_argument("--min-age", type=span_ms, default=20 * _MINUTE_MS, metavar="SPAN", help="default 20m")
    _add_ends(noun)


def _add_ends(noun: Noun) -> None:
    abort = noun.verb(
        "abort",
        _abort,
        "abort open transactions without asking their producers",
        ("oncelog txn abort my-job",),
        "The producer may go on with its next transaction; `fence` ends the producer too.",
    )
    abort.add_argument("transactional_id", nargs="+")
    fence = noun.verb(
        "fence",
        _fence,
        "end the sessions of transactional ids: their producers can write nothing more",
        ("oncelog txn fence my-job",),
        "What is open is aborted. A producer or Spark run that starts afterwards works as usual.",
    )
    fence.add_argument("transactional_id", nargs="+")


def transaction_row(transaction: TransactionDescription, now_ms: int) -> dict[str, object]:
    """One line of a list of transactions."""
    row = dataclasses.asdict(transaction)
    started_ms = row.pop("start_timestamp_ms")
    is_open = bool(started_ms)
    row["start_timestamp_ms"] = started_ms if is_open else None
    row["duration_ms"] = max(0, now_ms - started_ms) if is_open else None
    row["topic_partitions"] = [f"{topic}-{partition}" for topic, partition in row.pop("partitions")]
    row["tokens"] = dict(row["tokens"])
    return row


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _print(found: list[TransactionDescription], printer: Printer, *, wide: tuple[str, ...] = WIDE) -> None:
    now_ms = _now_ms()
    printer.rows([transaction_row(item, now_ms) for item in found], COLUMNS, wide)


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        async def look() -> list[TransactionDescription]:
            found = await client.admin.list_transactions(args.state)
            if args.min_duration is None:
                return found
            before_ms = _now_ms() - args.min_duration
            return [item for item in found if 0 < item.start_timestamp_ms <= before_ms]

        await watch(args, look, lambda found: _print(found, printer))
        return 0

    return with_client(args, run)


def _describe(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        async def look() -> list[TransactionDescription]:
            return [await client.admin.describe_transaction(name) for name in args.transactional_id]

        def show(found: list[TransactionDescription]) -> None:
            if not printer.is_text:
                _print(found, printer)
                return
            now_ms = _now_ms()
            printer.rows([transaction_row(item, now_ms) for item in found], (*COLUMNS, *WIDE))

        await watch(args, look, show)
        return 0

    return with_client(args, run)


def _outcome(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        rows = []
        for txn_no in args.txn_no:
            found = await client.get_outcome(args.transactional_id, txn_no)
            rows.append({"transactional_id": args.transactional_id, "txn_no": txn_no, **dataclasses.asdict(found)})
        printer.rows(rows, OUTCOME_COLUMNS)
        return 0

    return with_client(args, run)


def _producers(args: argparse.Namespace, printer: Printer) -> int:
    wanted = [partition_of(text) for text in args.partition]

    async def run(client: Client) -> int:
        async def look() -> list[dict[str, object]]:
            rows = []
            for topic, number in wanted:
                numbers = [number]
                if number is None:
                    numbers = [p.partition for p in (await client.admin.describe_topic(topic)).partitions]
                for partition in numbers:
                    assert partition is not None
                    found = await client.admin.describe_producers(topic, partition)
                    rows += [_producer_row(dataclasses.asdict(item)) for item in found]
            return rows

        several = len(wanted) > 1 or wanted[0][1] is None
        columns = (*PRODUCER_WIDE[:2], *PRODUCER_COLUMNS) if several else PRODUCER_COLUMNS
        wide = tuple(name for name in PRODUCER_WIDE if name not in columns)
        await watch(args, look, lambda rows: printer.rows(rows, columns, wide))
        return 0

    return with_client(args, run)


def _producer_row(row: dict[str, object]) -> dict[str, object]:
    """Shows a missing number as nothing, not as -1."""
    unknown = {"coordinator_epoch": -1, "txn_start_offset": -1, "txn_producer_id": -1, "last_timestamp_ms": 0}
    gone = {name for name, value in unknown.items() if row[name] == value}
    if "txn_producer_id" in gone:
        gone.add("txn_no")
    return {name: None if name in gone else value for name, value in row.items()}


def _find_hanging(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        topics = await client.admin.list_topics()
        if args.topic:
            topics = [await client.admin.describe_topic(name) for name in args.topic]
        found = await client.admin.find_hanging(topics, args.min_age)
        now_ms = _now_ms()
        rows = [{**dataclasses.asdict(item), "duration_ms": now_ms - item.open_since_ms} for item in found]
        if not rows and printer.is_text:
            partitions = sum(len(topic.partitions) for topic in topics)
            printer.text(f"no hanging transactions: looked at {partitions} partitions of {len(topics)} topics")
            return 0
        printer.rows(rows, HANGING_COLUMNS, ("txn_shard", "records"))
        return 1 if rows else 0

    return with_client(args, run)


def _abort(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        async def abort(name: str) -> Outcome:
            txn_no = await client.admin.abort_transaction(name)
            sentence = f"transaction {txn_no} of {name} is aborted" if txn_no else f"{name} has no open transaction"
            return {"aborted_txn_no": txn_no or None}, sentence

        return await each(args.transactional_id, "transactional_id", abort, printer)

    return with_client(args, run)


def _fence(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        async def fence(name: str) -> Outcome:
            epoch = await client.admin.fence_producer(name)
            return {"producer_epoch": epoch}, f"{name} is fenced: producer epoch {epoch}"

        return await each(args.transactional_id, "transactional_id", fence, printer)

    return with_client(args, run)
