"""A log that failed is opened again when etcd names it nowhere, or under a new incarnation, and never before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import StorageError
from oncelog.types import BrokerRef
from oncelog_partition_leader.replication.replicas.failed_logs import FailedLogs
from tests.unit.partition_leader.cluster_place import P0, Place, run
from tests.unit.partition_leader.replication.replicas.parts import Parts

IO = StorageError("the disk failed")


class Failing:
    """Broker 0's failed logs. `is_forgotten`: etcd can name another replica."""

    def __init__(self, place: Place, *, is_forgotten: bool = True, before: Any = None) -> None:
        self.parts = Parts(place)
        self.here = self.parts.here
        self.done: list[Any] = []
        self.is_forgotten = is_forgotten
        self._before = before
        opener: Any = SimpleNamespace(lower_claim=self._lower, left=lambda _id: self.done.append("left"))
        logs: Any = SimpleNamespace(reopen=self._reopen)
        hand_over: Any = SimpleNamespace(forget=self._forget)
        self.failed = FailedLogs(self.parts.context, self.here, hand_over, opener, logs)

    async def _lower(self, _directory: str, incarnation: int) -> None:
        self.done.append(("claims from", incarnation))
        raise StorageError("the disk failed")

    async def _forget(self, _partition: Any) -> bool:
        self.done.append("forgotten")
        if self._before is not None:
            self._before(self)
        return self.is_forgotten

    async def _reopen(self, _partition: Any) -> None:
        self.done.append("opened again")


def test_it_claims_less_leaves_and_is_opened_again_in_this_order() -> None:
    async def scenario(place: Place) -> None:
        s = Failing(place)
        partition = s.parts.replica()
        s.failed.failed(partition, IO)
        s.failed.failed(partition, IO)
        await place.until(lambda: "opened again" in s.done)
        claim = ("claims from", place.me().incarnation + 1)
        assert s.done == [claim, "forgotten", "left", "opened again"], "once, though the claim could not be written"
        assert (s.here.failed_under, s.parts.renewals) == ({}, [])

    run(scenario)


def test_where_no_other_replica_can_lead_the_broker_takes_a_new_incarnation() -> None:
    async def scenario(place: Place) -> None:
        s = Failing(place, is_forgotten=False)
        s.failed.failed(s.parts.replica(), IO)
        await place.until(lambda: bool(s.parts.renewals))
        assert "opened again" not in s.done
        assert list(s.here.failed_under) == [P0]
        s.failed.incarnation_is(place.me())
        await place.seen()
        assert "opened again" not in s.done, "it failed under this one"
        s.failed.incarnation_is(BrokerRef(0, place.me().incarnation + 1))
        await place.until(lambda: "opened again" in s.done)
        assert s.here.failed_under == {}

    run(scenario)


@pytest.mark.parametrize("ends", [True, False])
def test_meanwhile_it_may_have_been_opened_or_the_process_may_end(ends: bool) -> None:
    def before(s: Failing) -> None:
        if ends:
            s.here.closing = True
        else:
            s.here.failed_under[P0] = BrokerRef(0, 99)

    async def scenario(place: Place) -> None:
        s = Failing(place, before=before)
        s.failed.failed(s.parts.replica(), IO)
        await place.seen()
        assert (s.done[1:], s.parts.renewals) == (["forgotten"], [])
        assert list(s.here.failed_under) == [P0]

    run(scenario)


def test_a_process_that_ends_leaves_nothing_any_more() -> None:
    async def scenario(place: Place) -> None:
        s = Failing(place)
        s.here.closing = True
        s.failed.failed(s.parts.replica(), IO)
        assert s.here.failed_under == {}

    run(scenario)
