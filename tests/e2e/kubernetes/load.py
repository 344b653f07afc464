"""The load: many producers with transactions, plain producers, a copier, and readers; all they do goes into a history.

It runs in a pod, from the image under test, with the SDK's defaults: what a user would see, this sees.

    python -m tests.e2e.kubernetes.load run --bootstrap-servers HOST:PORT   until `stop`; then the final read
    python -m tests.e2e.kubernetes.load progress | stop | recording | read  asked in the pod, while it runs and after

The rules are those of `tests/simulation/recorded.py`, which the simulation's load keeps too.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Final

import oncelog
from oncelog import errors
from tests.e2e.kubernetes.recording import Recording, pack, pack_records
from tests.simulation.history import Key, Operation, Records, Status
from tests.simulation.recorded import RETRY_S, RecordedLoad, Session, encode, read_to

TOPICS: Final = {"e2e-orders": 6, "e2e-audit": 3}
COPY_OF: Final = "e2e-orders"
COPY: Final = "e2e-copies"
PARTITIONS: Final = {**TOPICS, COPY: TOPICS[COPY_OF]}
FOLDER: Final = Path(os.environ.get("LOAD_FOLDER", "/tmp/load"))
_SETTLE_S: Final = 90.0
"""How long open transactions may stay open after the load has stopped."""
_OPTIONS: Final = ("security_protocol", "ssl_cafile", "token_file")


def new_client(bootstrap_servers: str, **more: Any) -> oncelog.Client:
    """A client with the SDK's defaults; TLS and who it is come from the environment, as for the command line."""
    given = {name: value for name in _OPTIONS if (value := os.environ.get(f"ONCELOG_{name.upper()}"))}
    return oncelog.Client(bootstrap_servers, **given, **more)


