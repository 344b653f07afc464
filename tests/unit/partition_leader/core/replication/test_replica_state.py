"""What an answer proves of the replica that an ISR names: KIP-966 (unclean stops), KIP-858 (directory ids)."""

from __future__ import annotations

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.replication.replica_state import EMPTY, LogState, ReplicaState, Seal, Standing

NAMED = BrokerRef(1, 20)
LOG = LogState(3, 100)


@pytest.mark.parametrize(
    ("intact_since", "known_since", "now", "standing"),
    [
        (5, 5, 20, Standing.INTACT),
        (5, 5, 30, Standing.INTACT),
        (20, 5, 30, Standing.INTACT),
        (21, 5, 30, Standing.UNCLEAN),
        (30, 20, 30, Standing.UNCLEAN),
        (30, 21, 30, Standing.LOST),
        (0, 0, 20, Standing.INTACT),
        (0, 0, 30, Standing.UNCLEAN),
    ],
)
def test_an_answer_is_judged_by_the_incarnation_that_the_isr_names(
    intact_since: int, known_since: int, now: int, standing: Standing
) -> None:
    assert ReplicaState(LOG, intact_since, known_since).standing(NAMED, BrokerRef(1, now), 3) is standing


def test_later_epochs_beat_longer_logs() -> None:
    assert EMPTY < LogState(2, 500) < LogState(3, 1) < LogState(3, 2)


@pytest.mark.parametrize(
    ("seal", "named", "epoch", "end_offset", "standing"),
    [
        (Seal(10, 3, 7), 10, 3, 7, Standing.INTACT),
        (Seal(10, 3, 7), 10, 3, 9, Standing.INTACT),
        (Seal(10, 3, 7), 10, 3, 6, Standing.UNCLEAN),
        (Seal(10, 3, 7), 10, 4, 7, Standing.UNCLEAN),
        (Seal(10, 3, 7), 9, 3, 7, Standing.UNCLEAN),
        (Seal(10, 3, 7), 11, 3, 7, Standing.UNCLEAN),
        (None, 10, 3, 7, Standing.UNCLEAN),
    ],
    ids=["sealed", "written since", "shorter", "another epoch", "older name", "newer name", "no seal"],
)
def test_what_a_seal_proves(seal: Seal | None, named: int, epoch: int, end_offset: int, standing: Standing) -> None:
    state = ReplicaState(LogState(3, end_offset), intact_since=20, known_since=1, seal=seal)
    assert state.standing(BrokerRef(1, named), BrokerRef(1, 20), epoch) is standing
