"""`python -m tests.simulation.run --seed N --seeds M [--jobs 2]`: many seeds, in several processes.

Prints a line for each failing seed, with what it takes to see it again, and at the end what was injected and what
succeeded: a run in which nothing failed because nothing happened is not a pass. Exit status 1 on any violation.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from tests.simulation import hard_plan
from tests.simulation.scenario import Verdict, run_seed

_SEEDS_PER_PROCESS = 50
NEEDED = (
    *("send ok", "txn ok", "txn fail", "poll ok", "batches committed", "copier commits"),
    *("deletions from shard logs", "lives of shards compared", "lives that read a shorter log"),
)
"""Over many seeds each of these must have happened."""


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    options = _options(arguments)
    seeds = range(options.seed, options.seed + options.seeds)
    began = time.monotonic()
    total = Verdict(options.seed)
    failed: list[Verdict] = []
    for done, verdict in enumerate(_run(seeds, options.jobs, tuple(options.force)), 1):
        _add(total, verdict)
        if verdict.violations:
            failed.append(verdict)
            print(f"\r{verdict}\n  {again(verdict.seed, options.force)}", flush=True)
        if sys.stdout.isatty() or done % 50 == 0:
            end = "" if sys.stdout.isatty() else "\n"
            print(f"\r{done}/{len(seeds)} seeds, {len(failed)} failed", end=end, flush=True)
    _report(total, len(seeds), len(failed), time.monotonic() - began)
    missing = [name for name in NEEDED if not total.operations[name]] if len(seeds) >= 20 else []
    if missing:
        print(f"nothing of this ever happened: {', '.join(missing)}")
    return 1 if failed or missing else 0


def again(seed: int, forced: Iterable[str]) -> str:
    """The command that runs a seed again; a fault that was forced makes another run of it."""
    words = " ".join(f"--force {kind}" for kind in forced)
    return f"make sim SEED={seed} SEEDS=1" + (f' ARGS="{words}"' if words else "")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many, one after the other")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument("--force", action="append", default=[], choices=hard_plan.KINDS, help="a fault in every seed")
    return parser.parse_args(arguments)


def _run(seeds: Iterable[int], jobs: int, forced: tuple[str, ...]) -> Iterator[Verdict]:
    seeds, run = list(seeds), partial(run_seed, forced=forced)
    if jobs <= 1 or len(seeds) == 1:
        yield from map(run, seeds)
        return
    # Not an executor: with `max_tasks_per_child` Python 3.11's may wait for ever for a worker that it never starts.
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=_SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(run, seeds)


def _add(total: Verdict, verdict: Verdict) -> None:
    total.virtual_ms += verdict.virtual_ms
    total.steps += verdict.steps
    total.sights += verdict.sights
    total.injected.update(verdict.injected)
    total.operations.update(verdict.operations)
    total.causes.update(verdict.causes)
    total.available.add(verdict.available)
    total.digest = verdict.digest


def _report(total: Verdict, seeds: int, failed: int, seconds: float) -> None:
    print(f"\r{seeds} seeds in {seconds:.0f} s: {failed} failed, {total.virtual_ms // 1000} virtual seconds,", end=" ")
    print(f"{total.steps} steps, {total.sights} changes of partitions checked")
    print(f"  operations: {_listed(total.operations)}")
    print(f"  causes: {_listed(total.causes)}")
    print(f"  {sum(total.injected.values())} faults: {_listed(total.injected)}")
    print("  availability of writes with acks=all, while a majority is fit and connected:")
    for line in total.available.table():
        print(f"    {line}")
    if seeds == 1:
        print(f"  digest {total.digest}")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
