"""One client process of the load: it does what the clients of the simulation do, and journals all of it.

    python -m tests.blackbox.load --servers A:1,B:1 --role senders --life 7 --round 3 --journal FILE

Rule 1: SIGUSR1 ends it: writers end after what they are doing; readers, copiers and workers after they have reached the end
        of everything, which stands still by then.
Rule 2: a killed process is replaced by another life, whose transactional ids are the same: the old ones are fenced.
Rule 3: each round has topics of its own.
Rule 4: what limits it is the cluster: a process has many operations under way, so that a slow machine has no idle clients.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

import oncelog
from oncelog import errors
from tests.blackbox.channel_load import ChannelLoad
from tests.blackbox.journal import JournaledHistory
from tests.blackbox.round_topics import KEYS, topics_of
from tests.simulation.copier import HASTY, PATIENT, Copier
from tests.simulation.history import Key, Operation, Status
from tests.simulation.later_load import LaterLoad
from tests.simulation.recorded import RETRY_S
from tests.simulation.topics import WORK
from tests.simulation.workload import Workload, hasty

ROLES: Final = ("senders", "transactions", "readers", "copiers", "helpers", "workers")
"""`helpers` are members of the copiers' group, and workers of the channels, in a process of their own: so partitions and
records go to and from a process that is frozen, cut off or killed. `senders` send delayed records too."""
_PAUSE_MAX_S: Final = 0.08
_BURST_MAX: Final = 64
"""Sends that one task has under way at the same time."""
_TASKS: Final = 6
"""Of one process that writes; the last of them gives up early."""
_DELAYS_MS: Final = (50, 500, 2_000, 6_000, 20_000)
_SNAPSHOOTERS: Final = 3
_DRAIN_S: Final = 120.0


class _Network:
    """Nobody repeats requests on this network: TCP does not, and there is no proxy."""

    @staticmethod
    def copies_under_way(_method: str) -> int:
        return 0


class _World:
    """Where the simulation's load finds time and chance; here they are those of the machine."""

    loop = time
    network = _Network()

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def random(self, name: str) -> Random:
        """A stream of its own for each name."""
        return Random(f"{self._seed}:{name}")


class _RealCluster:
    """What the simulation's load asks of a cluster, of a real one."""

    def __init__(self, servers: str, seed: str) -> None:
        self.world = _World(seed)
        self._servers = servers

    def client(self, name: str = "", **options: Any) -> oncelog.Client:
        """A client with the SDK's own transport."""
        return oncelog.Client(self._servers, client_id=name or "blackbox", **options)


