"""`oncelog consume TOPIC`: prints records, one line each."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.errors import OffsetOutOfRangeError, UnknownTopicError
from oncelog.types import TopicPartition
from oncelog_cli.records.formats import OutputFormat, text_of
from oncelog_cli.terminal.argument_types import Place, UsageError, id_of, matching, number_of, place_of
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands
from oncelog_cli.terminal.progress import reporting
from oncelog_cli.terminal.session import with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import TopicDescription
    from oncelog.client.client import Client
    from oncelog.client.consume.consumer import Consumer
    from oncelog.client.consume.offsets import OffsetAndMetadata
    from oncelog.client.consume.raw_batches import RawBatch

_POLL_MS: Final = 500
_TOLD: Final = 5
_IN_FLIGHT: Final = 100
_QUIET_MS: Final = 1_000
"""A channel that has nothing for so long is at its end."""
_PATTERN: Final = frozenset("*+?[](){}|^$\\")
"""No topic has these in its name."""
_WORDS: Final = r"""Places (-o): start, end, an offset, @TIME (ISO 8601, seconds or milliseconds), +N after the start, -N before
the end (write -o=-5). With --group and without -o: where the group stands, else the start; what was printed is
committed. With --channel: what the channel has for a worker; --until-end ends when nothing has come for a second.

Formats (-f): %t topic, %p partition, %o offset, %d timestamp in ms, %k key, %v value, %h headers, %K %V %H their
lengths and number, %i number of the record, %% a percent sign, \n \t \r \\ \xNN."""

Where = tuple[str, int]


class Shown(NamedTuple):
    """A record, or a marker (`control` COMMIT, ABORT or FENCE, and its transaction)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    control: str | None = None
    txn_producer_id: int | None = None
    txn_no: int | None = None


def add_parser(commands: Commands) -> None:
    """This verb."""
    consume = commands.verb(
        "consume",
        _run,
        "print records",
        (
            "oncelog consume orders --until-end",
            r"oncelog consume orders -o @2026-01-31T12:00:00 -n 10 -f '%p/%o %k %v\n'",
            "oncelog consume orders --read-uncommitted --print-control-records --until-end --format json",
            "oncelog consume orders --group billing",
            "oncelog consume orders --channel billing -n 10",
            "oncelog consume --regex 'order.*' --until-end",
        ),
        _WORDS,
    )
    consume.add_argument("topic", nargs="+")
    consume.add_argument("--regex", "-r", action="store_true", help="the names are regular expressions")
    consume.add_argument("--offset", "-o", "--from", dest="start", metavar="PLACE", help="default start")
    consume.add_argument("--partition", "-p", type=id_of, action="append", help="may be repeated; default: all")
    consume.add_argument(
        "--num", "-n", "--max-records", type=number_of(0), default=0, help="stop after this many; 0 = never"
    )
    consume.add_argument("--until-end", action="store_true", help="stop at the end as it is now")
    consume.add_argument("--line-format", "-f", metavar="FORMAT", help="how a record is printed")
    consume.add_argument("--group", "-g", help="begin where this group stands, and commit what was printed")
    consume.add_argument(
        "--channel", metavar="NAME", help="read as a worker of this channel; what was printed is acknowledged"
    )
    level = consume.add_mutually_exclusive_group()
    level.add_argument("--read-committed", action="store_true", help="committed records only (default)")
    level.add_argument("--read-uncommitted", action="store_true", help="also open and aborted transactions")
    consume.add_argument("--print-control-records", action="store_true", help="commit and abort markers too")
    consume.add_argument(
        "--client-rack",
        default=commands.defaults.of("client_rack"),
        metavar="RACK",
        help="read from in-sync replicas in this rack, where there are any (environment: ONCELOG_CLIENT_RACK)",
    )


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Ends after `--num`, at the end with `--until-end`, else never."""
    if args.group and args.print_control_records:
        raise UsageError(
            "a group commits what a consumer gets; --print-control-records is for looking, without --group"
        )
    place_of(args.start or "start")
    if args.channel:
        _check_channel(args)
    view = _View(args, printer)
    return with_client(args, lambda client: _consume(client, args, view), lasting=True)


def _check_channel(args: argparse.Namespace) -> None:
    """Raises `UsageError` for what a channel decides itself."""
    others = {
        "--group": args.group,
        "--offset": args.start,
        "--partition": args.partition,
        "--regex": args.regex,
        "--read-uncommitted": args.read_uncommitted,
        "--print-control-records": args.print_control_records,
    }
    for flag, value in others.items():
        if value:
            raise UsageError(f"{flag} does not go with --channel, which says what comes")
    if len(args.topic) != 1:
        raise UsageError("a channel is one topic's: name one topic")


async def _consume(client: Client, args: argparse.Namespace, view: _View) -> int:
    if args.channel:
        async with reporting(view.progress, shown=_goes_to_a_file()):
            await _work(client, args, view)
        return 0
    topics = await _topics(client, args)
    args.topic = [topic.name for topic in topics]
    chosen = [
        (topic.name, p.partition)
        for topic in topics
        for p in topic.partitions
        if not args.partition or p.partition in args.partition
    ]
    missing = set(args.partition or ()) - {partition for _, partition in chosen}
    if missing:
        raise UsageError(f"no partition {', '.join(map(str, sorted(missing)))} in {' '.join(args.topic)}")
    isolation = "read_uncommitted" if args.read_uncommitted else "read_committed"
    starts = await _starts(client, args, chosen, isolation)
    await _require_offsets(client, args, starts, view)
    ends = await _ends(client, chosen, isolation) if args.until_end else None
    async with reporting(view.progress, shown=_goes_to_a_file()):
        if args.print_control_records:
            await _look(client, starts, ends, isolation, view)
        else:
            await _follow(client, args, starts, ends, isolation, view)
    return 0


def _goes_to_a_file() -> bool:
    """On a terminal the records are the progress, and who reads from a pipe may write there too."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


