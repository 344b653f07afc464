"""A partition that may have logs is made where they lie, and not before every member has answered."""

from __future__ import annotations

import pytest

from oncelog.types import PartitionId
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs, members

P = PartitionId("a" * 32, 0)
OTHER = PartitionId("b" * 32, 0)
NO_ONE: frozenset[int] = frozenset()


def kept(keepers: tuple[int, ...], missing: frozenset[int] = NO_ONE) -> KeptLogs:
    return KeptLogs(
        {n: frozenset({P, OTHER} if n in keepers else {OTHER}) for n in range(6) if n not in missing}, missing
    )


@pytest.mark.parametrize(
    ("keepers", "missing", "replicas"),
    [
        ((), NO_ONE, (2, 0, 1)),  # it has no logs: as planned
        ((0,), NO_ONE, (0, 2, 1)),  # those that keep one come first
        ((1, 0), NO_ONE, (0, 1, 2)),
        ((4, 5), NO_ONE, (4, 5, 2)),  # others fill up the number
        ((3, 4, 5), NO_ONE, (3, 4, 5)),
        ((0, 3, 4, 5), NO_ONE, (0, 3, 4, 5)),  # all are asked, also when these are more
        ((3, 4, 5), frozenset({1}), None),  # these may be old ones, and 1 may have the newest
        ((4, 5), frozenset({1}), None),
        ((), frozenset({1}), None),
    ],
)
def test_where_a_partition_is_made(
    keepers: tuple[int, ...], missing: frozenset[int], replicas: tuple[int, ...] | None
) -> None:
    assert kept(keepers, missing).replicas_for(P, (2, 0, 1)) == replicas


def test_brokers_that_etcd_does_not_name_have_time_to_register() -> None:
    early = KeptLogs({4: frozenset({P})}, is_early=True)
    assert early.replicas_for(P, (2, 0)) is None
    assert early.replicas_for(P, (2,)) is None, "the one that is known may be an old one"
    assert early.elsewhere(P, ()) is None


def test_where_else_a_known_partition_has_logs_is_known_when_the_registered_have_told() -> None:
    logs = kept((4, 1), frozenset({5}))
    assert logs.elsewhere(P, ()) == (1, 4), "5 is away"
    registered = KeptLogs(logs.answers, logs.missing, frozenset({1, 5}))
    assert registered.elsewhere(P, ()) is None
    assert registered.elsewhere(P, (5,)) == (1, 4), "it was found dead"


def test_of_which_topics_a_log_is_kept() -> None:
    assert kept((1,)).of_topics(["a" * 32, "c" * 32]) == {"a" * 32}
    assert kept(()).of_topics(["a" * 32, "b" * 32]) == {"b" * 32}


def test_a_member_is_registered_or_it_is_named_and_not_decommissioned() -> None:
    assert members([1, 2], [2, 3, 4, 5], [5, 1]) == {1, 2, 3, 4}, "1 is there, so it can answer"