class BlackBoxLoad(Workload):
    """The simulation's load on a real cluster, with a journal for its history. `name` tells its processes from others."""

    def __init__(self, servers: str, name: str, life: int, number: str, journal: Path, seed: int = 0) -> None:
        self.topics = topics_of(number)
        super().__init__(_RealCluster(servers, f"{seed}:{name}:{life}"), self.topics.all)  # type: ignore[arg-type]
        self.history: JournaledHistory = JournaledHistory(journal, life)
        self.pause_max_s = _PAUSE_MAX_S
        self._servers = servers
        self._name = name
        self._life_name = f"{name}/{life}"
        """How the names of this life's tasks begin."""
        self._number = number
        self._random = Random(f"{seed}:{name}:{life}:own")
        self._ended = asyncio.Event()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def note(self, process: str, kind: str, error: errors.OncelogError) -> None:
        """Journals it."""
        self.history.note_error(self.now_ms(), process, kind, type(error).__name__, str(error))

    def payload(self, topic: str, value: int) -> bytes:
        """Small ones; now and then one that fills a part of a segment."""
        large = topic.startswith(WORK) and self._sizes.random() < 0.02
        return str(value).encode().ljust(self._sizes.randrange(8_000) if large else 0)

    def record_key(self, topic: str, value: int) -> bytes | None:
        """Jobs have one of a few keys."""
        return b"%d" % (value % KEYS) if topic == self.topics.jobs else None

    def stop(self) -> None:
        """See rule 1."""
        self.stopping = True
        self._ended.set()

    # ------------------------------------------------------------ roles

    def tasks(self, role: str) -> list[Coroutine[Any, Any, None]]:
        """What a process of this role does at the same time."""
        names = [f"{self._life_name}-{role}-{i}" for i in range(_TASKS)]
        *patient, last = names
        impatient = hasty(self._random)
        if role == "senders":
            return [*map(self.sender, patient), self.sender(last, impatient), *self._later().tasks()]
        if role == "transactions":
            ids = {name: f"{self._name}-{self._number}-{i}" for i, name in enumerate(names)}
            return [
                *(self.transactor(name, ids[name]) for name in patient),
                self.transactor(last, ids[last], impatient),
            ]
        if role == "copiers":
            return [self._copy(is_last=True)]
        if role == "helpers":
            return [self._copy(is_last=False), *self._channels(is_last=False).tasks()]
        if role == "workers":
            return self._channels(is_last=True).tasks()
        follow = [self._follow(names[0], "poll"), self._follow(names[1], "peek")]
        return [*follow, *map(self.snapshooter, names[2 : 2 + _SNAPSHOOTERS])]

    def _later(self) -> LaterLoad:
        topics, id_ = self.topics, f"{self._name}-{self._number}-later"
        return LaterLoad(self, self._life_name, id_, topics.later_keys, topics.job_keys, _DELAYS_MS, self.now_ms)

    def _channels(self, *, is_last: bool) -> ChannelLoad:
        """`is_last`: it takes what others leave behind."""
        return ChannelLoad(self, self.topics, self._life_name, f"{self._name}-{self._number}-done", is_last=is_last)

    async def send_some(self, producer: Any, name: str, random: Random, count: int) -> None:
        """As in the simulation, and more of them at the same time."""
        for _ in range(count):
            if self.stopping:
                return
            burst = random.randint(1, random.choice([4, _BURST_MAX // 4, _BURST_MAX]))
            await asyncio.gather(*(self._send(producer, name, random) for _ in range(burst)))
            await asyncio.sleep(random.random() * self.pause_max_s)

    async def _copy(self, *, is_last: bool) -> None:
        """`is_last`: who copies to where everything ends; others leave when they are asked to, and it takes what was theirs."""
        source, target = self.topics.work, self.topics.copy
        name, group = f"{self._name}-{self._number}", f"copiers-{self._number}"
        copier = Copier(self, source, target, name, group, (PATIENT, HASTY))
        running = asyncio.create_task(copier.main())
        await self._ended.wait()
        ends = await self._ends() if is_last else {}
        copier.finish_at({key: end for key, end in ends.items() if key[0] == source})
        await asyncio.wait((running,), timeout=_DRAIN_S)
        if not running.done():
            running.cancel()
            raise TimeoutError(
                f"not everything was copied within {_DRAIN_S:.0f} s; the last error was {copier.trouble!r}"
            )
        running.result()

    async def _follow(self, name: str, kind: str) -> None:
        """Follows all partitions from the beginning, and in the end to where they end."""
        level = "read_committed" if kind == "poll" else "read_uncommitted"
        async with self.cluster.client(name, default_api_timeout_ms=10_000) as client:
            consumer = client.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=200, isolation_level=level)
            async with consumer:
                await consumer.assign(self.keys)
                while not self.stopping:
                    await self.poll(consumer, name, kind)
                ends = await self._ends()
                async with asyncio.timeout(_DRAIN_S):
                    while any([await consumer.position(key) < ends[key] for key in self.keys]):
                        await self.poll(consumer, name, kind)
        self.end(self._drained(name, ends), Status.OK)

    def _drained(self, name: str, ends: dict[Key, int]) -> Operation:
        """Says that this process has read everything below these ends."""
        operation = self.begin(name, "drained")
        operation.read_ends = {key: ends[key] for key in self.keys}
        return operation

    async def _ends(self) -> dict[Key, int]:
        """Where everything ends."""
        while True:
            try:
                async with self.cluster.client("ends") as client:
                    found = {topic: await client.admin.partition_offsets(topic) for topic, _ in self.keys}
                    return {(t, p): o.high_watermark for t, by in found.items() for p, o in by.items()}
            except errors.OncelogError as error:
                self.note(self._name, "ends", error)
                await asyncio.sleep(RETRY_S)


async def run(args: argparse.Namespace) -> None:
    """Until SIGUSR1, and then to the end."""
    load = BlackBoxLoad(args.servers, args.name, args.life, args.round, args.journal, args.seed)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, load.stop)
    load.end(load.begin(args.name, "started"), Status.OK)
    async with asyncio.TaskGroup() as group:
        for task in load.tasks(args.role):
            group.create_task(task)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="load")
    parser.add_argument("--servers", required=True)
    parser.add_argument("--role", choices=ROLES, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--life", type=int, required=True)
    parser.add_argument("--round", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
