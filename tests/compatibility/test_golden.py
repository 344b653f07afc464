"""What N-1 wrote, N reads: keys of etcd, partition logs, and the records that coordinators keep in theirs."""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.core.batch.batch import decode_batch, iter_batches
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_partition_leader.log.log_config import LogConfig
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.metadata import cluster_keys
from tests import archives
from tests.compatibility.freeze import ETCD, EXPECTED, LOGS, TOPIC

NOW_MS = 1_800_000_000_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's logs, as N-1 left them after a clean stop."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(LOGS) as archive:
        archives.unpack(archive, folder / "logs")
    return folder


def names(folder: Path, topic: str) -> list[str]:
    return sorted(path.name for path in (folder / "logs").iterdir() if path.name.startswith(f"{topic}-"))


def use(folder: Path, name: str, look: Callable[[PartitionLog], Coroutine[Any, Any, Any]]) -> Any:
    """Opens a log as a broker does, and closes it."""

    async def work() -> Any:
        disk = OsDisk(folder)
        try:
            log = await PartitionLog.open(disk, f"logs/{name}", LogConfig(retention_ms=-1))
            log.check()
            try:
                return await look(log)
            finally:
                await log.close()
        finally:
            disk.close()

    return asyncio.run(work())


def batches(log: PartitionLog) -> Iterator[tuple[Any, memoryview]]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for header, data in iter_batches(log.read(offset, 1 << 20, log.log_end_offset)):
            offset = header.next_offset
            yield header, data


async def committed(log: PartitionLog) -> list[list[Any]]:
    """What a read_committed reader sees."""
    aborted = log.aborted_between(log.log_start_offset, log.log_end_offset)
    found: list[list[Any]] = []
    for header, data in batches(log):
        if header.is_control:
            continue
        if any(
            e.skips(header.producer_id, header.txn_producer_id, header.txn_no)
            for e in aborted
            if header.is_transactional
        ):
            continue
        rows = decode_batch(data, header)
        found += [[row.offset, row.key.decode() if row.key else None, (row.value or b"").decode()] for row in rows]
    return found


def test_the_records_of_the_user_topic(logs: Path) -> None:
    expected = json.loads(EXPECTED.read_text())["visible"]
    for name in names(logs, TOPIC):
        assert use(logs, name, committed) == expected[name.rpartition("-")[2]]


def test_every_log_opens_also_after_an_unclean_stop_and_passes_a_scrub(logs: Path) -> None:
    async def scrubbed(log: PartitionLog) -> int:
        return sum([piece async for piece in log.scrub()])

    for path in sorted(path for path in (logs / "logs").iterdir() if path.is_dir()):
        sizes = []
        for _ in range(2):
            sizes.append(use(logs, path.name, scrubbed))
            (path / "clean-shutdown").unlink()
        assert sizes[0] == sizes[1]


def tables(folder: Path, topic: str, make: Callable[[], Any]) -> Iterator[tuple[Any, int]]:
    """Each partition's core after the replay, and how many records it took."""
    for name in names(folder, topic):
        table, taken = make(), 0

        async def replay(log: PartitionLog, table: Any = table) -> int:
            taken = 0
            for header, data in batches(log):
                if header.is_control:
                    continue
                for record in decode_batch(data, header):
                    decoded = table.decode((record.key or b"").decode(), record.value)
                    if decoded is not None:
                        table.apply(decoded)
                        taken += 1
            return taken

        taken = use(folder, name, replay)
        table.loaded(NOW_MS)
        table.check()
        yield table, taken


def test_the_coordinators_records(logs: Path) -> None:
    limits = CoordinatorConfig().limits()
    transactions = list(tables(logs, cluster_keys.TRANSACTION_TOPIC, lambda: TransactionTable(limits)))
    assert sum(taken for _, taken in transactions) > 5
    known = [table.index.find("golden-txn") for table, _ in transactions]
    (record,) = [found for found in known if found is not None]
    assert record.last_txn_no >= 5
    groups = list(tables(logs, cluster_keys.OFFSETS_TOPIC, lambda: GroupShardTable(limits)))
    assert sum(taken for _, taken in groups) > 0


DECODERS: list[tuple[str, Callable[[bytes], Any]]] = [
    (cluster_keys.CLUSTER_KEY, cluster_keys.Cluster.decode),
    (cluster_keys.BROKERS, cluster_keys.Broker.decode),
    (cluster_keys.CONTROLLER_KEY, cluster_keys.decode_ref),
    (cluster_keys.TOPICS, cluster_keys.Topic.decode),
    (cluster_keys.PARTITIONS, cluster_keys.Partition.decode),
]


def stored() -> dict[str, bytes]:
    return {key: value.encode() for key, value in json.loads(ETCD.read_text()).items()}


@pytest.mark.parametrize(("prefix", "decode"), DECODERS, ids=[prefix for prefix, _ in DECODERS])
def test_the_keys_of_etcd(prefix: str, decode: Callable[[bytes], Any]) -> None:
    found = {key: decode(value) for key, value in stored().items() if key.startswith(prefix)}
    assert found, "the golden files hold such a key"
    for value in found.values():
        if hasattr(value, "encode"):
            assert decode(value.encode()) == value


def test_a_view_of_all_of_it_knows_who_leads() -> None:
    from oncelog.types import PartitionId
    from oncelog_runtime.metadata.cluster_view import ClusterView
    from oncelog_runtime.ports import KeyValue

    view = ClusterView()
    view.learn([KeyValue(key, value, number + 1) for number, (key, value) in enumerate(sorted(stored().items()))])
    topic = view.topic(TOPIC)
    assert topic.partitions == 2
    assert all(PartitionId(topic.topic_id, number) in view.partitions for number in range(2))
    assert view.cluster is not None
    assert {kind for kind, _ in view.shard_owners} == {cluster_keys.KIND_TXN, cluster_keys.KIND_GROUP}


@pytest.mark.parametrize("kind", [cluster_keys.Topic, cluster_keys.Partition, cluster_keys.Cluster])
def test_what_a_newer_peer_wrote_survives_a_change_by_this_version(kind: Any) -> None:
    """A rolling upgrade to N+1: this version rewrites a value and must not lose what it does not know."""
    import dataclasses

    prefix = {
        cluster_keys.Topic: cluster_keys.TOPICS,
        cluster_keys.Partition: cluster_keys.PARTITIONS,
        cluster_keys.Cluster: cluster_keys.CLUSTER_KEY,
    }[kind]
    value = next(json.loads(value) for key, value in stored().items() if key.startswith(prefix))
    newer = {**value, "version": 2, "from_the_future": {"a": [1]}}
    decoded = kind.decode(json.dumps(newer).encode())
    changes = {"leader_epoch": 99} if kind is cluster_keys.Partition else {}
    rewritten = json.loads(dataclasses.replace(decoded, **changes).encode())
    assert rewritten["from_the_future"] == {"a": [1]}
    assert rewritten["version"] == 2
    assert rewritten | {"leader_epoch": 0} == newer | changes | {"leader_epoch": 0} if changes else rewritten == newer
