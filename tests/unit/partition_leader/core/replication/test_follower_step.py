"""Each message asks for one step, and in fsync mode nothing is acknowledged before it is on disk."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog_partition_leader.core.replication.follower_step import (
    Acknowledge,
    FollowerStep,
    acknowledge,
    follower_step,
)

BOTH = (False, True)


@pytest.mark.parametrize(("hello", "reset", "truncates"), list(product(BOTH, repeat=3)))
def test_every_message_has_its_step(hello: bool, reset: bool, truncates: bool) -> None:
    step = follower_step(hello=hello, reset=reset, truncates=truncates)
    if reset:
        assert step is FollowerStep.RESET
    elif truncates:
        assert step is FollowerStep.TRUNCATE
    elif hello:
        assert step is FollowerStep.REPORT
    else:
        assert step is FollowerStep.APPEND
    assert step.waits is (hello or reset or truncates)


@pytest.mark.parametrize(("wants_sync", "is_epoch_synced"), list(product(BOTH, repeat=2)))
@pytest.mark.parametrize("synced_end", [4, 5, 6])
def test_every_log_end_has_its_time(wants_sync: bool, is_epoch_synced: bool, synced_end: int) -> None:
    when = acknowledge(wants_sync=wants_sync, synced_end=synced_end, log_end=5, is_epoch_synced=is_epoch_synced)
    if not wants_sync:
        assert when is Acknowledge.NOW
    elif synced_end < 5:
        assert when is Acknowledge.AFTER_SYNC
    else:
        assert when is (Acknowledge.NOW if is_epoch_synced else Acknowledge.NOW_AND_SYNC)
