"""Folders that etcd does not know: those of deleted topics go to the trash, the others stay and are told of."""

from __future__ import annotations

import pytest

from oncelog.errors import StorageError
from oncelog.types import PartitionId
from oncelog_partition_leader.core.log.folders import folder_name
from oncelog_partition_leader.log.data_dir.leftovers import Leftovers
from oncelog_partition_leader.log.data_dir.trash import Trash
from oncelog_runtime.metadata.cluster_keys import DeletedTopic, deleted_topic_key
from tests.unit.partition_leader.cluster_place import P0, P1, TOPIC_ID, Place, run

OTHER = PartitionId("b" * 32, 0)
GRACE_MS = 10_000


class Logs:
    """Folders of a topic's two partitions and of another topic's; `used` are open."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.disk = place.node.disk
        self.used: set[PartitionId] = set()
        self.now_ms = 5_000_000
        trash = Trash(self.disk, "logs", GRACE_MS)
        self.leftovers = Leftovers(
            self.disk,
            "logs",
            trash,
            place.metadata,
            place.view,
            place.clock,
            lambda: self.now_ms,
            self.used.__contains__,
        )
        for partition, topic in ((P0, "t"), (P1, "t"), (OTHER, "other")):
            self.disk.make_dirs(f"logs/{folder_name(topic, partition)}")
        self.disk.make_dirs("logs/no-partitions-folder")

    async def deleted(self, topic_id: str = TOPIC_ID) -> None:
        await self.place.put(deleted_topic_key(topic_id), DeletedTopic("t", 1).encode())

    def orphans(self) -> list[PartitionId]:
        return sorted(folder.partition for folder in self.leftovers.orphans)

    def trashed(self) -> list[PartitionId]:
        return sorted(entry.folder.partition for entry in self.leftovers.trashed)


def test_the_logs_that_etcd_does_not_know_are_told_also_while_they_are_open() -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        await place.topic(partitions=2)
        await place.lead(P0, replicas=(0, 1))
        logs.used.add(OTHER)
        logs.disk.make_dirs(f"logs/{folder_name('rotten', PartitionId('c' * 32, 0))}.quarantined-1")
        assert logs.leftovers.kept(0) == [P1, OTHER]
        assert logs.leftovers.kept(2) == [P0, P1, OTHER], "etcd knows no replica of it there"

    run(scenario)


def test_the_logs_of_a_deleted_topic_go_to_the_trash_and_those_of_an_unknown_one_stay() -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        await logs.deleted()
        await logs.leftovers.look()
        assert (logs.trashed(), logs.orphans()) == ([P0, P1], [OTHER])
        assert logs.disk.exists(f"logs/{folder_name('other', OTHER)}")

    run(scenario)


def test_what_etcd_knows_and_what_is_open_is_nobodys_leftover() -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        await place.topic("other", OTHER.topic_id)
        logs.used.add(P0)
        await logs.leftovers.look()
        assert (logs.trashed(), logs.orphans()) == ([], [P1])

    run(scenario)


def test_a_log_that_is_in_use_again_is_not_thrown_away() -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        folders = logs.leftovers.of(P0) + logs.leftovers.of(P1)
        logs.used.add(P0)
        await logs.leftovers.trash_all(folders)
        await place.topic()
        await logs.leftovers.trash_all(logs.leftovers.of(P0))
        assert logs.leftovers.of(P0)
        assert not logs.leftovers.of(P1)

    run(scenario)


def test_before_the_first_listing_nothing_is_a_leftover() -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        await logs.deleted()
        place.view.revision = 0
        await logs.leftovers.look()
        assert (logs.trashed(), logs.orphans()) == ([], [])

    run(scenario)


def test_what_was_set_aside_belongs_to_its_partition() -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        aside = f"{folder_name('t', P0)}.quarantined-0"
        logs.disk.make_dirs(f"logs/{aside}")
        assert {folder.name for folder in logs.leftovers.of(P0)} == {folder_name("t", P0), aside}

    run(scenario)


def test_the_whole_grace_is_given_though_this_brokers_clock_is_behind() -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        logs.now_ms = place.clock.now_ms() + 60_000
        (folder,) = logs.leftovers.of(P0)
        await logs.leftovers.put_away(folder)
        logs.now_ms += GRACE_MS - 1
        await logs.leftovers.look()
        assert logs.trashed() == [P0]
        logs.now_ms += 1
        await logs.leftovers.look()
        assert logs.trashed() == []

    run(scenario)


def test_a_disk_that_refuses_is_asked_again_with_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(place: Place) -> None:
        logs = Logs(place)
        await logs.deleted()

        async def refuse(*_: object) -> None:
            raise StorageError("full", reason="full")

        with monkeypatch.context() as patch:
            patch.setattr(logs.leftovers.trash, "put", refuse)
            await logs.leftovers.look()
        assert logs.trashed() == []
        assert logs.orphans() == [P0, P1, OTHER]
        await logs.leftovers.look()
        assert logs.trashed() == [P0, P1]

    run(scenario)
