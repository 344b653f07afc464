"""`oncelog produce TOPIC`: each line of standard input becomes a record."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from oncelog.cli.output import Printer
from oncelog.cli.parsing import Commands
from oncelog.cli.session import with_client
from oncelog.errors import ConfigError


def add_parser(commands: Commands) -> None:
    """This verb."""
    produce = commands.verb("produce", _run, "write the lines of standard input", ("echo hello | oncelog produce t",))
    produce.add_argument("topic")
    produce.add_argument("--key", help="key of every record")
    produce.add_argument("--key-separator", metavar="TEXT", help="each line is KEY TEXT VALUE")
    produce.add_argument("--partition", type=int, help="default: by key, or any")
    produce.add_argument("--transactional-id", metavar="ID", help="write all lines as one transaction")
    produce.add_argument("--abort", action="store_true", help="abort that transaction at the end")
    produce.add_argument("--compression", choices=("none", "lz4", "zstd"), default="lz4")


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Ends at the end of the input; what was read is written then."""
    if args.abort and not args.transactional_id:
        raise ConfigError("--abort needs --transactional-id")
    return with_client(args, lambda client: _produce(client, args, printer))


async def _produce(client: Any, args: argparse.Namespace, printer: Printer) -> int:
    producer = client.producer(transactional_id=args.transactional_id, compression_type=args.compression)
    async with producer:
        if args.transactional_id is None:
            count = await _send_lines(producer, args)
            await producer.flush()
            printer.value({"topic": args.topic, "records": count}, f"{count} records written to {args.topic}")
            return 0
        transaction = await producer.begin_transaction()
        count = await _send_lines(transaction, args)
        if args.abort:
            await transaction.flush()  # so that there is something in the log to be aborted
            await transaction.abort()
        else:
            await transaction.commit(wait="visible")
    outcome = "aborted" if args.abort else "committed"
    number = transaction.txn_no
    printer.value(
        {"topic": args.topic, "records": count, "txn_no": number, "outcome": outcome},
        f"{count} records {outcome} in transaction {number} of {args.transactional_id}",
    )
    return 0


async def _send_lines(writer: Any, args: argparse.Namespace) -> int:
    import asyncio

    loop = asyncio.get_running_loop()
    count = 0
    # The reader thread keeps the loop free for acknowledgements while standard input waits for a person.
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        key, value = _split(line.rstrip(b"\r\n"), args)
        await writer.send(args.topic, value=value, key=key, partition=args.partition)
        count += 1
    return count


def _split(line: bytes, args: argparse.Namespace) -> tuple[bytes | None, bytes]:
    if args.key_separator:
        key, found, value = line.partition(args.key_separator.encode())
        if found:
            return key, value
    return (args.key.encode() if args.key is not None else None), line