async def _topics(client: Client, args: argparse.Namespace) -> list[TopicDescription]:
    """The topics that the command line names. Raises `UnknownTopicError`, or `UsageError` for a pattern without --regex."""
    if not args.regex:
        for name in args.topic:
            if _PATTERN & set(name):
                raise UsageError(f"{name!r} is not the name of a topic; if it is a pattern, give --regex")
        return [await client.admin.describe_topic(name) for name in args.topic]
    topics = {topic.name: topic for topic in await client.admin.list_topics()}
    names = matching(args.topic, topics)
    if not names:
        raise UnknownTopicError("no topic matches; see `oncelog topic list`", given=" ".join(args.topic))
    return [topics[name] for name in names]


async def _require_offsets(client: Client, args: argparse.Namespace, starts: dict[Where, int], view: _View) -> None:
    """Says which partitions end before the offset that was asked for; they are read from their ends on.

    Raises `OffsetOutOfRangeError` when all of them do.
    """
    place = place_of(args.start or "start")
    if place.kind != "offset":
        return
    ends = await _ends(client, list(starts), "read_uncommitted")  # an open transaction is no reason to refuse
    beyond = {where: end for where, end in ends.items() if place.value > end}
    if not beyond:
        return
    told = ", ".join(f"{topic}/{partition} ends at {end}" for (topic, partition), end in sorted(beyond.items())[:_TOLD])
    more = f" and {len(beyond) - _TOLD} more" if len(beyond) > _TOLD else ""
    sentence = f"offset {place.value} lies beyond the end: {told}{more}"
    if len(beyond) == len(ends):
        raise OffsetOutOfRangeError(f"{sentence}; `-o -5` reads the last five, `-o end` waits for new ones")
    view.complain(f"{sentence}; only what comes next is read there")
    starts.update(beyond)


async def _starts(client: Client, args: argparse.Namespace, chosen: list[Where], isolation: str) -> dict[Where, int]:
    from oncelog_cli.terminal.offset_spec import offsets_at

    return await offsets_at(client, chosen, place_of(args.start or "start"), isolation)


async def _ends(client: Client, chosen: list[Where], isolation: str) -> dict[Where, int]:
    from oncelog_cli.terminal.offset_spec import offsets_at

    return await offsets_at(client, chosen, Place("end"), isolation)


class _View:
    """Prints what comes, and says when it is enough."""

    def __init__(self, args: argparse.Namespace, printer: Printer) -> None:
        self._format = None if args.line_format is None else OutputFormat(args.line_format)
        self._most = args.num
        self._printer = printer
        self._printed = 0

    def complain(self, text: str) -> None:
        """To standard error, for people."""
        self._printer.complain(text)

    def progress(self) -> str:
        """How far it is."""
        return f"{self._printed:,} records"

    def is_full(self) -> bool:
        """`--num` records were printed."""
        return bool(self._most) and self._printed >= self._most

    def left(self, most: int) -> int:
        """How many records may come yet, up to this many."""
        return min(most, self._most - self._printed) if self._most else most

    def show(self, record: Shown) -> None:
        """One record."""
        self._printed += 1
        if self._format is not None:
            self._printer.raw(self._format.line(record, self._printed))
        elif self._printer.is_text:
            self._printer.text(_line(record))
        else:
            headers = [{"name": name, "value": text_of(value)} for name, value in record.headers]
            row = {**record._asdict(), "key": text_of(record.key), "value": text_of(record.value), "headers": headers}
            if record.control is None:
                row = {name: row[name] for name in Shown._fields[:7]}
            self._printer.data(row)


