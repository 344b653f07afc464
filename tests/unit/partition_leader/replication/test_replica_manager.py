"""A broker opens and closes its logs, and gives each the role that etcd names; no log leaves its place without etcd's word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from oncelog import errors
from oncelog.core.batch.header import read_header
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.replication.replica_state import LogState
from oncelog_partition_leader.log.data_dir.custody import Custody
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication import log_opening
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_runtime.metadata.cluster_keys import DeletedTopic, deleted_topic_key, partition_key, topic_key
from oncelog_runtime.serving.signpost import Signpost
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, P1, TOPIC_ID, Place
from tests.unit.partition_leader.log_helpers import NOW_MS, plain

FOLDER = f"logs/t-{TOPIC_ID}-0"


class OwnRegistration:
    """The registration of broker 0, as etcd has it at the moment."""

    def __init__(self, place: Place, renew: Callable[[str], None]) -> None:
        self._place = place
        self.renew = renew

    @property
    def ref(self) -> BrokerRef:
        return self._place.me()


class Managing:
    """The replicas of broker 0. `renewals`: why it wanted a new incarnation."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.disk = place.node.disk
        self.renewals: list[str] = []
        self.custody = Custody(self.disk, "logs", place.ports.random)
        coordinators: Any = None
        config = BrokerConfig(node_id=0)
        self.replicas = ReplicaManager(
            config,
            place.ports,
            ClusterContext(
                place.view,
                OwnRegistration(place, self.renewals.append),  # type: ignore[arg-type]
                Contacts(config, place.view, place.clock),
                Signpost(place.view, client_listener=False, broker_id=0),
            ),
            coordinators,
            self.custody,
            place.tasks,
            unreachable=lambda _ref, _error: None,
            bugs=place.bugs,
        )

    async def begin(self) -> None:
        await self.replicas.prepare()
        await self.custody.open()
        self.custody.adopted(self.place.me().incarnation)

    async def opened(self, partition: PartitionId = P0) -> LocalPartition:
        await self.place.until(lambda: partition in self.replicas.partitions)
        return self.replicas.partitions[partition]

    async def leading(self, epoch: int, partition: PartitionId = P0) -> LocalPartition:
        def leads() -> bool:
            found = self.replicas.partitions.get(partition)
            return found is not None and found.leadership is not None and found.leadership.epoch == epoch

        await self.place.until(leads)
        return self.replicas.partitions[partition]

    async def register_anew(self) -> None:
        await self.place.register(0)
        self.replicas.incarnation_is(self.place.me())

    def trashed(self) -> list[PartitionId]:
        return [entry.folder.partition for entry in self.replicas.trash.entries()]


