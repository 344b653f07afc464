"""What tracing costs: `python -m bench.tracing [--before TREE] [--starts 12] [--rounds 15] [--share 0.01]`.

Sides, each a cluster of its own with a client of its own, measured in turn, round after round:
  without  this tree with tracing compiled out (`bench.untraced`); with --before another tree, for example one before tracing
  off      this tree without an endpoint
  on       this tree with every service and the client sending to a collector, recording that share of the traces
  all      the same, recording everything (only with --all)
  again    the first side once more (only with --control): what the method finds where there is nothing

How they are compared: `bench.sides`. Medians of single calls hardly see the recorded ones of a small
share; time per record does: it counts all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.sides import PACKAGES, ROOT, Side, compare, parse
from bench.untraced import write_untraced

OUT: Final = Path(__file__).parent / "out" / "tracing.json"
KINDS: Final = ("record", "batches", "transaction")


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    args = _parsed_arguments()
    kinds = args.only.split(",")
    with ExitStack() as stack:
        first = Side("before", args.before.resolve()) if args.before is not None else Side("without", _untraced(stack))
        collector = stack.enter_context(
            subprocess.Popen([sys.executable, "-m", "bench.collector"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        )
        stack.callback(collector.terminate)
        assert collector.stdout is not None
        endpoint = f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        sides = [first, Side("off", ROOT), _recording(f"on, {args.share:.0%} recorded", args.share, endpoint)]
        if args.all:
            sides.append(_recording("on, all recorded", 1.0, endpoint))
        if args.control:
            sides.append(Side(f"{first.name}, again", first.tree))
        compare(sides, kinds, args.starts, args.rounds, 0.1 if args.quick else 1.0, OUT)
    return 0


def _recording(name: str, share: float, collector: str) -> Side:
    sampler = "parentbased_traceidratio"
    flags = ("--otlp-endpoint", collector, "--trace-sampler", sampler, "--trace-sampler-arg", str(share))
    environment = {
        "ONCELOG_OTLP_ENDPOINT": collector,
        "ONCELOG_TRACE_SAMPLER": sampler,
        "ONCELOG_TRACE_SAMPLER_ARG": str(share),
    }
    return Side(name, ROOT, flags, environment)


def _parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.tracing")
    parser.add_argument(
        "--before", type=Path, help="a source tree to compare with, instead of this one without tracing"
    )
    parser.add_argument(
        "--share", type=float, default=0.01, help="of the traces that are recorded (default %(default)s)"
    )
    parser.add_argument("--all", action="store_true", help="a side that records everything, too")
    parser.add_argument("--control", action="store_true", help="the first side once more")
    return parse(parser, KINDS)


def _untraced(stack: ExitStack) -> Path:
    target = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-untraced-")))
    places = write_untraced(ROOT, PACKAGES[:-1], target)
    print(f"tracing is compiled out of {places} places", file=sys.stderr)
    return target


if __name__ == "__main__":
    sys.exit(main())
