"""How far a replica may be read, and what a reader hears of an offset beyond that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import OffsetNotAvailableError, OffsetOutOfRangeError
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.partition.readable import Readable


def epochs() -> LeaderEpochs:
    """Epoch 1 ends at 5, and epoch 3 begins there."""
    table = LeaderEpochs(2)
    table.assign(1, 2, 5)
    table.assign(3, 5, 9)
    return table


def readable(**changes: Any) -> Readable:
    log = SimpleNamespace(
        log_start_offset=2, log_end_offset=9, last_stable_offset=lambda watermark: watermark - 2, epochs=epochs()
    )
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


@pytest.mark.parametrize(("offset", "read_epoch"), [(5, 1), (5, 2), (2, 0), (7, 3), (9, 4), (9, 7)])
def test_what_was_read_and_is_still_there_is_no_loss(offset: int, read_epoch: int) -> None:
    readable().check_read(offset, read_epoch)


@pytest.mark.parametrize(("offset", "read_epoch", "lost_from"), [(6, 1, 5), (8, 2, 5), (6, 2, 5), (3, 0, 2)])
def test_a_reader_is_refused_where_the_log_has_lost_what_it_read(offset: int, read_epoch: int, lost_from: int) -> None:
    with pytest.raises(OffsetOutOfRangeError) as refused:
        readable().check_read(offset, read_epoch)
    assert refused.value.context["lost_from"] == str(lost_from)
    with pytest.raises(OffsetNotAvailableError, match="ask the leader"):
        readable(is_leader=False).check_read(offset, read_epoch)


def test_a_leader_is_read_as_its_leadership_says() -> None:
    log = SimpleNamespace(log_start_offset=1, log_end_offset=9)
    replicas = SimpleNamespace(watermark_is_known=False)
    led = SimpleNamespace(log=log, epoch=4, high_watermark=6, replicas=replicas)
    assert Readable.at_leader(cast(Any, led)) == Readable(cast(Any, log), 4, 6, 1, True, False)
