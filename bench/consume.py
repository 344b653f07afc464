"""How fast one consumer reads, beside `confluent-kafka` on a Kafka of three brokers: `python -m bench.consume`.

    --records N                records of 100 bytes that each measurement reads (default 1,000,000)
    --start-kafka JARS         starts a Kafka beside our cluster (`bench.kafka_peer` says what the folder holds), or
    --kafka HOST:PORT          uses one that runs already
    --kafka-python PYTHON      an interpreter that has confluent-kafka (default: this one)

Four ways to read (`async for`, `getmany`, `batches`, `arrow_batches`), each with partitions that are assigned and as the only
member of a group that subscribes; beside them `consume(10000)` of confluent-kafka, assigned and subscribed. Both sides have one
topic with three partitions and three replicas, written in batches of 64 KiB without compression, read_committed, the defaults
of each client, and one process that reads. The clock runs from the first record on.

Rule: each of the `--rounds` measures everything once, in an order that is drawn anew, so that what else the machine does meets
all alike. Printed are the median, the lowest and the highest; the ratio is the median over the rounds of ours to Kafka's of
the same round. The first round warms up and is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import uvloop

from bench.kafka_peer import KafkaCluster
from bench.loops import PARTITIONS, READ_TOPIC, create
from bench.produce import RECORD_BYTES
from oncelog.client.client import Client
from oncelog.client.consume.consumer import Consumer
from oncelog.link.malloc import tune_malloc
from oncelog_cli.laptop.local_cluster import LocalCluster

ASSIGNED: Final = "assigned"
SUBSCRIBED: Final = "subscribed"
KAFKA: Final = "confluent-kafka consume(10000)"
_MORE: Final = 20_000
"""Records beyond those that are read, so that no reader waits for the last ones."""


# ---------------------------------------------------------------- ours


async def async_for(consumer: Consumer, records: int) -> int:
    """Reads one record after the other."""
    left = records
    async for _ in consumer:
        left -= 1
        if not left:
            break
    return records


async def getmany(consumer: Consumer, records: int) -> int:
    """Reads lists."""
    seen = 0
    while seen < records:
        seen += len(await consumer.getmany())
    return seen


async def batches(consumer: Consumer, records: int) -> int:
    """Reads lists, by a loop over them."""
    seen = 0
    async for found in consumer.batches():
        seen += len(found)
        if seen >= records:
            break
    return seen


async def arrow_batches(consumer: Consumer, records: int) -> int:
    """Reads Arrow batches."""
    seen = 0
    async for rows in consumer.arrow_batches():
        seen += rows.num_rows
        if seen >= records:
            break
    return seen


WAYS: Final[dict[str, Callable[[Consumer, int], Coroutine[Any, Any, int]]]] = {
    "async for": async_for,
    "getmany": getmany,
    "batches": batches,
    "arrow_batches": arrow_batches,
}


@asynccontextmanager
async def reader(servers: str, how: str) -> AsyncIterator[Consumer]:
    """A consumer that has not read yet."""
    async with Client(servers) as client:
        if how == ASSIGNED:
            async with client.consumer(READ_TOPIC, auto_offset_reset="earliest") as consumer:
                yield consumer
            return
        async with client.consumer(group_id=uuid.uuid4().hex, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(READ_TOPIC)
            yield consumer


async def our_speed(servers: str, way: str, how: str, records: int) -> float:
    """Records per second."""
    async with reader(servers, how) as consumer:
        await consumer.getone()
        began_s = time.perf_counter()
        seen = await WAYS[way](consumer, records)
        return seen / (time.perf_counter() - began_s)


# ---------------------------------------------------------------- Kafka's


class KafkaReader:
    """The process that reads from Kafka."""

    def __init__(self, python: str, servers: str) -> None:
        program = str(Path(__file__).parent / "kafka_reader.py")
        self._process = subprocess.Popen(
            [python, program, servers, f"bench-{uuid.uuid4().hex[:8]}", str(PARTITIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *words: object) -> float:
        """One command, and its answer in records per second."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(
                "the reader of Kafka ended by itself: does its Python have confluent-kafka (--kafka-python)?"
            )
        return float(line)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# ---------------------------------------------------------------- rounds


