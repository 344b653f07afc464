"""What must hold of all brokers' logs once a cluster is healed: nothing open, nobody behind, every byte the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from oncelog.types import PartitionId
from oncelog_partition_leader.broker import Broker
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_runtime.metadata.cluster_keys import REASSIGNMENTS, Partition, Topic, partition_key, topic_key
from tests.simulation.cluster import SimCluster


def replicas(cluster: SimCluster) -> dict[PartitionId, dict[str, LocalPartition]]:
    """Every partition's replicas by broker name."""
    found: dict[PartitionId, dict[str, LocalPartition]] = {}
    for name, broker in cluster.brokers():
        for partition_id, partition in broker.replicas.partitions.items():
            found.setdefault(partition_id, {})[name] = partition
    return dict(sorted(found.items()))


def leaders_of(cluster: SimCluster, topic: str) -> dict[int, PartitionLog]:
    """The leaders' logs of a topic by partition."""
    return {
        partition_id.partition: partition.log
        for partition_id, there in replicas(cluster).items()
        for partition in there.values()
        if partition.topic == topic and partition.leadership is not None
    }


async def settled(cluster: SimCluster, within_ms: int) -> None:
    """Waits until no transaction is open and all replicas stand at their leader's end. Raises `AssertionError`."""
    deadline = cluster.world.loop.time() + within_ms / 1000
    while True:
        problems = list(_unsettled(cluster))
        if not problems:
            return
        assert cluster.world.loop.time() < deadline, f"not-live: {len(problems)} after {within_ms} ms: {problems[:3]}"
        await asyncio.sleep(0.1)


def _unsettled(cluster: SimCluster) -> Iterator[str]:
    brokers = sum(name.startswith("broker-") for name in cluster.world.nodes)
    if sum(isinstance(service, Broker) for _, service in cluster.brokers()) < brokers:
        yield "a broker is down"
    moves = cluster.world.metadata.list(REASSIGNMENTS).items
    if moves:
        yield f"{len(moves)} moves of replicas are under way: {moves[0].key}"
    for partition_id, there in replicas(cluster).items():
        leaders = [partition for partition in there.values() if partition.leadership is not None]
        name = f"{next(iter(there.values())).topic}-{partition_id.partition}"
        item = cluster.world.metadata.get(partition_key(*partition_id))
        if item is not None and len(Partition.decode(item.value).replicas) != len(there):
            yield f"{name} is on {sorted(there)}, and belongs to {Partition.decode(item.value).replicas}"
            continue
        if len(leaders) != 1:
            yield f"{name} has {len(leaders)} leaders"
            continue
        end, watermark = leaders[0].log.log_end_offset, leaders[0].high_watermark
        stable = leaders[0].log.last_stable_offset(watermark)
        if not stable == watermark == end:
            yield f"{name}: LSO {stable}, high watermark {watermark}, log end {end}"
        for broker, partition in there.items():
            if partition.failed is not None or partition.log.log_end_offset != end:
                yield f"{name} on {broker} ends at {partition.log.log_end_offset}, not at {end} ({partition.failed})"


def differing(cluster: SimCluster) -> list[str]:
    """Replicas that are not byte-identical, or derived other states from the same bytes. Call it after `settled`."""
    found = []
    for partition_id, there in replicas(cluster).items():
        (first, one), *others = there.items()
        name = f"{one.topic}-{partition_id.partition}"
        if len(there) != (wanted := _replication_factor(cluster, one.topic)):
            found.append(f"replica-differs: {name} is on {sorted(there)}, not on {wanted} brokers")
        for broker, other in others:
            found.extend(f"replica-differs: {name} on {first} and {broker}: {text}" for text in _compare(one, other))
    return found


def _replication_factor(cluster: SimCluster, topic: str) -> int:
    """What the topic was created with: some of the passing ones have one replica, and may outlive the workload."""
    item = cluster.world.metadata.get(topic_key(topic))
    return 3 if item is None else Topic.decode(item.value).replication_factor


def _compare(one: LocalPartition, other: LocalPartition) -> Iterator[str]:
    start = max(one.log.log_start_offset, other.log.log_start_offset)
    if bytes_from(one.log, start) != bytes_from(other.log, start):
        yield "bytes"
    if _epochs(one, start) != _epochs(other, start):
        yield f"leader epochs {_epochs(one, start)} and {_epochs(other, start)}"
    end = one.log.log_end_offset
    for partition in (one, other):
        partition.log.last_stable_offset(end)  # forgets which transactions were unstable: leaders do it as they serve
    if one.log.producers.snapshot() != other.log.producers.snapshot():
        yield "producer states"
    if one.log.aborted_between(start, end) != other.log.aborted_between(start, end):
        yield "aborted transactions"


def _epochs(partition: LocalPartition, start: int) -> list[tuple[int, int]]:
    """The table from `start` on: each replica forgets what is below its own log start."""
    entries = partition.log.epochs.entries
    ends = [at for _, at in entries[1:]] + [partition.log.log_end_offset]
    return [(epoch, max(at, start)) for (epoch, at), end in zip(entries, ends, strict=False) if end > start]


def bytes_from(log: PartitionLog, start: int) -> bytes:
    """Everything from `start` on."""
    parts, offset = [], start
    while offset < log.log_end_offset:
        data = bytes(log.read(offset, 1 << 20, log.log_end_offset))
        parts.append(data)
        offset = _end_of(data)
    return b"".join(parts)


def _end_of(data: bytes) -> int:
    from oncelog.core.batch.header import read_header

    position = end = 0
    while position < len(data):
        header = read_header(data, position)
        position += header.batch_length
        end = header.next_offset
    return end
