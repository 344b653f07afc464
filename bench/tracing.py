"""What tracing costs: `python -m bench.tracing [--before TREE] [--starts 12] [--rounds 15] [--share 0.01]`.

Sides, each a cluster of its own with a client of its own, measured in turn, round after round:
  without  this tree with tracing compiled out (`bench.untraced`); with --before another tree, for example one before tracing
  off      this tree without an endpoint
  on       this tree with every service and the client sending to a collector, recording that share of the traces
  all      the same, recording everything (only with --all)
  again    the first side once more (only with --control): what the method finds where there is nothing

Rule 1: what else the machine does in a round hits all sides, so a start's figure is the median, over its rounds, of the ratio
        to the first side in the same round. Their order is drawn anew each time: a side may leave work to the next, for
        example its spans, which are sent five seconds later.
Rule 2: two clusters of the same code differ by some percent for as long as they live, so all sides are started anew
        `--starts` times, in an order that is drawn too. The figure is the mean over the starts, with Student's 95 % interval; a
        cost within it was not measured.
Rule 3: medians of single calls hardly see the recorded ones of a small share. Time per record does: it counts all.
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

from bench.untraced import write_untraced

ROOT: Final = Path(__file__).resolve().parents[1]
OUT: Final = Path(__file__).parent / "out" / "tracing.json"
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

COUNTS: Final = {"record": 200, "batches": 200, "transaction": 30}
WHAT: Final = {
    "record": "acks=all, single record, p50",
    "batches": "acks=all, 64 KiB batches, time per record",
    "transaction": "transaction of 1, back to back, p50",
}
_PACKAGES: Final = (
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
    """One tree and one setting. `share` None: no tracing. `values`: of this start; `ratios`: one per start."""

    name: str
    tree: Path
    share: float | None = None
    process: subprocess.Popen[str] | None = None
    values: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    medians: dict[str, list[float]] = field(default_factory=dict)

    def start(self, folder: str, collector: str) -> subprocess.Popen[str]:
        """Starts its cluster."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(self.tree / part) for part in _PACKAGES)}
        flags: list[str] = []
        if self.share is not None:
            sampler, share = "parentbased_traceidratio", str(self.share)
            environment |= {
                "ONCELOG_OTLP_ENDPOINT": collector,
                "ONCELOG_TRACE_SAMPLER": sampler,
                "ONCELOG_TRACE_SAMPLER_ARG": share,
            }
            flags = ["--otlp-endpoint", collector, "--trace-sampler", sampler, "--trace-sampler-arg", share]
        command = [sys.executable, str(ROOT / "bench" / "tracing_side.py"), folder, *flags]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
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
        self.values.setdefault(kind, []).append(float(self.answer()))


def run(sides: Sequence[Side], kinds: Sequence[str], rounds: int, scale: float, order: Random) -> None:
    """Fills `values`. The first round is a warm-up and is dropped."""
    for _ in range(rounds + 1):
        for kind in kinds:
            for side in order.sample(sides, len(sides)):
                side.measure(kind, max(20, int(COUNTS[kind] * scale)))
    for side in sides:
        for found in side.values.values():
            del found[0]


def one_start(
    sides: Sequence[Side], kinds: Sequence[str], rounds: int, scale: float, order: Random, collector: str
) -> None:
    """Starts every side, measures, ends every side, and adds to `ratios` and `medians`."""
    with ExitStack() as stack:
        for side in order.sample(sides, len(sides)):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-"))
            process = stack.enter_context(side.start(folder, collector))
            stack.callback(process.terminate)
            assert side.answer() == "ready"
        run(sides, kinds, rounds, scale, order)
        for side in sides:
            assert side.process is not None
            assert side.process.stdin is not None
            side.process.stdin.close()
            side.process.wait()
    for side in sides:
        for kind in kinds:
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


def report(sides: Sequence[Side], kinds: Sequence[str]) -> list[dict[str, object]]:
    """One row per kind and side, with the cost in percent of the first side."""
    rows: list[dict[str, object]] = []
    for kind in kinds:
        for side in sides:
            low, high = interval(side.ratios[kind])
            rows.append(
                {
                    "what": WHAT[kind],
                    "side": side.name,
                    "median": statistics.median(side.medians[kind]),
                    "cost_percent": 100 * (statistics.mean(side.ratios[kind]) - 1),
                    "from_percent": 100 * (low - 1),
                    "to_percent": 100 * (high - 1),
                    "starts": len(side.ratios[kind]),
                }
            )
    return rows


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    args = _parsed_arguments()
    kinds, order = args.only.split(","), Random(1)
    with ExitStack() as stack:
        first = Side("before", args.before.resolve()) if args.before is not None else Side("without", _untraced(stack))
        sides = [first, Side("off", ROOT), Side(f"on, {args.share:.0%} recorded", ROOT, args.share)]
        if args.all:
            sides.append(Side("on, all recorded", ROOT, 1.0))
        if args.control:
            sides.append(Side(f"{first.name}, again", first.tree))
        collector = stack.enter_context(
            subprocess.Popen([sys.executable, "-m", "bench.collector"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        )
        stack.callback(collector.terminate)
        assert collector.stdout is not None
        endpoint = f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        for number in range(args.starts):
            print(f"start {number + 1} of {args.starts}", file=sys.stderr, flush=True)
            one_start(sides, kinds, args.rounds, 0.1 if args.quick else 1.0, order, endpoint)
            if number:
                OUT.parent.mkdir(parents=True, exist_ok=True)
                OUT.write_text(json.dumps(report(sides, kinds), indent=1) + "\n")
    for row in report(sides, kinds):
        print(
            f"{row['what']:<44} {row['side']:<18} {row['median']:8.3f}  {row['cost_percent']:+6.1f} %"
            f"  ({row['from_percent']:+.1f} to {row['to_percent']:+.1f})"
        )
    return 0


def _parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.tracing")
    parser.add_argument(
        "--before", type=Path, help="a source tree to compare with, instead of this one without tracing"
    )
    parser.add_argument("--starts", type=_at_least(2), default=12, help="clusters of each side (default %(default)s)")
    parser.add_argument("--rounds", type=_at_least(1), default=15, help="measurements of each (default %(default)s)")
    parser.add_argument(
        "--share", type=float, default=0.01, help="of the traces that are recorded (default %(default)s)"
    )
    parser.add_argument("--all", action="store_true", help="a side that records everything, too")
    parser.add_argument("--control", action="store_true", help="the first side once more")
    parser.add_argument("--only", default=",".join(WHAT), help=f"of {', '.join(WHAT)}")
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


def _untraced(stack: ExitStack) -> Path:
    target = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-untraced-")))
    places = write_untraced(ROOT, _PACKAGES[:-1], target)
    print(f"tracing is compiled out of {places} places", file=sys.stderr)
    return target


if __name__ == "__main__":
    sys.exit(main())