def run(scenario: Callable[[Managing], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        managing = Managing(place)
        await managing.begin()
        await place.topic(partitions=2)
        await scenario(managing)
        await managing.replicas.close(clean=True)

    cluster_place.run(whole)


def write(partition: LocalPartition, epoch: int) -> None:
    data = plain(tag=partition.tag)
    partition.log.append_as_leader([(read_header(data), data)], epoch, NOW_MS)


# ---------------------------------------------------------------- roles


def test_it_opens_what_etcd_gives_it_and_leads_what_names_its_incarnation() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        await managing.place.lead(P1, leader=1, epoch=2)
        leader, follower = await managing.leading(4), await managing.opened(P1)
        assert follower.leadership is None
        assert follower.known_epoch == 2
        assert list(managing.replicas.led) == [leader.leadership]
        assert managing.replicas.find(P0) is leader
        assert managing.replicas.recovered

    run(scenario)


@pytest.mark.case("hole 2")
def test_an_entry_that_names_another_incarnation_gives_no_leadership() -> None:
    async def scenario(managing: Managing) -> None:
        old = managing.place.me()
        await managing.register_anew()
        state = replace(await _led_by(managing, old), leader_epoch=4)
        await managing.place.put(partition_key(*P0), state.encode())
        assert (await managing.opened()).leadership is None

    run(scenario)


async def _led_by(managing: Managing, ref: BrokerRef) -> Any:
    await managing.place.lead(P0, epoch=3)
    return replace(await managing.place.state(), leader=ref, isr=(ref, *managing.place.refs(1, 2)))


@pytest.mark.case("hole 2")
def test_with_a_new_incarnation_every_leadership_of_the_old_one_ends_at_once() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        partition = await managing.leading(4)
        await managing.register_anew()
        assert partition.leadership is None
        assert managing.replicas.led == {}

    run(scenario)


def test_a_newer_epoch_ends_a_leadership_and_may_begin_another_one() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        await managing.leading(4)
        await managing.place.lead(P0, leader=1, epoch=5)
        partition = managing.replicas.partitions[P0]
        assert partition.leadership is None
        await managing.place.lead(P0, epoch=6)
        await managing.leading(6)

    run(scenario)


def test_a_leader_whose_log_is_ahead_of_etcd_takes_a_higher_epoch() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=9)
        write(await managing.leading(9), 9)
        await managing.place.lead(P0, leader=1, epoch=10)
        await managing.place.lead(P0, epoch=3)
        await managing.leading(11)
        assert (await managing.place.state()).leader_epoch == 11, "no offset is given twice in an epoch"

    run(scenario)


def test_options_of_the_topic_are_in_force_at_once_and_illegal_ones_are_not_taken() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0)
        partition = await managing.leading(0)
        await managing.place.topic(partitions=2, flush_mode="fsync", min_insync_replicas="1")
        assert partition.topic_config.fsync
        assert managing.replicas.min_insync_of("t") == 1
        await managing.place.topic(partitions=2, flush_mode="sometimes")
        assert partition.topic_config.fsync

    run(scenario)


def test_who_asks_for_what_is_not_here_hears_where_it_is() -> None:
    async def scenario(managing: Managing) -> None:
        with pytest.raises(errors.UnknownTopicError):
            managing.replicas.find(P0)
        await managing.place.lead(P0, leader=1, isr=(1, 2), replicas=(1, 2))
        with pytest.raises(errors.NotLeaderError) as refusal:
            managing.replicas.find(P0)
        assert refusal.value.go_to == "broker-1:9092"
        assert P0 not in managing.replicas.partitions

    run(scenario)


# ---------------------------------------------------------------- logs that fail


@pytest.mark.case("hole 3")
def test_a_failed_log_is_opened_anew_when_etcd_names_its_replica_nowhere() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        await managing.place.lead(P1, epoch=4)
        failed, other = await managing.leading(4), await managing.leading(4, P1)
        failed.fail(errors.StorageError("broken", reason="io"))
        await managing.place.until(lambda: managing.replicas.partitions.get(P0) not in (None, failed))
        state = await managing.place.state()
        assert (state.leader, state.isr) == (managing.place.ref(1), managing.place.refs(1, 2))
        assert managing.replicas.partitions[P0].failed is None
        assert other.leadership is not None, "other partitions do not notice"
        assert managing.renewals == []

    run(scenario)


@pytest.mark.case("hole 3")
def test_a_failed_log_that_nobody_else_can_lead_takes_a_new_incarnation() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, isr=(0,), epoch=4)
        failed = await managing.leading(4)
        failed.fail(errors.StorageError("broken", reason="io"))
        await managing.place.until(lambda: bool(managing.renewals))
        assert "nobody else can lead" in managing.renewals[0]
        assert (await managing.place.state()).isr == managing.place.refs(0)
        await managing.register_anew()
        await managing.place.until(lambda: managing.replicas.partitions.get(P0) not in (None, failed))

    run(scenario)


