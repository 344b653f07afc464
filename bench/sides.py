"""Clusters of several source trees or settings, measured in turn, for `bench.paired`, `bench.security` and `bench.tracing`.

Rule 1: what else the machine does in a round hits all sides, so a start's figure is the median, over its rounds, of the ratio
        to the first side in the same round. Their order is drawn anew each time: a side may leave work to the next, for
        example its spans, which are sent five seconds later.
Rule 2: two clusters of the same code differ by some percent for as long as they live, so all sides are started anew
        `--starts` times, in an order that is drawn too. The figure is the mean over the starts, with Student's 95 % interval; a
        cost within it was not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_T_95: Final = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
    2.12,
    2.11,
    2.10,
    2.09,
)
"""Student's t, two-sided, for 1, 2, 3 ... degrees of freedom."""

COUNTS: Final = {
    "record": 200,
    "batches": 200,
    "large": 40,
    "transaction": 30,
    "visible": 30,
    "hundred": 30,
    "async_for": 60,
    "getmany": 60,
    "sync_for": 60,
    "async_send": 40,
    "sync_send": 40,
    "spark": 400,
}
WHAT: Final = {
    "record": "acks=all, single record, p50",
    "batches": "acks=all, 64 KiB batches, time per record",
    "large": "acks=all, 1 MiB batches, time per record",
    "transaction": "transaction of 1, back to back, p50",
    "visible": "transaction of 1, back to back, visible, p50",
    "hundred": "transaction of 100, back to back, p50",
    "async_for": "async for, time per record",
    "getmany": "getmany, time per record",
    "sync_for": "for without await, time per record",
    "async_send": "await send, time per record",
    "sync_send": "send without await, time per record",
    "spark": "Spark write, time per row",
}
KINDS: Final = ("record", "batches", "large", "transaction", "visible", "hundred")
"""What is measured when nothing is chosen."""
PACKAGES: Final = (
    "sdk",
    "spark",
    "services/runtime",
    "services/partition_leader",
    "services/coordinator",
    "services/pid_allocator",
    ".",
)


@dataclass(slots=True)
class Side:
    """One tree and one setting: `flags` go to every service, `environment` to the client too.

    `values`: of this start; `ratios` and `medians`: one per start. A kind's CPU time is the kind `KIND cpu`.
    """

    name: str
    tree: Path
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    values: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    medians: dict[str, list[float]] = field(default_factory=dict)

    def start(self, folder: str) -> subprocess.Popen[str]:
        """Starts its cluster. What is measured with comes from this tree, and the rest from the side's."""
        path = os.pathsep.join(str(self.tree / part) for part in PACKAGES)
        command = [sys.executable, str(ROOT / "bench" / "side.py"), folder, *self.flags]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), path)), **self.environment},
            cwd=folder,
        )
        return self.process

    def answer(self) -> str:
        """Its next line."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"side {self.name} ended by itself")
        return line

    def measure(self, kind: str, count: int) -> None:
        """One figure more."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{kind} {count}\n")
        self.process.stdin.flush()
        took, cpu = self.answer().split()
        self.values.setdefault(kind, []).append(float(took))
        self.values.setdefault(f"{kind} cpu", []).append(float(cpu))


def run(sides: Sequence[Side], kinds: Sequence[str], rounds: int, scale: float, order: Random) -> None:
    """Fills `values`. The first round is a warm-up and is dropped."""
    for _ in range(rounds + 1):
        for kind in kinds:
            for side in order.sample(sides, len(sides)):
                side.measure(kind, max(20, int(COUNTS[kind] * scale)))
    for side in sides:
        for found in side.values.values():
            del found[0]


def one_start(sides: Sequence[Side], kinds: Sequence[str], rounds: int, scale: float, order: Random) -> None:
    """Starts every side, measures, ends every side, and adds to `ratios` and `medians`."""
    with ExitStack() as stack:
        for side in order.sample(sides, len(sides)):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-"))
            process = stack.enter_context(side.start(folder))
            stack.callback(process.terminate)
            assert side.answer() == "ready"
        run(sides, kinds, rounds, scale, order)
        for side in sides:
            assert side.process is not None
            assert side.process.stdin is not None
            side.process.stdin.close()
            side.process.wait()
    for side in sides:
        for kind in side.values:
            ratios = [a / b for a, b in zip(side.values[kind], sides[0].values[kind], strict=True)]
            side.ratios.setdefault(kind, []).append(statistics.median(ratios))
            side.medians.setdefault(kind, []).append(statistics.median(side.values[kind]))
    for side in sides:
        side.values.clear()


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Where the true mean lies with 95 % confidence, if the starts are normally distributed. For two starts and more."""
    t = _T_95[min(len(ratios) - 1, len(_T_95)) - 1]
    half = t * statistics.stdev(ratios) / len(ratios) ** 0.5
    return statistics.mean(ratios) - half, statistics.mean(ratios) + half


def report(sides: Sequence[Side]) -> list[dict[str, object]]:
    """One row per kind and side, with the cost in percent of the first side."""
    rows: list[dict[str, object]] = []
    for kind in sides[0].ratios:
        for side in sides:
            low, high = interval(side.ratios[kind])
            rows.append(
                {
                    "what": what(kind),
                    "side": side.name,
                    "median": statistics.median(side.medians[kind]),
                    "cost_percent": 100 * (statistics.mean(side.ratios[kind]) - 1),
                    "from_percent": 100 * (low - 1),
                    "to_percent": 100 * (high - 1),
                    "starts": len(side.ratios[kind]),
                }
            )
    return rows


def what(kind: str) -> str:
    """In words."""
    name, _, cpu = kind.partition(" ")
    return f"{WHAT[name].removesuffix(', p50')}, CPU" if cpu else WHAT[name]


def compare(sides: Sequence[Side], kinds: Sequence[str], starts: int, rounds: int, scale: float, out: Path) -> None:
    """Everything: measures, keeps what is known in `out` after each start, and prints the rows."""
    order = Random(1)
    for number in range(starts):
        print(f"start {number + 1} of {starts}", file=sys.stderr, flush=True)
        one_start(sides, kinds, rounds, scale, order)
        if number:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(report(sides), indent=1) + "\n")
    for row in report(sides):
        print(
            f"{row['what']:<48} {row['side']:<18} {row['median']:8.3f}  {row['cost_percent']:+6.1f} %"
            f"  ({row['from_percent']:+.1f} to {row['to_percent']:+.1f})"
        )


def parse(parser: argparse.ArgumentParser, kinds: Sequence[str]) -> argparse.Namespace:
    """The command line, with what all comparisons have: --starts, --rounds, --only, --quick."""
    parser.add_argument("--starts", type=_at_least(2), default=12, help="clusters of each side (default %(default)s)")
    parser.add_argument("--rounds", type=_at_least(1), default=15, help="measurements of each (default %(default)s)")
    parser.add_argument("--only", default=",".join(kinds), help=f"of {', '.join(WHAT)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(WHAT):
        parser.error(f"--only knows {', '.join(WHAT)}, not {', '.join(sorted(unknown))}")
    return args


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"at least {least}")
        return int(text)

    return number
