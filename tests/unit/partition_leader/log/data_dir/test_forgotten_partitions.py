"""What logs prove that etcd has forgotten: later epochs, and topics that nobody has deleted."""

from __future__ import annotations

import pytest

from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.log.folders import Folder, folder_name
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.log.checkpoints import LEADER_EPOCHS
from oncelog_partition_leader.log.data_dir.forgotten_partitions import forgotten, held_logs
from oncelog_runtime.metadata.cluster_keys import Partition, deleted_topic_key, partition_key
from oncelog_runtime.ports import KeyValue
from oncelog_runtime.sim import SimDisk, SimWorld

P = PartitionId("a" * 32, 0)
NAME = folder_name("orders", P)
FOLDER = Folder(NAME, "orders", P)
LEADER = BrokerRef(0, 5)
KEPT_MS = 1000


def value(epoch: int) -> KeyValue:
    return KeyValue(partition_key(*P), Partition("orders", (0,), LEADER, epoch, (LEADER,)).encode(), 9)


@pytest.mark.parametrize(
    ("items", "last_epoch", "away_ms", "found"),
    [
        ([value(4)], 4, 0, []),
        ([value(4)], 3, 0, []),
        ([value(4)], -1, 0, []),
        ([value(4)], 5, 0, [f"{NAME} in epoch 5"]),
        ([value(4)], 5, float("inf"), [f"{NAME} in epoch 5"]),
        ([KeyValue(partition_key(*P), b"damaged", 9)], 5, 0, []),
        ([], 4, KEPT_MS - 1, [NAME]),
        ([], -1, KEPT_MS - 1, [NAME]),
        ([], 4, KEPT_MS, []),
        ([KeyValue(deleted_topic_key(P.topic_id), b"", 9)], 4, 0, []),
    ],
)
def test_what_a_log_proves(items: list[KeyValue], last_epoch: int, away_ms: float, found: list[str]) -> None:
    assert list(forgotten({FOLDER: last_epoch}, items, away_ms, KEPT_MS)) == found


def test_what_the_logs_hold_is_read_from_their_tables_of_epochs() -> None:
    async def scenario(world: SimWorld) -> None:
        disk = SimDisk(world.loop, world.random("disk"), world.plan, "n")
        table = LeaderEpochs()
        table.assign(2, 0, 5)
        table.assign(7, 5, 9)
        others = [folder_name("orders", PartitionId(P.topic_id, number)) for number in (1, 2)]
        for name in (NAME, *others, f"{NAME}.quarantined-1", "no-folder-of-ours"):
            disk.make_dirs(f"logs/{name}")
        await disk.write_atomic(f"logs/{NAME}/{LEADER_EPOCHS}", table.dump())
        await disk.write_atomic(f"logs/{others[0]}/{LEADER_EPOCHS}", b"damaged")
        held = held_logs(disk, "logs")
        assert {folder.name: epoch for folder, epoch in held.items()} == {NAME: 7, others[0]: -1, others[1]: -1}

    with SimWorld(1) as world:
        world.run(scenario(world))
