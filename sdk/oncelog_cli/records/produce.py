"""`oncelog produce TOPIC`: each line of standard input becomes a record."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.config import KEY_HASHES
from oncelog_cli.records.formats import InputFormat, bytes_of, headers_of
from oncelog_cli.terminal.argument_types import UsageError, id_of
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands
from oncelog_cli.terminal.progress import reporting
from oncelog_cli.terminal.session import with_client

if TYPE_CHECKING:
    from oncelog.client.client import Client
    from oncelog.client.produce.producer import Producer
    from oncelog.client.produce.transactions.transaction import Transaction

_WORDS: Final = r"""Formats (-f): %k key, %v value, %h headers (name=value,...), %p partition, %t topic, %% a percent sign,
\n \t \r \\ \xNN; each once, with text between them. One record is one line.

With --transactional-id all lines are one transaction, or, with --txn-size N, one for every N lines. --abort writes and
then aborts them, to see what a read_committed consumer does not see."""


class Row(NamedTuple):
    """A record to be written."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def add_parser(commands: Commands) -> None:
    """This verb."""
    produce = commands.verb(
        "produce",
        _run,
        "write the lines of standard input",
        (
            "echo hello | oncelog produce orders",
            r"oncelog produce orders -f '%k %v\n' -H source:shell < lines.txt",
            "seq 100 | oncelog produce orders --transactional-id job-1 --txn-size 10",
            "oncelog produce orders -k gone -Z <<< ''",
        ),
        _WORDS,
    )
    produce.add_argument("topic")
    produce.add_argument("--key", "-k", help="key of every record that has none of its own")
    produce.add_argument("--header", "-H", action="append", default=[], metavar="NAME:VALUE", help="may be repeated")
    produce.add_argument("--partition", "-p", type=id_of, help="default: by key, or any")
    produce.add_argument(
        "--partitioner", choices=KEY_HASHES, default=KEY_HASHES[0], help="the hash of keys; murmur2 is Kafka's"
    )
    produce.add_argument("--compression", "-z", choices=("none", "lz4", "zstd"), default="lz4", help="default lz4")
    produce.add_argument("--tombstone", "-Z", action="store_true", help="an empty value is null")
    shape = produce.add_mutually_exclusive_group()
    shape.add_argument("--line-format", "-f", default=r"%v\n", metavar="FORMAT", help=r"default '%%v\n'")
    shape.add_argument("--key-separator", metavar="TEXT", help="each line is KEY TEXT VALUE, or only VALUE")
    produce.add_argument("--transactional-id", metavar="ID", help="write in transactions of this id")
    produce.add_argument("--txn-size", type=int, metavar="N", help="records of one transaction; default: all")
    produce.add_argument("--abort", action="store_true", help="abort the transactions at their ends")


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Ends at the end of the input; what was read is written then."""
    if (args.abort or args.txn_size is not None) and not args.transactional_id:
        raise UsageError("--abort and --txn-size need --transactional-id")
    if args.txn_size is not None and args.txn_size < 1:
        raise UsageError("--txn-size is 1 and up")
    reader = _Lines(args)
    return with_client(args, lambda client: _produce(client, args, reader, printer), lasting=True)


async def _produce(client: Client, args: argparse.Namespace, lines: _Lines, printer: Printer) -> int:
    producer = client.producer(
        transactional_id=args.transactional_id,
        partitioner=args.partitioner,
        compression_type=args.compression,
        delivery_timeout_ms=args.timeout_ms,
        max_block_ms=args.timeout_ms,
    )
    client.give_up_after(args.timeout_ms)
    lines.on_line = lambda: client.give_up_after(args.timeout_ms)
    async with producer:
        numbers = await _write(producer, args, lines)
    if args.transactional_id is None:
        printer.value({"topic": args.topic, "records": lines.count}, f"{lines.count} records written to {args.topic}")
        return 0
    outcome = "aborted" if args.abort else "committed"
    value = {"topic": args.topic, "records": lines.count, "txn_no": numbers[-1], "outcome": outcome}
    which = f"transaction {numbers[0]}" if len(numbers) == 1 else f"transactions {numbers[0]} to {numbers[-1]}"
    printer.value(
        {**value, "transactions": len(numbers)},
        f"{lines.count} records {outcome} in {which} of {args.transactional_id}",
    )
    return 0


async def _write(producer: Producer, args: argparse.Namespace, lines: _Lines) -> list[int]:
    """Numbers of the transactions; none without a transactional id."""
    async with reporting(lambda: f"{lines.count:,} records", shown=not sys.stdin.isatty()):
        if args.transactional_id is not None:
            return await _transactions(producer, args, lines)
        async for row in lines:
            await _send(producer, row)
        await producer.flush()
        return []


async def _transactions(producer: Producer, args: argparse.Namespace, lines: _Lines) -> list[int]:
    """Numbers of the transactions; at least one, also without a line."""
    numbers: list[int] = []
    more = True
    while more:
        transaction = await producer.begin_transaction()
        numbers.append(transaction.txn_no)
        more = False
        begun = lines.count
        async for row in lines:
            await _send(transaction, row)
            if lines.count - begun == args.txn_size:
                more = await lines.is_more()
                break
        if args.abort:
            await transaction.flush()  # so that there is something in the log to be aborted
            await transaction.abort()
        else:
            await transaction.commit(wait="decided" if more else "visible")
    return numbers


async def _send(writer: Producer | Transaction, row: Row) -> None:
    await writer.send(row.topic, value=row.value, key=row.key, partition=row.partition, headers=row.headers)


class _Lines:
    """Standard input as records."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.count = 0
        self.on_line: Callable[[], None] = lambda: None
        """Called for each line, and for the end of the input: `--timeout-ms` restarts, since a person may have typed it."""
        self._args = args
        self._format = InputFormat(args.line_format)
        self._headers = headers_of(args.header)
        self._next: bytes | None = None

    async def __aiter__(self) -> AsyncIterator[Row]:
        while line := await self._line():
            self.count += 1
            yield self._row(line.rstrip(b"\r\n"))

    async def is_more(self) -> bool:
        """There is another line; waits for it."""
        self._next = await self._line()
        return bool(self._next)

    async def _line(self) -> bytes:
        import asyncio

        ahead, self._next = self._next, None
        if ahead is not None:
            return ahead
        # The reader thread keeps the loop free for acknowledgements while standard input waits for a person.
        line: bytes = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.readline)
        self.on_line()
        return line

    def _row(self, line: bytes) -> Row:
        args = self._args
        found = self._split(line)
        key = found.get("k")
        if key is None and args.key is not None:
            key = bytes_of(args.key)
        value: bytes | None = found.get("v", b"")
        if args.tombstone and not value:
            value = None
        headers = self._headers
        if found.get("h"):
            headers += headers_of(found["h"].decode("utf-8", "surrogateescape").split(","))
        partition = int(found["p"]) if "p" in found else args.partition
        topic = found["t"].decode("utf-8", "backslashreplace") if "t" in found else args.topic
        return Row(topic, partition, key, value, headers)

    def _split(self, line: bytes) -> dict[str, bytes]:
        if not self._args.key_separator:
            return self._format.fields(line)
        key, separator, value = line.partition(bytes_of(self._args.key_separator))
        return {"k": key, "v": value} if separator else {"v": line}
