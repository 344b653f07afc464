"""What security costs: `python -m bench.security [--starts 12] [--rounds 15] [--only record,large,spark]`.

Two clusters with TLS, each with a client of its own; in one of them all of security is on (`bench.guarded` says what). They are
measured in turn (`bench.sides` says how). `--plain` adds a cluster in plaintext: what TLS itself costs; `--control` a second
cluster with TLS alone: what the method finds where there is no difference.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from bench.guarded import RULES, TLS
from bench.sides import ROOT, Side, compare, parse

OUT: Final = Path(__file__).parent / "out" / "security.json"
KINDS: Final = ("record", "large", "transaction", "spark")


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.security")
    parser.add_argument("--plain", action="store_true", help="a cluster without TLS too")
    parser.add_argument("--control", action="store_true", help="a second cluster with TLS alone")
    args = parse(parser, KINDS)
    sides = [
        Side("off", ROOT, environment=_environment(TLS, args)),
        Side("on", ROOT, environment=_environment(RULES, args)),
    ]
    if args.control:
        sides.append(Side("off, again", ROOT, environment=_environment(TLS, args)))
    if args.plain:
        sides.append(Side("without TLS", ROOT, environment=_environment("", args)))
    compare(sides, args.only.split(","), args.starts, args.rounds, 0.1 if args.quick else 1.0, OUT)
    return 0


def _environment(mode: str, args: argparse.Namespace) -> dict[str, str]:
    return {"ONCELOG_BENCH_GUARD": mode, "ONCELOG_BENCH_SPARK": "1" if "spark" in args.only.split(",") else ""}


if __name__ == "__main__":
    sys.exit(main())
