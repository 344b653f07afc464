"""How far a replica may be read, and what a reader hears of an offset beyond that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import OffsetNotAvailableError, OffsetOutOfRangeError
from oncelog_partition_leader.partition.readable import Readable


def readable(**changes: Any) -> Readable:
    log = SimpleNamespace(log_start_offset=2, log_end_offset=9, last_stable_offset=lambda watermark: watermark - 2)
    return Readable(cast(Any, log), 3, 7, 2)._replace(**changes)


def test_reading_ends_at_the_watermark_or_at_the_last_stable_offset() -> None:
    assert readable().end(committed_only=False) == 7
    assert readable().end(committed_only=True) == 5


@pytest.mark.parametrize("is_leader", [True, False])
@pytest.mark.parametrize("offset", [2, 7, 8, 9])
def test_what_the_log_has_is_read_or_waited_for(offset: int, is_leader: bool) -> None:
    readable(is_leader=is_leader).check_offset(offset)


@pytest.mark.parametrize("offset", [1, 10])
def test_only_a_leader_calls_an_offset_out_of_range(offset: int) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        readable().check_offset(offset)
    with pytest.raises(OffsetNotAvailableError, match="ask the leader"):
        readable(is_leader=False).check_offset(offset)


def test_a_new_leader_does_not_know_yet_what_of_its_log_is_committed() -> None:
    unsure = readable(is_watermark_known=False)
    unsure.check_offset(7)
    with pytest.raises(OffsetNotAvailableError):
        unsure.check_offset(8)
    with pytest.raises(OffsetOutOfRangeError):
        unsure.check_offset(10)


def test_a_leader_is_read_as_its_leadership_says() -> None:
    log = SimpleNamespace(log_start_offset=1, log_end_offset=9)
    replicas = SimpleNamespace(watermark_is_known=False)
    led = SimpleNamespace(log=log, epoch=4, high_watermark=6, replicas=replicas)
    assert Readable.at_leader(cast(Any, led)) == Readable(cast(Any, log), 4, 6, 1, True, False)
