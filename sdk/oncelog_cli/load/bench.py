"""`oncelog bench produce|consume|txn`: how fast this cluster is from here, as one line of progress and one result."""

from __future__ import annotations

import argparse
from typing import Final

from oncelog_cli.terminal.argument_types import milliseconds
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands, Parser
from oncelog_cli.terminal.progress import add_topic_flags, positive, rate, seconds, size
from oncelog_cli.terminal.session import with_client

COLUMNS: Final = (
    "bench", "records", "mb", "seconds", "records_per_s", "mb_per_s", "p50_ms", "p99_ms", "max_ms", "errors",
)  # fmt: skip
_DETAILS: Final = """It makes a topic for itself and deletes it at the end, unless --topic names one.
Latency is from the send to the acknowledgement (produce), from begin to the decided commit (txn), of one fetch (consume)."""


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("bench", "measure throughput and latency")
    produce = noun.verb(
        "produce",
        _run,
        "write as fast as possible",
        (
            "oncelog bench produce --records 1000000 --record-size 1000",
            "oncelog bench produce --duration 30s --producers 4",
        ),
        _DETAILS,
    )
    _add_load(produce, records=100_000)
    produce.add_argument("--acks", choices=("all", "1", "0"), default="all")
    consume = noun.verb(
        "consume", _run, "read from the beginning", ("oncelog bench consume --topic orders --duration 30s",), _DETAILS
    )
    _add_load(consume, records=100_000)
    consume.add_argument("--consumers", type=positive, default=1, help="readers at the same time (default 1)")
    txn = noun.verb(
        "txn", _run, "transactions, one after the other", ("oncelog bench txn --producers 8 --txn-size 100",), _DETAILS
    )
    _add_load(txn, records=10_000)
    txn.add_argument("--txn-size", type=positive, default=10, help="records per transaction (default 10)")
    txn.add_argument("--abort-rate", type=rate, default=0.0, help="share that is aborted (default 0)")
    txn.add_argument("--wait", choices=("decided", "visible"), default="decided", help="what a commit waits for")


def _add_load(parser: Parser, records: int) -> None:
    parser.add_argument("--records", type=positive, help=f"stop after this many (default {records}, or --duration)")
    parser.add_argument("--duration", type=seconds, help="stop after this time: 30s, 5m")
    parser.add_argument("--record-size", type=size, default=100, help="bytes of a value (default 100)")
    parser.add_argument("--producers", type=positive, default=1, help="writers at the same time (default 1)")
    parser.add_argument("--batch-size", type=size, default=262_144, help="bytes of a batch (default 256KiB)")
    parser.add_argument("--linger-ms", type=milliseconds, default=0, help="how long a batch waits for more (default 0)")
    parser.add_argument("--compression", choices=("none", "lz4", "zstd"), default="none")
    add_topic_flags(parser)
    parser.set_defaults(records_default=records)


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 1: nothing succeeded."""
    from oncelog_cli.load import bench_load

    if args.records is None and not args.duration:
        args.records = args.records_default
    result = with_client(args, lambda client: bench_load.run(client, args, printer.is_text), lasting=True)
    _show(result, printer)
    return 0 if result["records"] else 1


def _show(result: dict[str, object], printer: Printer) -> None:
    if printer.is_text:
        printer.rows([result], [*COLUMNS, *(name for name in ("transactions_per_s",) if name in result)])
    else:
        printer.data(result)
