"""The parts that `bench` and `verify` share: a topic for the time of a run, latencies, and a line of progress.

Rule: nothing heavy is imported here; these verbs' own files are imported by every command.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog_cli.terminal.argument_types import id_of, size_bytes, span_ms

if TYPE_CHECKING:
    from oncelog.client.client import Client

_SAMPLES_MAX: Final = 100_000


class Samples:
    """Latencies in ms. When there are too many, every second one is dropped, then only every second one is kept, and so on."""

    def __init__(self) -> None:
        self._kept: list[float] = []
        self._every = 1
        self._skipped = 0
        self.count = 0

    def add(self, ms: float) -> None:
        """One more."""
        self.count += 1
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self._kept.append(ms)
        if len(self._kept) >= _SAMPLES_MAX:
            self._kept = self._kept[::2]
            self._every *= 2

    def percentile(self, percent: float) -> float:
        """The value that so many percent do not exceed; 0 without samples."""
        if not self._kept:
            return 0.0
        ordered = sorted(self._kept)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

    def summary(self) -> dict[str, float]:
        """p50, p99 and the largest, in ms."""
        return {name: round(self.percentile(p), 2) for name, p in (("p50", 50.0), ("p99", 99.0), ("max", 100.0))}


class Progress:
    """One line, written over and over on a terminal's standard error; nothing elsewhere, where it would fill logs."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown and sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Replaces the line."""
        if self._shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Removes the line."""
        self.say("")


async def report(progress: Progress, line: Callable[[], str], interval_s: float = 0.5) -> None:
    """Says `line()` twice a second until it is cancelled."""
    import asyncio

    try:
        while True:
            await asyncio.sleep(interval_s)
            progress.say(line())
    finally:
        progress.close()


@contextlib.asynccontextmanager
async def reporting(line: Callable[[], str], *, shown: bool = True, interval_s: float = 0.5) -> AsyncIterator[None]:
    """Says `line()` on a terminal's standard error while the body runs, and removes it at the end."""
    import asyncio

    showing = asyncio.create_task(report(Progress(shown), line, interval_s))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait((showing,))


def add_topic_flags(parser: argparse.ArgumentParser) -> None:
    """`--topic`, or how to make one."""
    parser.add_argument("--topic", help="an existing topic; default: it makes one, and deletes it at the end")
    parser.add_argument("--partitions", type=id_of, default=6, help="partitions of the topic that it makes (default 6)")
    parser.add_argument(
        "--replication-factor",
        type=id_of,
        default=0,
        help="replicas of the topic that it makes; 0 = the cluster's default",
    )
    parser.add_argument("--keep-topic", action="store_true", help="do not delete the topic that it made")


@contextlib.asynccontextmanager
async def topic_for(client: Client, args: argparse.Namespace, prefix: str) -> AsyncIterator[str]:
    """The topic of this run. Its own one is deleted at the end, also after an error."""
    if args.topic:
        yield args.topic
        return
    name = f"{prefix}-{time.time_ns() // 1_000_000:x}"
    await client.admin.create_topic(name, partitions=args.partitions, replication_factor=args.replication_factor)
    try:
        yield name
    finally:
        if not args.keep_topic:
            try:
                await client.admin.delete_topic(name)
            except OncelogError as error:  # the result of the run is worth more
                print(f"the topic {name} stays, delete it: {error}", file=sys.stderr, flush=True)


def positive(text: str) -> int:
    """A whole number above 0, for flags."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {text}")
    return number


def port(text: str) -> int:
    """A port to listen on, for flags."""
    number = id_of(text)
    if not 1 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"a port is 1 to 65535, not {text}")
    return number


def size(text: str) -> int:
    """A number of bytes above 0, for flags: `512`, `64KiB`."""
    number = size_bytes(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {text}")
    return number


def seconds(text: str) -> float:
    """A duration for flags: `30`, `30s`, `1.5m`, `1h30m` or `500ms`."""
    try:
        return span_ms(text) / 1000
    except argparse.ArgumentTypeError:
        unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    try:
        value = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"a duration is 30, 30s, 500ms, 5m or 1h30m, not {text!r}")
    return value


def rate(share: str) -> float:
    """A share from 0 to 1, for flags."""
    number = float(share)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"from 0 to 1, not {share}")
    return number
