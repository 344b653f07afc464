"""The price of an unclean election, as it is told before it is paid."""

from __future__ import annotations

import pytest

from oncelog.client.admin.descriptions import ReplicaSurvey, SurveyedReplica
from oncelog_cli.cluster.partition_elect import price_of
from oncelog_cli.terminal.argument_types import UsageError


def replica(broker_id: int, standing: str, end: int, watermark: int = 0, *, answered: bool = True) -> SurveyedReplica:
    return SurveyedReplica(broker_id, answered, standing != "", standing, 4, end, watermark)


def survey(*replicas: SurveyedReplica) -> ReplicaSurvey:
    return ReplicaSurvey("orders", 3, 7, False, replicas)


def test_what_is_certainly_missing_and_what_nobody_knows_are_both_told() -> None:
    found = survey(replica(0, "lost", 0), replica(1, "", 90, 40), replica(2, "", 80, 100))
    assert price_of(found, 1) == (
        "Everything from offset 90 on that others had is lost, and cannot be brought back: at least 10 committed records."
        " Nobody can say how much broker 0 had beyond that."
    )


def test_the_chosen_one_is_no_doubt_about_itself() -> None:
    found = survey(replica(0, "unclean", 90, 0), replica(1, "", 10, 5))
    assert price_of(found, 0) == (
        "Everything from offset 90 on that others had is lost, and cannot be brought back. "
        "No committed record is known to be missing."
    )


def test_only_a_replica_that_answers_can_be_chosen() -> None:
    found = survey(SurveyedReplica(0, False, True, "", 0, 0, 0), replica(1, "", 10))
    with pytest.raises(UsageError, match="start it first"):
        price_of(found, 0)
    with pytest.raises(UsageError, match="these have: 0, 1"):
        price_of(found, 9)
