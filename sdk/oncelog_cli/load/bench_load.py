"""The loads of `oncelog bench`.

Rule: what is measured is what a program of the user's would do with the same calls; nothing here reaches below the SDK.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from oncelog import Client
from oncelog.errors import OncelogError
from oncelog_cli.terminal.progress import Samples, reporting, topic_for

if TYPE_CHECKING:
    from oncelog.client.consume.consumer import Consumer
    from oncelog.client.produce.delivery import Delivery
    from oncelog.client.produce.producer import Producer
    from oncelog.option_types import ProducerOptions

_SAMPLE_EVERY: Final = 50
"""One send in so many has its acknowledgement awaited: awaiting each would measure the waiting."""
_CHECK_EVERY: Final = 200
_POLL_MS: Final = 500
_VALUES: Final = 64
_VALUES_BYTES: Final = 64 << 20


class Bench:
    """One run: counts, latencies, and when to stop."""

    def __init__(self, client: Client, args: argparse.Namespace, topic: str) -> None:
        self._client = client
        self._args = args
        self._topic = topic
        self._random = random.Random(1)
        count = max(1, min(_VALUES, _VALUES_BYTES // args.record_size))
        self._values = [_value(self._random, args.record_size) for _ in range(count)]
        self._began = time.monotonic()
        self._left = args.records or (1 << 62)
        self.records = 0
        self.bytes = 0
        self.transactions = 0
        self.latency = Samples()
        self.errors: Counter[str] = Counter()

    # ------------------------------------------------------------ when

    def start(self) -> None:
        """The clock runs from here."""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began

    def goes_on(self) -> bool:
        """There is more to do."""
        return self._left > 0 and not (self._args.duration and self.seconds >= self._args.duration)

    def take(self, count: int) -> int:
        """At most `count` records of what is left."""
        taken = min(count, self._left)
        self._left -= taken
        return taken

    def done(self, records: int, size: int) -> None:
        """So many records are through."""
        self.records += records
        self.bytes += size

    # ------------------------------------------------------------ produce

    async def produce(self) -> None:
        """All producers, to the last acknowledgement."""
        await asyncio.gather(*(self._produce() for _ in range(self._args.producers)))
        if self.errors and not self.latency.count:  # a send is counted before it is acknowledged, and none was
            self.records = self.bytes = 0

    async def _produce(self) -> None:
        values, topic = self._values, self._topic
        options = self._batching()
        options["acks"] = self._args.acks
        if self._args.acks != "all":
            options["enable_idempotence"] = False
        async with self._client.producer(**options) as producer:
            awaited: set[asyncio.Task[None]] = set()
            while self.goes_on():
                count = self.take(_CHECK_EVERY)
                for i in range(count):
                    began = time.perf_counter()
                    delivery = await producer.send(topic, values[i % len(values)])
                    if i % _SAMPLE_EVERY == 0:
                        task = asyncio.ensure_future(self._acknowledged(delivery, began))
                        awaited.add(task)
                        task.add_done_callback(awaited.discard)
                self.done(count, count * self._args.record_size)
                await asyncio.sleep(0)
            try:
                await producer.flush()
            except OncelogError as error:
                self.errors[error.code.name] += 1
            await asyncio.gather(*awaited)

    async def _acknowledged(self, delivery: Delivery, began: float) -> None:
        try:
            await delivery
        except OncelogError as error:
            self.errors[error.code.name] += 1
        else:
            self.latency.add((time.perf_counter() - began) * 1000)

    def _batching(self) -> ProducerOptions:
        args = self._args
        return {"batch_size": args.batch_size, "linger_ms": args.linger_ms, "compression_type": args.compression}

    # ------------------------------------------------------------ transactions

    async def transact(self) -> None:
        """All producers, each one transaction after the other."""
        name = f"oncelog-bench-{time.time_ns():x}"
        await asyncio.gather(*(self._transact(f"{name}-{i}") for i in range(self._args.producers)))

    async def _transact(self, transactional_id: str) -> None:
        options = self._batching()
        options["transactional_id"] = transactional_id
        async with self._client.producer(**options) as producer:
            while self.goes_on():
                count = self.take(self._args.txn_size)
                began = time.perf_counter()
                try:
                    await self._one(producer, count)
                except OncelogError as error:
                    self.errors[error.code.name] += 1
                    if error.fatal:
                        return
                    continue
                self.latency.add((time.perf_counter() - began) * 1000)
                self.transactions += 1
                self.done(count, count * self._args.record_size)

    async def _one(self, producer: Producer, count: int) -> None:
        transaction = await producer.begin_transaction()
        try:
            for i in range(count):
                await transaction.send(self._topic, self._values[i % len(self._values)])
            if self._random.random() < self._args.abort_rate:
                await transaction.abort()
            else:
                await transaction.commit(wait=self._args.wait)
        except OncelogError as error:
            if not error.fatal:
                await transaction.abort()
            raise

    # ------------------------------------------------------------ consume

    async def fill(self) -> None:
        """The topic of its own needs something to read."""
        given = vars(self._args)
        records = self._args.records or self._args.records_default
        args = argparse.Namespace(**{**given, "acks": "all", "duration": None, "records": records})
        await Bench(self._client, args, self._topic).produce()

    async def consume(self) -> None:
        """All consumers, each its share of the partitions, from the beginning to the end as it is now."""
        offsets = await self._client.admin.partition_offsets(self._topic)
        names = sorted(offsets)
        shares = [names[i :: self._args.consumers] for i in range(self._args.consumers)]
        ends = {name: offsets[name].last_stable_offset for name in names}
        await asyncio.gather(*(self._consume(share, ends) for share in shares if share))

    async def _consume(self, partitions: list[int], ends: dict[int, int]) -> None:
        where = [(self._topic, partition) for partition in partitions]
        async with self._client.consumer(auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
            await consumer.assign(where)
            await consumer.seek_to_beginning(*where)
            while self.goes_on():
                began = time.perf_counter()
                found = await consumer.getmany(timeout_ms=_POLL_MS)
                if found:
                    self.latency.add((time.perf_counter() - began) * 1000)
                    self.take(len(found))
                    self.done(len(found), sum(len(r.value or b"") + len(r.key or b"") for r in found))
                elif await self._at_end(consumer, partitions, ends):
                    return

    async def _at_end(self, consumer: Consumer, partitions: list[int], ends: dict[int, int]) -> bool:
        for partition in partitions:
            if await consumer.position((self._topic, partition)) < ends[partition]:
                return False
        return True

    # ------------------------------------------------------------ result

    def progress(self) -> str:
        """One line about what has happened so far."""
        seconds = max(self.seconds, 0.001)
        return (
            f"{seconds:.0f} s: {self.records} records, {self.records / seconds:,.0f} records/s,"
            f" {self.bytes / seconds / 1e6:.1f} MB/s, p50 {self.latency.percentile(50):.1f} ms"
        )

    def result(self, name: str) -> dict[str, object]:
        """As it is printed. MB are 10^6 bytes of keys and values."""
        seconds = max(self.seconds, 0.001)
        latency = self.latency.summary()
        found: dict[str, object] = {
            "bench": name,
            "records": self.records,
            "mb": round(self.bytes / 1e6, 2),
            "seconds": round(seconds, 2),
            "records_per_s": round(self.records / seconds),
            "mb_per_s": round(self.bytes / seconds / 1e6, 2),
            "p50_ms": latency["p50"],
            "p99_ms": latency["p99"],
            "max_ms": latency["max"],
            "errors": dict(sorted(self.errors.items())),
        }
        if name == "txn":
            found["transactions"] = self.transactions
            found["transactions_per_s"] = round(self.transactions / seconds, 1)
        return found


def _value(source: random.Random, size: int) -> bytes:
    """Half of it compresses."""
    return source.randbytes(size // 2).ljust(size, b"-")


async def run(client: Client, args: argparse.Namespace, shown: bool) -> dict[str, object]:
    """The verb that `args.action` names."""
    async with topic_for(client, args, "oncelog-bench") as topic:
        bench = Bench(client, args, topic)
        if args.action == "consume" and not args.topic:
            async with reporting(lambda: "writing the records that will be read", shown=shown):
                await bench.fill()
        bench.start()
        async with reporting(bench.progress, shown=shown):
            await {"produce": bench.produce, "txn": bench.transact, "consume": bench.consume}[args.action]()
        return bench.result(args.action)
