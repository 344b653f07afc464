"""What the answers of administration conclude by themselves: in sync, healthy, and the price of an unclean election."""

from __future__ import annotations

import pytest

from oncelog.client.admin.descriptions import ClusterHealth, PartitionDescription, ReplicaSurvey, SurveyedReplica


@pytest.mark.parametrize(
    ("replicas", "isr", "adding", "expected"),
    [
        ((0, 1), (0, 1), (), True),
        ((0, 1), (0,), (), False),
        ((0, 1, 2), (0, 1), (2,), True),
        ((0, 1, 2), (0,), (2,), False),
        ((0, 1), (0, 1, 2), (), True),
    ],
)
def test_new_replicas_are_not_counted_on(
    replicas: tuple[int, ...], isr: tuple[int, ...], adding: tuple[int, ...], expected: bool
) -> None:
    assert PartitionDescription(0, 0, 1, replicas, isr, adding).fully_in_sync is expected


def test_a_cluster_is_healthy_without_a_problem() -> None:
    assert ClusterHealth("c", 0, (), (), (), 0, ()).healthy
    assert not ClusterHealth("c", 0, (), (), (), 0, ("there is no controller",)).healthy


def replica(broker_id: int, standing: str, end: int, watermark: int = 0, *, answered: bool = True) -> SurveyedReplica:
    return SurveyedReplica(broker_id, answered, standing != "", standing, 4, end, watermark)


@pytest.mark.parametrize(
    ("replicas", "chosen", "price"),
    [
        ((replica(1, "", 90, 40), replica(2, "", 80, 100)), 1, (10, ())),
        ((replica(1, "", 100, 40), replica(2, "", 80, 100)), 1, (0, ())),
        ((replica(0, "lost", 0), replica(1, "", 90, 90)), 1, (0, (0,))),
        ((replica(0, "intact", 0, answered=False), replica(1, "unclean", 90, 90)), 1, (0, (0,))),
        ((replica(0, "intact", 95), replica(1, "", 90, 90)), 1, (0, ())),
        ((replica(0, "unclean", 90), replica(1, "", 10, 5)), 0, (0, ())),
    ],
    ids=["another has more", "it has all", "one lost its log", "one is silent", "one is intact", "itself"],
)
def test_the_price_is_what_is_certainly_missing_and_whose_records_nobody_can_count(
    replicas: tuple[SurveyedReplica, ...], chosen: int, price: tuple[int, tuple[int, ...]]
) -> None:
    assert ReplicaSurvey("orders", 3, 7, False, replicas).missing(chosen) == price
