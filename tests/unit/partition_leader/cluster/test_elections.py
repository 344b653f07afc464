"""The controller writes elections under the conditions on which they were decided, and asks replicas where it must."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import BrokerRef, Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog_partition_leader.cluster.elections import Elections
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.election import Brokers
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs
from oncelog_runtime.metadata.cluster_keys import RESTORED_KEY, Partition
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import P0, P1, TOPIC_ID, Place


class Electing:
    """The elections of broker 0. `logs`: what each broker says of its log, (last epoch, end, intact since)."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.logs: dict[int, tuple[int, int, int]] = {}
        self.dead: list[BrokerRef] = []
        self.forgotten: list[str] = []
        self.wakes = 0
        self.kept = KeptLogs()
        self.asked: list[int] = []
        self.elections = Elections(
            BrokerConfig(node_id=0),
            place.ports_with_transport,
            place.view,
            place.tasks,
            place.commit,
            lambda: Brokers(place.view.live(), self.dead, kept=self.kept),
            self._wake,
            self.forgotten.append,
        )
        for broker_id in range(3):
            address = f"broker-{broker_id}:9092"
            place.transport.serve(address, methods.REPLICA_STATUS, self._status(broker_id))

    def _wake(self) -> None:
        self.wakes += 1

    def _status(self, broker_id: int) -> Any:
        async def status(request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            self.asked.append(broker_id)
            if broker_id not in self.logs:
                raise errors.RequestTimedOutError()
            last_epoch, end, intact_since = self.logs[broker_id]
            reply = pb.ReplicaStatusReply()
            for item in request.partitions:
                reply.partitions.add(
                    topic_id=item.topic_id,
                    partition=item.partition,
                    last_epoch=last_epoch,
                    log_end_offset=end,
                    intact_since=intact_since,
                    known_since=1,
                    known_epoch=last_epoch,
                )
            return reply, b""

        return status

    async def state(self, partition: PartitionId = P0) -> Partition:
        return await self.place.state(partition)

    async def restarted(self, *broker_ids: int) -> None:
        """Each has a new incarnation; the partition still names the old ones."""
        for broker_id in broker_ids:
            await self.place.register(broker_id)


def run(scenario: Callable[[Electing], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await place.topic(partitions=2)
        await place.lead(P0, epoch=4)
        await place.lead(P1, epoch=4)
        await scenario(Electing(place))

    cluster_place.run(whole)


def test_a_dead_leader_is_replaced_in_one_commit_for_all_its_partitions() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.place.leave(0)
        electing.elections.look_at_all()
        await electing.elections.step()
        for partition in (P0, P1):
            state = await electing.state(partition)
            assert (state.leader, state.leader_epoch) == (electing.place.ref(1), 5)
        assert len(electing.place.metadata.commits) == 1
        assert not electing.elections.due

    run(scenario)


def test_only_what_has_changed_is_looked_at() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.elections.step()
        await electing.place.leave(0)
        electing.elections.look_at(P1)
        await electing.elections.step()
        assert (await electing.state(P0)).leader_epoch == 4
        assert (await electing.state(P1)).leader_epoch == 5

    run(scenario)


@pytest.mark.case("hole 18")
def test_who_dies_before_the_commit_is_not_elected() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.place.leave(0)

        async def die() -> None:
            await electing.place.leave(1)

        electing.place.metadata.before_commit = die
        electing.elections.look_at_all()
        await electing.elections.step()
        assert electing.elections.due, "it is looked at again"
        await electing.elections.step()
        assert (await electing.state()).leader == electing.place.ref(2)

    run(scenario)


def test_a_partition_that_changed_meanwhile_spoils_no_other_election() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.place.leave(0)

        async def change() -> None:
            await electing.place.lead(P0, leader=2, isr=(1, 2), epoch=9)

        electing.place.metadata.before_commit = change
        electing.elections.look_at_all()
        await electing.elections.step()
        assert (await electing.state(P0)).leader == electing.place.ref(2)
        assert (await electing.state(P1)).leader == electing.place.ref(1)

    run(scenario)


def test_an_election_does_not_hold_under_options_that_changed_after_it_was_decided() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.place.leave(0)

        async def change() -> None:
            await electing.place.topic(partitions=2, min_insync_replicas="3")

        electing.place.metadata.before_commit = change
        electing.elections.look_at_all()
        await electing.elections.step()
        for partition in (P0, P1):
            assert (await electing.state(partition)).leader_epoch == 4, "decided by options that are no more"
        assert electing.elections.due, "it is decided again"
        assert len(electing.place.metadata.commits) == 1, "each by itself could not hold either"

    run(scenario)


# ---------------------------------------------------------------- asking


def test_restarted_replicas_are_asked_and_the_first_that_lost_nothing_leads() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.restarted(0, 1, 2)
        electing.logs = {1: (4, 70, 1)}
        await electing.elections.step()
        await asyncio.sleep(1)
        state = await electing.state()
        assert (state.leader, state.leader_epoch) == (electing.place.ref(1), 5)
        assert electing.wakes > 0

    run(scenario)


def test_one_question_to_each_broker_for_all_partitions_and_none_beside_it() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.restarted(0, 1, 2)
        await electing.elections.step()
        electing.elections.look_at_all()
        await electing.elections.step()
        await asyncio.sleep(0.01)
        assert sorted(electing.asked) == [0, 1, 2]

    run(scenario)


def test_after_a_power_cut_everybody_is_waited_for_and_the_longest_log_leads() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.restarted(0, 1, 2)
        late = electing.place.ref(0).incarnation * 10
        electing.logs = {0: (4, 70, late), 1: (4, 90, late)}
        await electing.elections.step()
        await asyncio.sleep(1)
        assert (await electing.state()).leader_epoch == 4
        electing.logs[2] = (4, 80, late)
        await electing.elections.step()
        await asyncio.sleep(3)
        await electing.elections.step()
        await asyncio.sleep(3)
        state = await electing.state()
        assert (state.leader, state.isr) == (electing.place.ref(1), electing.place.refs(1))

    run(scenario)


def test_answers_count_only_for_the_value_for_which_they_were_asked() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.restarted(0, 1, 2)
        electing.logs = {1: (4, 70, 1)}

        async def change() -> None:
            await electing.place.lead(P0, leader=2, isr=(2,), epoch=9)

        electing.place.metadata.before_commit = change
        await electing.elections.step()
        await asyncio.sleep(1)
        assert (await electing.state()).leader == electing.place.ref(2)

    run(scenario)


def test_a_log_with_a_later_epoch_than_etcd_proves_a_restore() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.restarted(0, 1, 2)
        electing.logs = {1: (6, 70, 1)}
        await electing.elections.step()
        await asyncio.sleep(1)
        assert electing.forgotten
        assert "epoch 6" in electing.forgotten[0]
        assert (await electing.state()).leader_epoch == 4, "whatever else etcd says may be as old"

    run(scenario)


def test_after_a_restore_of_etcd_every_replica_is_asked_and_the_greatest_log_leads() -> None:
    async def scenario(electing: Electing) -> None:
        await electing.place.put(RESTORED_KEY, b"1")
        electing.place.view.restart(await electing.place.etcd.list("/oncelog/"))
        electing.logs = {0: (4, 70, 1), 1: (7, 60, 1), 2: (4, 90, 1)}
        electing.elections.look_at_all()
        await electing.elections.step()
        await asyncio.sleep(1)
        assert (await electing.state()).leader_epoch == 4, "they still have their incarnations of before"
        await electing.restarted(0, 1, 2)
        electing.elections.look_at_all()
        await electing.elections.step()
        await asyncio.sleep(3)
        await electing.elections.step()
        await asyncio.sleep(3)
        state = await electing.state()
        assert state.leader == electing.place.ref(1)
        assert state.leader_epoch > 7

    run(scenario)


# ---------------------------------------------------------------- operators


def test_leadership_goes_to_a_member_of_the_isr_and_back_to_the_preferred_one() -> None:
    async def scenario(electing: Electing) -> None:
        for _ in range(2):
            await electing.elections.transfer(P0, 2)
        assert ((await electing.state()).leader, (await electing.state()).leader_epoch) == (electing.place.ref(2), 5)
        await electing.elections.rebalance()
        assert (await electing.state()).leader == electing.place.ref(0)
        assert (await electing.state(P1)).leader_epoch == 4

    run(scenario)


@pytest.mark.parametrize(
    ("partition", "to", "in_epoch", "error"),
    [
        (PartitionId(TOPIC_ID, 9), 1, None, errors.UnknownTopicError),
        (P0, 9, None, errors.InvalidRequestError),
        (P0, 2, None, errors.IneligibleReplicaError),
        (P0, 1, 3, errors.RequestTimedOutError),
    ],
)
def test_a_transfer_that_cannot_be_is_refused_by_name(
    partition: PartitionId, to: int, in_epoch: int | None, error: type[errors.OncelogError]
) -> None:
    async def scenario(electing: Electing) -> None:
        await electing.place.lead(P0, isr=(0, 1), epoch=4)
        with pytest.raises(error):
            await electing.elections.transfer(partition, to, in_epoch)
        assert (await electing.state()).leader == electing.place.ref(0)

    run(scenario)


def test_an_unclean_election_is_of_a_partition_without_leader_whose_price_was_told() -> None:
    async def scenario(electing: Electing) -> None:
        elections = electing.elections
        electing.logs = {2: (4, 50, 1)}
        with pytest.raises(errors.IneligibleReplicaError, match="has a leader"):
            await elections.elect_unclean(P0, 2, 4)
        await electing.place.lead(P0, isr=(0,), epoch=4)
        await electing.place.leave(0)
        survey = await elections.survey(P0)
        assert (list(survey.answers), survey.has_leader) == ([2], False)
        for to, epoch in ((2, 3), (1, 4)):
            with pytest.raises(errors.IneligibleReplicaError):
                await elections.elect_unclean(P0, to, epoch)
        with pytest.raises(errors.InvalidRequestError):
            await elections.elect_unclean(P0, 9, 4)
        await elections.elect_unclean(P0, 2, 4)
        state = await electing.state()
        assert (state.leader, state.isr, state.leader_epoch) == (electing.place.ref(2), electing.place.refs(2), 5)
        with pytest.raises(errors.IneligibleReplicaError):
            await elections.elect_unclean(P0, 2, 4)

    run(scenario)


# ---------------------------------------------------------------- after a restore of etcd


async def restored(electing: Electing) -> None:
    """Etcd comes back from a backup, and every broker has noticed it."""
    await electing.place.put(RESTORED_KEY, b"1")
    electing.place.view.restart(await electing.place.etcd.list("/oncelog/"))
    await electing.restarted(0, 1, 2)


async def step(electing: Electing) -> None:
    electing.elections.look_at_all()
    await electing.elections.step()
    await asyncio.sleep(3)
    await electing.place.seen()


def test_after_a_restore_nobody_is_elected_before_it_is_known_who_keeps_logs() -> None:
    async def scenario(electing: Electing) -> None:
        await restored(electing)
        electing.logs = dict.fromkeys(range(3), (4, 10, 1))
        for early in (KeptLogs(registered=frozenset({7})), KeptLogs(is_early=True)):
            electing.kept = early
            await step(electing)
            assert (await electing.state()).leader_epoch == 4
            assert electing.asked == []
        electing.kept = KeptLogs(registered=frozenset({2}))
        electing.dead = [BrokerRef(2, 1)]
        await step(electing)
        assert (await electing.state()).leader_epoch == 4, "an earlier incarnation of it was found dead"
        electing.dead = [electing.place.ref(2)]
        await step(electing)
        assert (await electing.state()).leader_epoch == 4, "it has a replica"
        await electing.place.lead(P0, epoch=4, isr=(0, 1), replicas=(0, 1))
        await electing.place.lead(P1, epoch=4, isr=(0, 1), replicas=(0, 1))
        await restored(electing)
        electing.dead = [electing.place.ref(2)]
        await step(electing)
        assert (await electing.state()).leader_epoch > 4, "it was found dead, and has none"

    run(scenario)


def test_after_a_restore_a_broker_that_keeps_a_log_unknown_to_etcd_is_asked_and_may_lead() -> None:
    async def scenario(electing: Electing) -> None:
        place = electing.place
        await place.lead(P0, epoch=4, isr=(0, 1), replicas=(0, 1))
        await restored(electing)
        electing.kept = KeptLogs({2: frozenset({P0})}, registered=frozenset({2}))
        electing.logs = {0: (4, 10, 1), 1: (4, 10, 1)}
        await step(electing)
        state = await electing.state()
        assert (state.replicas, state.leader) == ((0, 1, 2), None), "all must answer"
        electing.logs[2] = (6, 12, 1)
        await step(electing)
        state = await electing.state()
        assert state.leader is not None
        assert (state.leader.broker_id, state.replicas) == (2, (0, 1, 2)), "the topic has three replicas"

    run(scenario)
