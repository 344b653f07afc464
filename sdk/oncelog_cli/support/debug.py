"""`oncelog debug bundle`: all that a report of a problem should have, in one file, without secrets."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from oncelog.errors import ConfigError
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands
from oncelog_cli.terminal.progress import size
from oncelog_cli.terminal.session import with_client

_DETAILS: Final = """It holds versions, settings, health, topics with their options, partitions, transactions, groups, and what
--logs and --metrics name. Secrets are masked by name and by looks; records are never read. It is made also when the cluster
does not answer: manifest.json says what is missing."""


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("debug", "collect what a report of a problem needs")
    bundle = noun.verb(
        "bundle",
        _run,
        "write a .tar.gz with the cluster's state",
        (
            "oncelog debug bundle",
            "oncelog debug bundle --logs oncelog-data/logs --metrics http://127.0.0.1:9101/metrics",
        ),
        _DETAILS,
    )
    bundle.add_argument("--output", metavar="FILE", help="default: oncelog-debug-<time>.tar.gz here")
    bundle.add_argument("--logs", action="append", default=[], metavar="PATH", help="a log file or a folder of them")
    bundle.add_argument("--log-bytes", type=size, default=1 << 20, help="the last so many of each (default 1 MiB)")
    bundle.add_argument("--metrics", action="append", default=[], metavar="URL", help="a metrics page; may be repeated")


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 0 also when parts are missing."""
    from oncelog_cli.support import debug_bundle

    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = Path(args.output or f"oncelog-debug-{stamp}.tar.gz")
    if path.exists():
        raise ConfigError(f"{path} exists already; choose another --output")
    result = with_client(
        args, lambda client: debug_bundle.collect(client, args, path, stamp), connect=False, lasting=True
    )
    missing = ", ".join(sorted(result["missing"])) or "nothing"
    printer.value(
        result, f"{result['file']}: {len(result['parts'])} parts, {result['bytes']} bytes; missing: {missing}"
    )
    return 0