def test_a_log_that_cannot_be_opened_is_told_tried_again_and_keeps_nobody_else_from_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(managing: Managing) -> None:
        healthy = log_opening.LogOpener.open
        broken = True

        async def opens(opener: Any, partition: PartitionId, *arguments: Any, **more: Any) -> Any:
            if partition == P0 and broken:
                raise errors.StorageError("a bad sector", reason="io")
            return await healthy(opener, partition, *arguments, **more)

        monkeypatch.setattr(log_opening.LogOpener, "open", opens)
        await managing.place.lead(P0, epoch=4)
        await managing.place.lead(P1, epoch=4)
        await managing.leading(4, P1)
        assert P0 in managing.replicas.unopened
        assert managing.replicas.recovered, "it was tried once"
        with pytest.raises(errors.StorageError) as refusal:
            managing.replicas.status(P0)
        assert "bad sector" in refusal.value.context["cause"]
        broken = False
        await managing.leading(4)
        assert managing.replicas.unopened == {}

    run(scenario)


def test_what_a_replica_says_of_its_log() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        write(await managing.leading(4), 4)
        state = managing.replicas.status(P0)
        assert (state.log, state.known_epoch) == (LogState(4, 1), 4)

    run(scenario)


# ---------------------------------------------------------------- logs that leave


def test_a_replica_that_was_moved_away_goes_to_the_trash() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        await managing.leading(4)
        await managing.place.lead(P0, leader=1, isr=(1, 2), replicas=(1, 2), epoch=5)
        await managing.place.until(lambda: managing.trashed() == [P0])
        assert P0 not in managing.replicas.partitions
        assert not managing.disk.exists(FOLDER)

    run(scenario)


@pytest.mark.parametrize("deleted", [True, False])
def test_the_log_of_a_deleted_topic_goes_and_that_of_an_absent_one_is_closed_and_kept(deleted: bool) -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        partition = await managing.leading(4)
        if deleted:
            await managing.place.put(deleted_topic_key(TOPIC_ID), DeletedTopic("t", 1).encode())
        await managing.place.delete(topic_key("t"), partition_key(*P0))
        await managing.place.until(lambda: P0 not in managing.replicas.partitions)
        await asyncio.sleep(1)
        assert partition.leadership is None
        assert managing.trashed() == ([P0] if deleted else [])
        assert managing.disk.exists(FOLDER) is not deleted

    run(scenario)


def test_a_replica_that_comes_back_takes_its_log_back_from_the_trash() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        write(await managing.leading(4), 4)
        await managing.place.lead(P0, leader=1, isr=(1, 2), replicas=(1, 2), epoch=5)
        await managing.place.until(lambda: managing.trashed() == [P0])
        await managing.place.lead(P0, leader=1, isr=(1, 2), replicas=(1, 2, 0), epoch=6)
        assert (await managing.opened()).log.log_end_offset == 1
        assert managing.trashed() == []

    run(scenario)


# ---------------------------------------------------------------- the end


def test_a_clean_stop_vouches_for_everything_only_when_no_log_had_failed() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, isr=(0,), epoch=4)
        partition = await managing.leading(4)
        partition.fail(errors.StorageError("broken", reason="io"))
        await managing.replicas.close(clean=True)
        found = Custody(managing.disk, "logs", managing.place.ports.random)
        assert found._read()
        assert b'"clean": false' in managing.disk.read_file("logs/directory.json")

    run(scenario)


def test_after_the_end_nothing_is_opened() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.replicas.close(clean=True)
        assert b'"clean": true' in managing.disk.read_file("logs/directory.json")
        await managing.place.lead(P0)
        await asyncio.sleep(1)
        assert managing.replicas.partitions == {}

    run(scenario)


def test_after_a_restore_of_etcd_every_role_is_over() -> None:
    async def scenario(managing: Managing) -> None:
        await managing.place.lead(P0, epoch=4)
        partition = await managing.leading(4)
        managing.replicas.etcd_was_restored()
        assert partition.leadership is None
        assert partition.known_epoch == 5

    run(scenario)
