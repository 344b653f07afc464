"""After everything was judged: all brokers lose power at once, under a burst of writes, and come back one after the other.

In `replicated` mode that may cost what was acknowledged; so the promise is another one here: nothing that any disk kept is
lost, since the partition waits for everybody who may hold it, and the greatest log leads. In `fsync` mode the first to come
back may lead: it has all that was ever committed.

Rule 1: what a disk kept is read before anybody starts: whole batches with good checksums, up to the first that is none. A
        segment behind one of which the disk kept nothing lies behind that hole.
        A tail that had been replaced already, by batches of a later leader epoch on another disk, is no loss.
Rule 2: only the disks of the ISR and of eligible replicas are waited for: a replica that the controller had taken out, because
        its registration had run out, may have kept a record that no disk of the others had yet.
Rule 3: the first is back before or after the registrations of the others have run out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator
from random import Random
from typing import Final

from oncelog import errors
from oncelog.core.batch.batch import iter_batches
from oncelog.core.batch.header import HEADER_BYTES, check_body, read_header
from oncelog.types import PartitionId
from oncelog_partition_leader.core.log.folders import parse_folder
from oncelog_runtime.metadata.cluster_keys import PARTITIONS, Partition
from oncelog_runtime.metadata.cluster_view import partition_of
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.node import SimNode
from tests.simulation.cluster import SimCluster
from tests.simulation.history import NEVER, Key
from tests.simulation.losses import LossBudget
from tests.simulation.recorded import encode
from tests.simulation.replicas import bytes_from, replicas

_SENDERS: Final = 3
_BURST_MAX_S: Final = 1.0
_OUTAGE_MAX_S: Final = 12.0
"""Longer than a registration lives."""
_LATE_MAX_S: Final = 4.0
_RECORD_BYTES: Final = 700
"""More than a sector, so that disks can keep different parts of a burst."""
Kept = dict[int, bytes]
"""Batches by base offset."""


class Blackout:
    """`problems` says what was kept and is gone. `reached`: the highest watermark of a partition so far."""

    def __init__(
        self,
        cluster: SimCluster,
        budget: LossBudget,
        reached: Callable[[PartitionId], int],
        random: Random,
        keys: list[Key],
    ) -> None:
        self.problems: list[str] = []
        self._cluster = cluster
        self._budget = budget
        self._reached = reached
        self._random = random
        self._keys = keys
        self._promised: dict[PartitionId, int] = {}
        """Of partitions in `fsync` mode: below this everything must stay."""

    async def strike(self) -> dict[str, dict[PartitionId, Kept]]:
        """Power is cut under a burst of writes, and everybody comes back; what each disk had kept."""
        writing = [self._cluster.world.spawn(self._write(number)) for number in range(_SENDERS)]
        await asyncio.sleep(self._random.random() * _BURST_MAX_S)
        brokers = [node for name, node in self._cluster.world.nodes.items() if name.startswith("broker-")]
        self._promised = {
            partition_id: self._reached(partition_id)
            for partition_id, there in replicas(self._cluster).items()
            if any(partition.topic_config.fsync for partition in there.values())
        }
        for node in brokers:
            self._budget.power_was_cut(int(node.name.rpartition("-")[2]))
        for node in brokers:
            node.crash(silent=self._random.random() < 0.5)
        kept = {node.name: dict(_logs(node.disk)) for node in brokers}
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        await asyncio.sleep(self._random.random() * _OUTAGE_MAX_S)
        held = self._held()  # now: what the controller wrote in its last moments has reached the store
        await self._restart(brokers)
        return {name: {p: log for p, log in logs.items() if (name, p) in held} for name, logs in kept.items()}

    def _held(self) -> dict[tuple[str, PartitionId], None]:
        """Which brokers are in the ISR, or eligible, of which partitions."""
        held: dict[tuple[str, PartitionId], None] = {}
        for item in self._cluster.world.metadata.list(PARTITIONS).items:
            state = Partition.decode(item.value)
            for member in (*state.isr, *state.eligible):
                held[f"broker-{member.broker_id}", partition_of(item.key)] = None
        return held

    async def _restart(self, brokers: list[SimNode]) -> None:
        self._random.shuffle(brokers)
        for node in brokers:
            node.restart()
            await asyncio.sleep(self._random.random() * _LATE_MAX_S)

    async def _write(self, number: int) -> None:
        async with (
            self._cluster.client(f"burst-{number}", close_timeout_ms=500) as client,
            client.producer() as producer,
        ):
            while True:
                topic, partition = self._random.choice(self._keys)
                try:
                    await producer.send_and_wait(topic, encode(0).ljust(_RECORD_BYTES), partition=partition)
                except errors.OncelogError:
                    await asyncio.sleep(0.1)

    def judge(self, kept: dict[str, dict[PartitionId, Kept]]) -> None:
        """Call it when everybody is back."""
        for partition_id, there in replicas(self._cluster).items():
            leaders = [partition for partition in there.values() if partition.leadership is not None]
            if not leaders:
                continue
            start = leaders[0].log.log_start_offset
            has = {header.base_offset: bytes(data) for header, data in iter_batches(bytes_from(leaders[0].log, start))}
            end = self._promised.get(partition_id, NEVER)
            kept_anywhere = {data for logs in kept.values() for data in logs.get(partition_id, {}).values()}
            for name, logs in kept.items():
                log = logs.get(partition_id, {})
                lost = [at for at, data in log.items() if start <= at < end and has.get(at) != data]
                lost = [at for at in lost if not _was_replaced(at, log[at], has, kept_anywhere)]
                if lost:
                    where = f"{leaders[0].topic}-{partition_id.partition}"
                    self.problems.append(f"lost-in-blackout: {where}: the disk of {name} had kept offsets {lost[:5]}")


def _logs(disk: SimDisk) -> Iterator[tuple[PartitionId, Kept]]:
    """What a disk holds of each log in use."""
    files: dict[PartitionId, list[str]] = {}
    for path in sorted(disk._files):
        directory, _, name = path.rpartition("/")
        folder = parse_folder(directory.rpartition("/")[2])
        if name.endswith(".log") and folder is not None and not folder.aside and "/.trash/" not in path:
            files.setdefault(folder.partition, []).append(path)
    for partition_id, paths in files.items():
        yield partition_id, _batches([bytes(disk._files[path].data) for path in paths])


def _was_replaced(at: int, data: bytes, has: Kept, kept_anywhere: Container[bytes]) -> bool:
    """The leader has a batch of a later epoch there, which some disk had kept."""
    epoch = read_header(data, 0).leader_epoch
    for base_offset, other in has.items():
        header = read_header(other, 0)
        if base_offset <= at < header.next_offset:
            return header.leader_epoch > epoch and other in kept_anywhere
    return False


def _batches(segments: list[bytes]) -> Kept:
    found: Kept = {}
    expected: int | None = None
    for number, data in enumerate(segments):
        if number and not found:
            return found
        position = 0
        while position + HEADER_BYTES <= len(data):
            try:
                header = read_header(data, position)
                check_body(data, header, position)
            except errors.OncelogError:
                return found
            if expected not in (None, header.base_offset) or position + header.batch_length > len(data):
                return found
            found[header.base_offset] = data[position : position + header.batch_length]
            position += header.batch_length
            expected = header.next_offset
    return found
