"""`oncelog channel ...`: queues on topics: making and changing them, how far they are, and repairs by hand."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final

from oncelog.config import CHANNEL_OPTIONS
from oncelog.core.work.bounds import CLAIMED_MAX, PENDING_MAX
from oncelog.core.work.settlements import REASON_CHARACTERS_MAX
from oncelog_cli.cluster.channel_rows import (
    DESCRIBE_COLUMNS,
    DESCRIBE_WIDE,
    LIST_COLUMNS,
    LIST_WIDE,
    PENDING_COLUMNS,
    described,
    heading,
    listing_row,
    pending_row,
    told_claim,
)
from oncelog_cli.terminal.argument_types import (
    UsageError,
    add_yes,
    confirm,
    id_of,
    milliseconds,
    number_of,
    options_of,
    place_of,
)
from oncelog_cli.terminal.output import Printer, table
from oncelog_cli.terminal.parsing import Commands, Noun, Parser, add_watch
from oncelog_cli.terminal.session import watch, with_client

if TYPE_CHECKING:
    from oncelog.client.admin.channel_descriptions import ChannelDescription
    from oncelog.client.client import Client

_OPTIONS: Final = (
    "Options, each as -c NAME=VALUE: " + ", ".join(CHANNEL_OPTIONS) + ".\n"
    "Times take a unit (30s, 10m); docs/reference/worker.md says what they mean."
)
_DESCRIBE_WORDS: Final = (
    "DEPTH is the number of records that are not settled, IN-FLIGHT of those that workers hold. WAITING ones were given back\n"
    "for a later time. DELIVERED, REDELIVERED, ACKNOWLEDGED and DEAD count since the partition's leader leads."
)
_CLAIM_WORDS: Final = (
    "Takes records from the workers that hold them: for a worker that is stuck and does not die. Without --offset it takes\n"
    "what was delivered at least --min-idle ago. Then they come again at once, to whichever worker is free; with --then ack\n"
    "they are done, and with --then reject dead. The worker that held them is told with its next word about them.\n"
    "A claim is a delivery, so it takes no record that was never delivered, and none in its last delivery (max_deliveries):\n"
    "that one is dead as soon as its time or its worker ends."
)
_SEEK_WORDS: Final = (
    "Everything before that place is done, everything from there on comes, also what was settled before. Places: start, end,\n"
    "an offset (with --partition), @TIME (ISO 8601, seconds or milliseconds)."
)


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("channel", "queues on topics: make, change, describe and repair them")
    listing = noun.verb(
        "list", _list, "the channels of topics", ("oncelog channel list", "oncelog channel list orders --format wide")
    )
    listing.add_argument("topic", nargs="*", help="default: of all topics")
    create = noun.verb(
        "create",
        _create,
        "make a channel",
        (
            "oncelog channel create orders billing",
            "oncelog channel create orders billing --start latest -c ack_wait_ms=2m -c max_deliveries=5",
        ),
        _OPTIONS,
    )
    _add_name(create)
    create.add_argument("--start", default="start", metavar="PLACE", help="start, end or @TIME (default start)")
    create.add_argument("--config", "-c", action="append", default=[], metavar="NAME=VALUE", help="an option")
    create.add_argument("--if-not-exists", action="store_true", help="one that is there is success")
    describe = noun.verb(
        "describe",
        _describe,
        "how far a channel is on each partition, and who works",
        ("oncelog channel describe orders billing", "oncelog channel describe orders billing --watch"),
        _DESCRIBE_WORDS,
    )
    _add_name(describe)
    add_watch(describe)
    _add_changes(noun)
    _add_repairs(noun)


def _add_changes(noun: Noun) -> None:
    alter = noun.verb(
        "alter",
        _alter,
        "change options of a channel",
        ("oncelog channel alter orders billing -c ack_wait_ms=5m -c dead_letter_topic=dead",),
        _OPTIONS,
    )
    _add_name(alter)
    alter.add_argument("--config", "-c", action="append", required=True, metavar="NAME=VALUE", help="an option")
    pause = noun.verb("pause", _pause, "deliver nothing for now", ("oncelog channel pause orders billing",))
    _add_name(pause)
    resume = noun.verb("resume", _resume, "end a pause", ("oncelog channel resume orders billing",))
    _add_name(resume)
    delete = noun.verb(
        "delete",
        _delete,
        "delete a channel with all it remembers; the records stay",
        ("oncelog channel delete orders billing", "oncelog channel delete orders billing -y"),
    )
    _add_name(delete)
    add_yes(delete)


def _add_repairs(noun: Noun) -> None:
    pending = noun.verb(
        "pending",
        _pending,
        "records that were delivered and are not settled",
        (
            "oncelog channel pending orders billing --min-idle 1m",
            "oncelog channel pending orders billing --partition 0 --worker app-1 -n 10",
        ),
    )
    _add_name(pending)
    pending.add_argument("--partition", "-p", type=id_of, help="only of this one")
    pending.add_argument("--worker", default="", metavar="ID", help="only those that it holds")
    _add_idle(pending)
    pending.add_argument(
        "--from-offset", type=number_of(0), default=0, metavar="OFFSET", help="only from this offset on"
    )
    pending.add_argument(
        "--num",
        "-n",
        type=number_of(1, PENDING_MAX),
        default=100,
        help="at most so many of a partition (default 100, up to 10000)",
    )
    claim = noun.verb(
        "claim",
        _claim,
        "take records from their workers; they come again, or are done",
        (
            "oncelog channel claim orders billing --partition 0 --min-idle 5m",
            "oncelog channel claim orders billing --partition 0 --offset 7 --offset 9 --then ack",
        ),
        _CLAIM_WORDS,
    )
    _add_name(claim)
    claim.add_argument("--partition", "-p", type=id_of, required=True, help="of this one")
    claim.add_argument(
        "--offset", "-o", type=number_of(0), action="append", default=[], help="this record; may be repeated"
    )
    _add_idle(claim)
    claim.add_argument(
        "--num", "-n", type=number_of(1, CLAIMED_MAX), default=100, help="at most so many (default 100, up to 1000)"
    )
    claim.add_argument("--then", choices=("release", "ack", "reject"), default="release", help="default release")
    claim.add_argument("--reason", default="", help="with --then reject: for the dead letter, at most 1024 characters")
    seek = noun.verb(
        "seek",
        _seek,
        "go on at another place",
        (
            "oncelog channel seek orders billing --to end",
            "oncelog channel seek orders billing --to 4711 --partition 0 -y",
            "oncelog channel seek orders billing --to @2026-01-31T12:00:00",
        ),
        _SEEK_WORDS,
    )
    _add_name(seek)
    seek.add_argument("--to", required=True, metavar="PLACE", help="start, end, OFFSET or @TIME")
    seek.add_argument("--partition", "-p", type=id_of, help="only on this one; default: on all")
    add_yes(seek)


def _add_name(parser: Parser) -> None:
    parser.add_argument("topic")
    parser.add_argument("channel")


def _add_idle(parser: Parser) -> None:
    parser.add_argument("--min-idle", type=milliseconds, default=0, metavar="TIME", help="delivered so long ago")


def channel_options(pairs: list[str]) -> dict[str, Any]:
    """Options of a channel in their types. Raises `UsageError`."""
    found: dict[str, Any] = {}
    for name, value in options_of(pairs, "--config").items():
        kind = CHANNEL_OPTIONS.get(name, str)
        if kind is bool and value not in ("true", "false"):
            raise UsageError(f"{name} is true or false, not {value!r}")
        if not isinstance(kind, type) and not re.fullmatch(r"[0-9]{1,19}", value):
            raise UsageError(f"{name} is a number, not {value!r}")
        found[name] = value == "true" if kind is bool else value if kind is str else int(value)
    return found


def start_of(text: str) -> str | int:
    """Where a channel begins. Raises `UsageError`."""
    place = place_of(text)
    if place.kind == "timestamp":
        return place.value
    if place.kind not in ("start", "end"):
        raise UsageError(f"a channel begins at start, end or @TIME, not at {text!r}")
    return "earliest" if place.kind == "start" else "latest"


# ---------------------------------------------------------------- verbs


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        found = await client.admin.list_channels(*args.topic)
        printer.rows([listing_row(item) for item in found], LIST_COLUMNS, LIST_WIDE)
        return 0

    return with_client(args, run)


def _create(args: argparse.Namespace, printer: Printer) -> int:
    start, options = start_of(args.start), channel_options(args.config)

    async def run(client: Client) -> int:
        made = await client.admin.create_channel(
            args.topic, args.channel, start=start, if_not_exists=args.if_not_exists, **options
        )
        word = "made" if made.created else "is there already"
        printer.value(
            {**listing_row(made.channel), "created": made.created}, f"channel {args.channel} of {args.topic} {word}"
        )
        return 0

    return with_client(args, run)


def _describe(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        found = await watch(
            args,
            lambda: client.admin.describe_channel(args.topic, args.channel),
            lambda seen: _show(seen, printer),
        )
        return 1 if any(state.error is not None for state in found.partitions) else 0

    return with_client(args, run)


def _show(found: ChannelDescription, printer: Printer) -> None:
    rows, total, workers = described(found)
    if not printer.is_text:
        printer.data({**listing_row(found.listing), "total": total, "partitions": rows, "workers": workers})
        return
    printer.text(heading(found))
    columns = (*DESCRIBE_COLUMNS, *DESCRIBE_WIDE) if printer.style == "wide" else DESCRIBE_COLUMNS
    printer.text(table([*rows, total] if len(rows) > 1 else rows, columns))
    if workers:
        printer.text("")
        printer.text(table(workers, ("worker_id", "client", "in_flight", "idle_ms")))


def _alter(args: argparse.Namespace, printer: Printer) -> int:
    options = channel_options(args.config)

    async def run(client: Client) -> int:
        now = await client.admin.alter_channel(args.topic, args.channel, **options)
        told = ", ".join(f"{name}={getattr(now.options, name)}" for name in options)
        printer.value(listing_row(now), f"channel {args.channel} of {args.topic}: {told}")
        return 0

    return with_client(args, run)


def _pause(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        now = await client.admin.pause_channel(args.topic, args.channel)
        printer.value(listing_row(now), f"channel {args.channel} of {args.topic} delivers nothing until resume")
        return 0

    return with_client(args, run)


def _resume(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        now = await client.admin.resume_channel(args.topic, args.channel)
        printer.value(listing_row(now), f"channel {args.channel} of {args.topic} delivers again")
        return 0

    return with_client(args, run)


def _delete(args: argparse.Namespace, printer: Printer) -> int:
    confirm(f"delete channel {args.channel} of {args.topic} with all it remembers?", yes=args.yes)

    async def run(client: Client) -> int:
        await client.admin.delete_channel(args.topic, args.channel)
        printer.value(
            {"topic": args.topic, "channel": args.channel, "deleted": True},
            f"channel {args.channel} of {args.topic} deleted",
        )
        return 0

    return with_client(args, run)


def _pending(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        found = await client.admin.pending(
            args.topic,
            args.channel,
            partition=args.partition,
            worker_id=args.worker,
            min_idle_ms=args.min_idle,
            from_offset=args.from_offset,
            limit=args.num,
        )
        printer.rows([pending_row(item) for item in found], PENDING_COLUMNS)
        return 0

    return with_client(args, run)


def _claim(args: argparse.Namespace, printer: Printer) -> int:
    if args.reason and args.then != "reject":
        raise UsageError("--reason goes with --then reject")
    if len(args.reason) > REASON_CHARACTERS_MAX:
        raise UsageError(f"a reason has at most {REASON_CHARACTERS_MAX} characters, not {len(args.reason)}")

    async def run(client: Client) -> int:
        found = await client.admin.claim(
            args.topic,
            args.channel,
            args.partition,
            offsets=args.offset,
            min_idle_ms=args.min_idle,
            max_records=args.num,
            then=args.then,
            reason=args.reason,
        )
        rows = [{"partition": i.partition, "first_offset": i.first_offset, "last_offset": i.last_offset} for i in found]
        printer.value({"claimed": rows, "then": args.then}, told_claim(found, args.then))
        return 0 if found else 1

    return with_client(args, run)


def _seek(args: argparse.Namespace, printer: Printer) -> int:
    place = place_of(args.to)
    if place.kind == "relative":
        raise UsageError("a channel goes on at start, end, an offset or @TIME")
    if place.kind == "offset" and args.partition is None:
        raise UsageError("an offset is one partition's: give --partition")
    confirm(
        f"move channel {args.channel} of {args.topic}? What was settled may come again, or be passed over.",
        yes=args.yes,
    )
    to = {"start": "earliest", "end": "latest"}.get(place.kind, place.value)

    async def run(client: Client) -> int:
        ends = await client.admin.seek_channel(
            args.topic,
            args.channel,
            "earliest" if place.kind == "timestamp" else to,
            partition=args.partition,
            timestamp_ms=place.value if place.kind == "timestamp" else 0,
        )
        printer.rows([{"partition": n, "offset": offset} for n, offset in ends.items()], ("partition", "offset"))
        return 0

    return with_client(args, run)
