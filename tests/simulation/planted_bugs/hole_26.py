"""Old replicas leave as soon as the new ones stand beside them, in sync or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster import reassignment
from oncelog_runtime.metadata.cluster_keys import Partition, Reassignment
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def at_once(
        partition: Partition,
        move: Reassignment,
        live: Mapping[int, int],
        min_insync: int,
        dead: Collection[BrokerRef] = (),
        avoid: Collection[BrokerRef] = (),
    ) -> Partition | None:
        if reassignment.is_done(partition, move) or not reassignment.has_begun(partition, move):
            return None
        here = (BrokerRef(broker_id, live.get(broker_id, 0)) for broker_id in move.target)
        isr = tuple(ref for ref in here if ref.incarnation)
        if not isr:
            return None
        epoch = partition.leader_epoch + 1
        return replace(partition, replicas=move.target, leader=isr[0], leader_epoch=epoch, isr=isr)

    with replaced(reassignment, "finish", lambda _: at_once):
        yield


PLANT = plant(
    26,
    "an old replica leaves only when the new ones are in the ISR",
    "cluster/test_moving::test_a_move_keeps_every_record_and_deletes_the_old_log",
    "cluster/test_moving::test_the_old_replica_stays_until_the_new_one_is_in_the_isr",
)(_planted)
