"""A replica gets the role that etcd names, and its ISR is counted while it leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.replication.replicas.roles import Roles
from oncelog_runtime.metadata.cluster_keys import Partition, Topic
from oncelog_runtime.metadata.cluster_view import Versioned
from tests.unit.partition_leader.cluster_place import P0, TOPIC_ID, Place, run
from tests.unit.partition_leader.replication.replicas.parts import Parts, noting


class Giving:
    """The roles of broker 0's replicas."""

    def __init__(self, place: Place) -> None:
        self.parts = Parts(place)
        self.place = place
        host: Any = self.parts.host
        host.replicator, host.isr = noting(), noting()
        self.replicator, self.isr, self.sealer = host.replicator, host.isr, noting()
        self.restored: list[Any] = []
        opener: Any = SimpleNamespace(owes=lambda _partition: self.owes, in_sync=self._in_sync)
        self.owes = False
        self.roles = Roles(self.parts.context, self.parts.here, host, opener, self.sealer, self.parts.apply)

    async def _in_sync(self, partition: Any) -> None:
        self.restored.append(partition)

    def entry(self, leader: BrokerRef | None, epoch: int = 5, isr: tuple[int, ...] = (0, 1)) -> Versioned[Partition]:
        return Versioned(Partition("t", (0, 1), leader, epoch, self.place.refs(*isr)), 77)


def test_a_replica_that_another_broker_leads_stops_leading_unless_it_leads_in_a_later_epoch() -> None:
    async def scenario(place: Place) -> None:
        s = Giving(place)
        for epoch, stops in ((5, True), (6, False)):
            partition = s.parts.replica(leadership=SimpleNamespace(epoch=epoch))
            s.roles.give(partition, s.entry(place.ref(1)))
            assert partition.calls == [("saw_epoch", 5), *([("stop_leading", None)] if stops else [])]

    run(scenario)


def test_a_leader_takes_over_the_isr_and_it_is_counted() -> None:
    async def scenario(place: Place) -> None:
        s = Giving(place)
        leadership = noting(epoch=5)
        partition = s.parts.replica(leadership=leadership)
        s.roles.give(partition, s.entry(place.me()))
        s.roles.give(partition, s.entry(place.me(), isr=(0,)))
        assert [verb for verb, _ in leadership.calls] == ["isr_is", "isr_is"]
        assert (s.isr.calls[0], s.sealer.calls[0]) == (("look", leadership), ("look", partition))
        assert s.parts.host.metrics._isr_shrinks.value == 1

    run(scenario)


def test_a_new_leader_begins_to_replicate() -> None:
    async def scenario(place: Place) -> None:
        s = Giving(place)
        leadership = noting(epoch=5)
        partition = s.parts.replica(lead=lambda *_: leadership, topic_config=SimpleNamespace(min_insync_replicas=1))
        s.roles.give(partition, s.entry(place.me()))
        assert list(s.parts.here.led) == [leadership]
        assert (s.replicator.calls, s.sealer.calls) == ([("began", leadership)], [("look", partition)])
        assert s.parts.host.metrics.leader_changes.value == 1

    run(scenario)


def test_a_leader_whose_log_is_beyond_the_epoch_raises_it() -> None:
    async def scenario(place: Place) -> None:
        await place.topic()
        await place.lead(epoch=5)
        s = Giving(place)
        partition = s.parts.replica(
            lead=lambda *_: None,
            topic_config=SimpleNamespace(min_insync_replicas=1),
            known_epoch=5,
            log=SimpleNamespace(last_epoch=8),
        )
        s.roles.give(partition, place.view.partitions[P0])
        s.roles.give(partition, place.view.partitions[P0])
        await place.until(lambda: s.parts.told == [("apply", P0)])
        assert (await place.state()).leader_epoch == 9

    run(scenario)


def test_a_replica_whose_log_is_rewritten_is_looked_at_again_when_that_has_ended() -> None:
    async def scenario(place: Place) -> None:
        import asyncio

        s = Giving(place)
        exclusive = asyncio.Lock()
        await exclusive.acquire()
        s.roles.give(s.parts.replica(exclusive=exclusive), s.entry(place.me()))
        await asyncio.sleep(0.1)
        assert s.parts.told == []
        exclusive.release()
        await place.until(lambda: s.parts.told == [("apply", P0)])

    run(scenario)


@pytest.mark.parametrize("owes", [True, False])
def test_a_replica_in_the_isr_restores_its_claim_and_a_failed_one_nothing(owes: bool) -> None:
    async def scenario(place: Place) -> None:
        s = Giving(place)
        s.owes = owes
        s.roles.give(s.parts.replica(failed=ValueError()), s.entry(place.ref(1)))
        partition = s.parts.replica()
        s.roles.give(partition, s.entry(place.ref(1), isr=(1,)))
        s.roles.give(partition, s.entry(place.ref(1)))
        s.roles.give(s.parts.replica(), s.entry(None, epoch=-1))  # a guess names it in the ISR, and knows nothing
        await place.seen()
        assert s.restored == ([partition] if owes else [])

    run(scenario)


def test_options_that_are_not_legal_here_leave_the_old_ones() -> None:
    async def scenario(place: Place) -> None:
        s = Giving(place)
        partition = s.parts.replica()
        s.roles.configure(partition, Topic("t", TOPIC_ID, 1, 1, {"of_a_later_version": "1"}))
        s.roles.configure(partition, Topic("t", TOPIC_ID, 1, 1, {"min_insync_replicas": "2"}))
        ((_, config),) = [call for call in partition.calls if call[0] == "configure"][-1:]
        assert config.min_insync_replicas == 2

    run(scenario)
