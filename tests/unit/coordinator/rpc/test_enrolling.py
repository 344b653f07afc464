"""The transaction's own shard is asked once, and an answer of an older owner does not count."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_coordinator.core.offsets.offset_commands import Enrolled
from oncelog_coordinator.rpc.enrolling import Enrolling
from tests.unit.coordinator.rpc.test_offset_service import Enrolments, elsewhere
from tests.unit.coordinator.serving import Serving, serve


def test_a_group_that_takes_part_is_not_asked_about() -> None:
    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        other, enrolling = Enrolments(here), Enrolling(here.transport, here.view, 1_000)
        assert await enrolling.enrol(name, name.txn_shard, "g", 4, is_enrolled=True) == Enrolled(None, 4)
        assert not other.seen
        assert await enrolling.enrol(name, name.txn_shard, "g", 4, is_enrolled=False) == Enrolled(9, 4)
        (asked,) = other.seen
        assert (asked.name, list(asked.groups)) == (name, ["g"])

    serve(scenario)


def test_an_older_owner_is_not_believed() -> None:
    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        Enrolments(here, epoch=8)
        with pytest.raises(errors.CoordinatorFencedError):
            await Enrolling(here.transport, here.view, 1_000).enrol(name, name.txn_shard, "g", 0, is_enrolled=False)

    serve(scenario)
