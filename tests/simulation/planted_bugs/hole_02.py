"""Election and leadership go by the broker's name: a restarted process stands in for the one that the ISR names.

Only who has answered in its present incarnation is elected, so this shows when the restarted one has answered already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.election import Brokers
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def by_name(brokers: Brokers, refs: Sequence[BrokerRef]) -> tuple[BrokerRef, ...]:
        live = brokers.live
        todays = (BrokerRef(ref.broker_id, live[ref.broker_id]) for ref in refs if ref.broker_id in live)
        return tuple(ref for ref in todays if ref not in brokers.dead)

    with replaced(Brokers, "living", lambda _: by_name):
        yield


PLANT = plant(
    2,
    "leadership and ISR entries name (broker, incarnation)",
    "replication/test_replica_failures::test_a_leader_that_is_heard_again_before_the_next_election_does_not_go_on",
    "replication/test_replica_failures::test_a_follower_that_comes_back_from_a_power_cut_is_not_elected",
)(_planted)
