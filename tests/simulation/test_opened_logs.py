"""A log that forgot a transaction with its snapshot is seen when it is opened again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.log.partition_log import PartitionLog
from oncelog_runtime.sim.disk import SimDisk
from tests.simulation.invariants import Sight
from tests.simulation.opened_logs import OpenedLogsKnowTheirTransactions
from tests.simulation.planted_bugs import plant_named
from tests.unit.partition_leader.log_helpers import batch, marker, open_log, run, write

_MARKER_AT = 3


def look(disk: SimDisk, log: PartitionLog, *, reached: int) -> None:
    """As the watcher does when it sees the log first."""
    partition: Any = SimpleNamespace(log=log, topic="orders", id=SimpleNamespace(partition=3))
    sight = Sight(BrokerRef(1, 7), partition, None, reached, log.log_end_offset, (0, 0, 0))
    OpenedLogsKnowTheirTransactions(lambda _: disk, lambda _: reached, lambda: False).see(None, sight)


async def reopened(disk: SimDisk) -> PartitionLog:
    """A log with a transaction that has ended and one that is open, after a clean stop."""
    log = await open_log(disk)
    write(log, batch(1, 0, 2, txn=(1, 1)), batch(2, 0, 1, txn=(2, 1)), marker((1, 1)))
    await log.close()
    return await open_log(disk)


def test_a_whole_log_knows_what_a_replay_knows() -> None:
    async def test(disk: SimDisk) -> None:
        look(disk, await reopened(disk), reached=0)

    run(test)


def test_a_forgotten_open_transaction_is_seen() -> None:
    async def test(disk: SimDisk) -> None:
        log = await reopened(disk)
        with pytest.raises(AssertionError, match="open are"):
            look(disk, log, reached=_MARKER_AT + 1)

    with plant_named("snapshot-without-open").planted():
        run(test)


def test_a_forgotten_end_is_seen_until_its_marker_is_committed() -> None:
    async def test(disk: SimDisk) -> None:
        log = await reopened(disk)
        look(disk, log, reached=_MARKER_AT + 1)
        with pytest.raises(AssertionError, match="ended at 3, is not known"):
            look(disk, log, reached=_MARKER_AT)

    with plant_named("snapshot-without-decided").planted():
        run(test)
