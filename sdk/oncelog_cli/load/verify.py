"""`oncelog verify`: writes transactions, aborts some, reads them back, and says whether all of it was exactly once.

The check itself is `oncelog.core.verification`; the load is `verify_load.py`.
"""

from __future__ import annotations

import argparse
from typing import Final

from oncelog_cli.load.verdict import exit_code, show
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands
from oncelog_cli.terminal.progress import add_topic_flags, port, positive, rate, seconds, size
from oncelog_cli.terminal.session import with_client

_DETAILS: Final = """Every record carries its producer, its transaction, its place there, and a hash. A read_committed reader
follows while it is written; after the end a fresh one reads everything again. Exit code 1: an anomaly (the first of
each name is printed), nothing could be committed, or, with --strict, any call failed.
With --exporter it repeats rounds of --duration until Ctrl-C and serves Prometheus metrics: oncelog_verify_end_to_end_seconds
(from send to read_committed), oncelog_verify_transactions_total{outcome}, oncelog_verify_anomalies_total{anomaly}."""
_EXAMPLES: Final = (
    "oncelog verify --duration 30s --producers 8 --abort-rate 0.2",
    "oncelog verify --format json | jq .anomalies",
    "oncelog verify --exporter 9200 --rate 10",
)


def add_parser(commands: Commands) -> None:
    """This verb."""
    verify = commands.verb("verify", _run, "write transactions and check exactly-once", _EXAMPLES, _DETAILS)
    verify.add_argument("--duration", type=seconds, default=10.0, help="how long to write: 30s, 5m (default 10s)")
    verify.add_argument("--producers", type=positive, default=4, help="transactional producers (default 4)")
    verify.add_argument("--txn-size", type=positive, default=20, help="records per transaction (default 20)")
    verify.add_argument("--record-size", type=size, default=100, help="bytes of a value (default 100)")
    verify.add_argument("--abort-rate", type=rate, default=0.1, help="share that is aborted (default 0.1)")
    verify.add_argument("--rate", type=float, default=0.0, help="transactions per second and producer; 0 = no limit")
    verify.add_argument("--strict", action="store_true", help="exit code 1 also when a call failed")
    verify.add_argument("--exporter", type=port, metavar="PORT", help="repeat until Ctrl-C, and serve metrics here")
    add_topic_flags(verify)


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 0: exactly once."""
    from oncelog_cli.load import verify_load

    if args.exporter:
        return with_client(args, lambda client: verify_load.export(client, args, printer), lasting=True)
    result = with_client(args, lambda client: verify_load.verify(client, args, printer.is_text), lasting=True)
    show(result, printer)
    return exit_code(result, strict=args.strict)
