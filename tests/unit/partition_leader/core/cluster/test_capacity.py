"""How many partitions a broker takes."""

from __future__ import annotations

import pytest

from oncelog.errors import PolicyViolationError
from oncelog_partition_leader.core.cluster.capacity import check_room, held_by, partitions_for


@pytest.mark.parametrize(
    ("descriptors", "taken"), [(600, 150), (1_024, 256), (1 << 20, 10_000), (0, 10_000), (1, 1), (20_000, 5_904)]
)
def test_half_of_the_descriptors_stay_free_for_connections(descriptors: int, taken: int) -> None:
    assert partitions_for(descriptors, 10_000) == taken


def test_everything_fits_or_the_first_broker_without_room_is_named_with_its_numbers() -> None:
    held = held_by([(1, 2), (2, 3), (2, 1)])
    assert held == {1: 2, 2: 3, 3: 1}
    check_room({1: 8, 2: 7}, held, {1: 10, 2: 10})
    with pytest.raises(PolicyViolationError, match="broker 2 takes 10 partitions and has 3, so 8 more do not fit"):
        check_room({1: 8, 2: 8}, held, {1: 10, 2: 10})


def test_an_older_broker_that_does_not_say_its_limit_takes_everything() -> None:
    check_room({1: 1_000_000}, held_by([]), {1: 0})
    check_room({1: 1_000_000}, held_by([]), {})