class Load(RecordedLoad):
    """Runs its processes until `stopping` is set."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.recording = Recording()
        super().__init__(self.recording.history, pause_max_s=0.25)
        self.counts: collections.Counter[str] = collections.Counter()
        self.copier_ends: dict[Key, int] | None = None
        self._servers = bootstrap_servers

    # ------------------------------------------------------------ the history

    def now_ms(self) -> int:
        """Milliseconds since 1970, to be laid beside the harness's own times."""
        return time.time_ns() // 1_000_000

    def new_key(self, random: Random) -> Key:
        """A random partition of a random topic."""
        topic = random.choice(list(TOPICS))
        return topic, random.randrange(TOPICS[topic])

    def ended(self, operation: Operation, error: BaseException | None) -> None:
        """Counts it; an error is recorded."""
        self.counts[f"{operation.kind} {operation.status.value}"] += 1
        if isinstance(error, errors.OncelogError):
            self.note(operation.process, operation.kind, error)

    def note(self, process: str, kind: str, error: errors.OncelogError) -> None:
        """Records it, with what its class says about it."""
        self.counts[f"errors {type(error).__name__}"] += 1
        self.recording.errors.append(
            {
                "at_ms": self.now_ms(),
                "process": process,
                "kind": kind,
                "name": type(error).__name__,
                "retriable": error.retriable,
                "requires_abort": error.requires_abort,
                "message": str(error)[:300],
            }
        )

    # ------------------------------------------------------------ life

    def stop(self) -> None:
        """Every process ends after what it is doing."""
        self.stopping = True

    async def for_ever(self, name: str, session: Session) -> None:
        """One session after the other, with one client, until `stopping`."""
        await self.sessions(new_client(self._servers, client_id=name), name, Random(name), session)

    async def create_topics(self) -> None:
        """Where they are missing."""
        async with new_client(self._servers) as client:
            for topic, partitions in PARTITIONS.items():
                await client.admin.create_topic(topic, partitions=partitions, if_not_exists=True)

    async def run(self, producers: int) -> None:
        """The whole life: load, stop, settle, final read."""
        await self.create_topics()
        tasks = [self.for_ever(f"txn-{i}", self.transactions) for i in range(producers)]
        tasks += [self.for_ever(f"plain-{i}", self.plain_sends) for i in range(2)]
        tasks += [self.for_ever(f"reader-{i}", self.committed_reads) for i in range(2)]
        tasks += [self.for_ever("peeker", self.uncommitted_reads), self.copier()]
        running = [asyncio.create_task(task) for task in tasks]
        reporter = asyncio.create_task(self.report())
        *others, copier = running
        await asyncio.gather(*others)
        async with new_client(self._servers) as client:
            ends = await settled_ends(client, list(TOPICS))
            self.copier_ends = {key: end for key, end in ends.items() if key[0] == COPY_OF}
        await copier
        reporter.cancel()
        self.recording.final = await read_all(self._servers)
        self.recording.counts = dict(self.counts)

    async def report(self) -> None:
        """Counts, once a second, for `progress`."""
        while True:
            write_file("progress.json", json.dumps(self.counts).encode())
            await asyncio.sleep(1.0)

    # ------------------------------------------------------------ plain sends

    async def plain_sends(self, client: oncelog.Client, name: str, random: Random) -> None:
        """An idempotent producer: single sends, some of them at the same time."""
        async with client.producer() as producer:
            await self.send_some(producer, name, random, random.randint(20, 60))

    # ------------------------------------------------------------ transactions

    async def transactions(self, client: oncelog.Client, name: str, random: Random) -> None:
        """One session of a transactional producer: commits most, aborts some; then another session fences it."""
        async with client.producer(transactional_id=name) as producer:
            for _ in range(random.randint(10, 60)):
                if self.stopping or not await self._transaction(producer, name, random):
                    return
                await asyncio.sleep(random.random() * self.pause_max_s)

    async def _transaction(self, producer: Any, name: str, random: Random) -> bool:
        """False: this session is of no use any more."""
        operation = self.begin(name, "txn")
        self.new_writes(random, operation, random.randint(1, 5))
        txn = producer.transaction()
        try:
            await txn.begin()
            for (topic, partition), value in operation.writes:
                await txn.send(topic, value=encode(value), partition=partition)
            if random.random() < 0.15:
                await txn.abort()
                self.end(operation, Status.FAIL)
                return True
            await self.commit(txn, operation)
        except errors.OncelogError as error:
            return await self.end_by_outcome(txn, operation, error)
        self.end(operation, Status.OK)
        return True

    # ------------------------------------------------------------ readers

    async def committed_reads(self, client: oncelog.Client, name: str, _random: Random) -> None:
        """Follows all partitions from the beginning."""
        await self._follow(client, name, "poll", "read_committed")

    async def uncommitted_reads(self, client: oncelog.Client, name: str, _random: Random) -> None:
        """As well, and sees what is not committed yet."""
        await self._follow(client, name, "peek", "read_uncommitted")

    async def _follow(self, client: oncelog.Client, name: str, kind: str, isolation_level: str) -> None:
        async with client.consumer(auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
            await consumer.assign([(topic, p) for topic, count in TOPICS.items() for p in range(count)])
            while not self.stopping:
                await self.poll(consumer, name, kind)
                await asyncio.sleep(0.05)

    # ------------------------------------------------------------ consume, transform, produce

    async def copier(self) -> None:
        """Copies a topic exactly once, its offsets inside its transactions; ends when it has copied all."""
        client = new_client(self._servers, client_id="copier")
        try:
            is_done = False
            while not is_done:
                is_done = await self._copy_session(client)
        finally:
            await client.close()

    async def _copy_session(self, client: oncelog.Client) -> bool:
        """True: all is copied."""
        try:
            async with (
                client.producer(transactional_id="copier") as producer,
                client.consumer(group_id="copiers", auto_offset_reset="earliest") as consumer,
            ):
                await consumer.assign([(COPY_OF, p) for p in range(TOPICS[COPY_OF])])
                while not await self._is_copied(consumer):
                    await self._copy_some(producer, consumer)
                return True
        except errors.OncelogError as error:
            self.note("copier", "copy", error)
            await asyncio.sleep(RETRY_S)
            return False

    async def _is_copied(self, consumer: Any) -> bool:
        if self.copier_ends is None:
            return False
        return all([await consumer.position(key) >= end for key, end in self.copier_ends.items()])

    async def _copy_some(self, producer: Any, consumer: Any) -> None:
        records = await consumer.getmany(timeout_ms=300)
        if not records:
            return
        async with producer.transaction() as txn:
            for record in records:
                await txn.send(COPY, value=record.value, partition=record.partition)
            await txn.send_offsets(records)
        self.counts["copies ok"] += 1


# ---------------------------------------------------------------- the end of it


async def settled_ends(client: oncelog.Client, topics: list[str]) -> dict[Key, int]:
    """Where the partitions end, once no transaction is open on them. Raises `TimeoutError`."""
    async with asyncio.timeout(_SETTLE_S):
        while True:
            offsets = {topic: await client.admin.partition_offsets(topic) for topic in topics}
            if all(o.last_stable_offset == o.high_watermark for by in offsets.values() for o in by.values()):
                return {(t, p): o.high_watermark for t, by in offsets.items() for p, o in by.items()}
            await asyncio.sleep(0.2)


async def read_all(bootstrap_servers: str) -> dict[Key, Records]:
    """All that a fresh read_committed client sees of every topic, up to the end as it is now."""
    async with new_client(bootstrap_servers) as client:
        ends = await settled_ends(client, list(PARTITIONS))
        async with client.consumer(auto_offset_reset="earliest", max_poll_records=5_000) as consumer:
            await consumer.assign(list(ends))
            return await read_to(consumer, ends)


# ---------------------------------------------------------------- the command line


def write_file(name: str, data: bytes) -> None:
    """Whole or not at all: others look at it meanwhile."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    temporary = FOLDER / f".{name}"
    temporary.write_bytes(data)
    temporary.replace(FOLDER / name)


async def run(bootstrap_servers: str, producers: int) -> None:
    """Runs until SIGUSR1 (`stop`), then writes the recording."""
    load = Load(bootstrap_servers)
    write_file("pid", str(os.getpid()).encode())
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, load.stop)
    try:
        await load.run(producers)
    except BaseException as error:
        write_file("failed", repr(error).encode())
        raise
    write_file("recording.gz", pack(load.recording))


def stop(timeout_s: float) -> int:
    """Asks the running load to stop, and waits for its recording."""
    os.kill(int((FOLDER / "pid").read_text()), signal.SIGUSR1)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if (FOLDER / "recording.gz").exists():
            return 0
        if (FOLDER / "failed").exists():
            print((FOLDER / "failed").read_text(), file=sys.stderr)
            return 1
        time.sleep(0.2)
    print(f"the load did not end within {timeout_s:.0f} s", file=sys.stderr)
    return 1


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="load")
    parser.add_argument("verb", choices=("run", "progress", "stop", "recording", "read"))
    parser.add_argument("--bootstrap-servers", default=os.environ.get("ONCELOG_BOOTSTRAP_SERVERS", ""))
    parser.add_argument("--producers", type=int, default=8, help="transactional producers")
    parser.add_argument("--timeout-s", type=float, default=240.0, help="of `stop`")
    parser.add_argument("--stay", action="store_true", help="stay after `run`, so that others can ask")
    parser.add_argument("--idle", action="store_true", help="`run` nothing, only stay")
    args = parser.parse_args()
    if args.verb == "run":
        if not args.idle:
            asyncio.run(run(args.bootstrap_servers, args.producers))
        if args.stay or args.idle:
            signal.sigwait({signal.SIGTERM, signal.SIGINT})
    elif args.verb == "read":
        print(json.dumps(pack_records(asyncio.run(read_all(args.bootstrap_servers)))))
    elif args.verb == "stop":
        return stop(args.timeout_s)
    else:
        name = "progress.json" if args.verb == "progress" else "recording.gz"
        sys.stdout.buffer.write((FOLDER / name).read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