@dataclass(frozen=True, slots=True)
class Line:
    """One way to read. Speeds in records per second; `ratio` to Kafka's with the same way to get partitions, if measured."""

    how: str
    way: str
    median: float
    lowest: float
    highest: float
    ratio: float | None


Measured = tuple[str, str]
"""How partitions are got, and the way to read."""


def in_rounds(
    measure: dict[Measured, Callable[[], float]],
    rounds: int,
    order: Random,
    tell: Callable[[int], None] = lambda _: None,
) -> dict[Measured, list[float]]:
    """The speeds of each, one per round, without the first round."""
    speeds: dict[Measured, list[float]] = {name: [] for name in measure}
    for number in range(rounds + 1):
        tell(number)
        for name in order.sample(list(measure), len(measure)):
            speed = measure[name]()
            if number:
                speeds[name].append(speed)
    return speeds


def lines(speeds: dict[Measured, list[float]]) -> list[Line]:
    """What the rounds say."""
    found = []
    for (how, way), ours in speeds.items():
        theirs = speeds.get((how, KAFKA))
        ratio = None if theirs is None else statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        found.append(Line(how, way, statistics.median(ours), min(ours), max(ours), ratio))
    return found


def table(found: Sequence[Line]) -> str:
    """For people."""
    rows = [f"{'partitions':<11} {'read by':<32} {'k records/s':>11}  {'lowest - highest':>18}  {'to Kafka':>8}"]
    for line in found:
        spread = f"{line.lowest / 1e3:.0f} - {line.highest / 1e3:.0f}"
        ratio = "-" if line.ratio is None else f"{line.ratio:.2f}"
        rows.append(f"{line.how:<11} {line.way:<32} {line.median / 1e3:>11.0f}  {spread:>18}  {ratio:>8}")
    return "\n".join(rows)


def _tell(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)


def _kafka(stack: ExitStack, args: argparse.Namespace) -> KafkaReader | None:
    """A filled Kafka, if one is asked for."""
    servers = args.kafka
    if args.start_kafka:
        _tell("starting Kafka")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-kafka-")))
        servers = stack.enter_context(KafkaCluster(Path(args.start_kafka), folder)).bootstrap_servers
    if not servers:
        return None
    found = KafkaReader(args.kafka_python, servers)
    stack.callback(found.close)
    _tell("filling Kafka")
    found.ask("fill", args.records + _MORE, RECORD_BYTES)
    return found


def run(args: argparse.Namespace) -> list[Line]:
    """Starts both sides, fills them, and measures."""
    tune_malloc()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-"))
        servers = stack.enter_context(LocalCluster(Path(folder))).bootstrap_servers
        _tell("filling oncelog")
        create(servers, {}, args.records + _MORE)
        kafka = _kafka(stack, args)
        measure: dict[Measured, Callable[[], float]] = {}
        for how in (ASSIGNED, SUBSCRIBED):
            for way in WAYS:
                measure[how, way] = lambda how=how, way=way: loop.run_until_complete(  # type: ignore[misc]
                    our_speed(servers, way, how, args.records)
                )
            if kafka is not None:
                measure[how, KAFKA] = lambda how=how: kafka.ask(how, args.records)  # type: ignore[misc]
        speeds = in_rounds(measure, args.rounds, Random(1), lambda number: _tell(f"round {number} of {args.rounds}"))
    return lines(speeds)


def main() -> int:
    """Exit code 0: a benchmark informs, it does not gate."""
    parser = argparse.ArgumentParser(prog="python -m bench.consume")
    parser.add_argument("--records", type=int, default=1_000_000, help="records per measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each (default %(default)s)")
    kafka = parser.add_mutually_exclusive_group()
    kafka.add_argument("--kafka", metavar="HOST:PORT", help="a Kafka that runs")
    kafka.add_argument("--start-kafka", metavar="JARS", help="a folder with Kafka's jars: starts three brokers")
    parser.add_argument("--kafka-python", default=sys.executable, metavar="PYTHON", help="has confluent-kafka")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    found = run(args)
    print(json.dumps([asdict(line) for line in found], indent=1) if args.format == "json" else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