def _line(record: Shown) -> str:
    if record.control is not None:
        return f"--- {record.control} of transaction {record.txn_no} of producer {record.txn_producer_id}"
    key = "" if record.key is None else f"{text_of(record.key)}\t"
    return f"{key}{text_of(record.value) or ''}"


# ---------------------------------------------------------------- as a consumer


async def _follow(
    client: Client,
    args: argparse.Namespace,
    starts: dict[Where, int],
    ends: dict[Where, int] | None,
    isolation: str,
    view: _View,
) -> None:
    consumer = client.consumer(
        auto_offset_reset="earliest", isolation_level=isolation, group_id=args.group, client_rack=args.client_rack
    )
    async with consumer:
        await consumer.assign(list(starts))
        if args.start or not args.group:  # else the consumer goes on where its group stands
            for where, offset in starts.items():
                consumer.seek(where, offset)
        if ends is None and not args.partition:
            await consumer.assign_topics(*args.topic)  # where it stands, and partitions that are added
        while not view.is_full() and (ends is None or not await _is_at_end(consumer, ends)):
            printed: dict[Where, OffsetAndMetadata] = {}
            records = await consumer.getmany(timeout_ms=_POLL_MS)
            for record in records:
                where = (record.topic, record.partition)
                if view.is_full() or (ends is not None and record.offset >= ends[where]):
                    continue
                view.show(Shown(*record))
                read = records.offsets[TopicPartition(*where)]  # which topic's offset it is
                printed[where] = read._replace(offset=record.offset + 1, leader_epoch=-1)
            if args.group and printed:
                await consumer.commit(printed)


async def _is_at_end(consumer: Consumer, ends: dict[Where, int]) -> bool:
    for where, end in ends.items():
        if await consumer.position(where) < end:
            return False
    return True


# ---------------------------------------------------------------- as a worker


async def _work(client: Client, args: argparse.Namespace, view: _View) -> None:
    """Prints records as a worker, and acknowledges them after that. The channel has to be there."""
    most = args.num or _IN_FLIGHT
    async with client.worker(
        args.topic[0], channel=args.channel, create=False, max_in_flight=min(most, _IN_FLIGHT)
    ) as worker:
        while not view.is_full():
            messages = await worker.getmany(view.left(_IN_FLIGHT), _QUIET_MS)
            if not messages and args.until_end:
                return
            for message in messages:
                place = (message.topic, message.partition, message.offset, message.timestamp_ms)
                view.show(Shown(*place, message.key, message.value, message.headers))
            await worker.ack(messages)


# ---------------------------------------------------------------- with markers


async def _look(
    client: Client, starts: dict[Where, int], ends: dict[Where, int] | None, isolation: str, view: _View
) -> None:
    """One partition after the other, in pieces."""
    reader = client.admin.raw_reader()
    positions = dict(starts)
    while positions and not view.is_full():
        for (topic, partition), position in list(positions.items()):
            end = None if ends is None else ends[topic, partition]
            if end is not None and position >= end:
                del positions[topic, partition]
                continue
            wait_ms = 0 if len(positions) > 1 and end is not None else _POLL_MS // len(positions)
            found = await reader.read(topic, partition, position, isolation, wait_ms)
            positions[topic, partition] = max(position, found.next_offset)
            for batch in found.batches:
                async for record in _records(topic, partition, batch, isolation):
                    if view.is_full():
                        return
                    if position <= record.offset and (end is None or record.offset < end):
                        view.show(record)


async def _records(topic: str, partition: int, batch: RawBatch, isolation: str) -> AsyncIterator[Shown]:
    from oncelog.core.batch.batch import decode_batch
    from oncelog.core.batch.control import Marker, control_of

    header = batch.header
    if header.is_control:
        control = control_of(batch.data)
        kind = ("COMMIT" if control.committed else "ABORT") if isinstance(control, Marker) else "FENCE"
        yield Shown(
            topic,
            partition,
            header.base_offset,
            header.append_timestamp_ms,
            None,
            None,
            (),
            kind,
            header.txn_producer_id if header.is_transactional else header.producer_id,
            header.txn_no,
        )
    elif batch.is_visible or isolation == "read_uncommitted":
        for item in decode_batch(batch.data, header):
            yield Shown(topic, partition, item.offset, item.timestamp_ms, item.key, item.value, item.headers)
