"""Whether this tree is slower than another: `python -m bench.paired --before TREE [--starts 12] [--rounds 15]`.

Both trees run at the same time, each with a cluster and a client of its own, and are measured in turn (`bench.sides` says how).
`--control` adds the other tree once more: what the method finds where there is no difference.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from bench.sides import KINDS, ROOT, Side, compare, parse

OUT: Final = Path(__file__).parent / "out" / "paired.json"


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.paired")
    parser.add_argument("--before", type=Path, required=True, help="the source tree to compare this one with")
    parser.add_argument("--control", action="store_true", help="the other tree once more")
    args = parse(parser, KINDS)
    before = args.before.resolve()
    kinds = args.only.split(",")
    environment = {"ONCELOG_BENCH_SPARK": "1"} if "spark" in kinds else {}
    trees = {"before": before, "now": ROOT} | ({"before, again": before} if args.control else {})
    sides = [Side(name, tree, environment=environment) for name, tree in trees.items()]
    compare(sides, kinds, args.starts, args.rounds, 0.1 if args.quick else 1.0, OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
