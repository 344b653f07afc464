"""A leader has one link per follower broker and flush mode, and tells each only of the partitions that it replicates there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.replication import leader
from oncelog_partition_leader.replication.leader import Replicator


class Link:
    """A link that remembers what it was told."""

    def __init__(self, _host: Any, broker_id: int, _tasks: Any, name: str) -> None:
        self.broker_id = broker_id
        self.name = name
        self.told: list[tuple[str, Any]] = []
        LINKS.append(self)

    def __getattr__(self, verb: str) -> Any:
        return lambda what: self.told.append((verb, what))


LINKS: list[Link] = []


@pytest.fixture
def replicator(monkeypatch: pytest.MonkeyPatch) -> Replicator:
    """All links of a broker, which are `LINKS`."""
    LINKS.clear()
    monkeypatch.setattr(leader, "FollowerLink", Link)
    nothing: Any = None
    return Replicator(nothing, nothing)


class Leadership(SimpleNamespace):
    """What a replicator asks of a leadership."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def leadership(*followers: int, fsync: bool = False) -> Any:
    return Leadership(topic_config=SimpleNamespace(fsync=fsync), replicas=SimpleNamespace(followers=followers))


def test_partitions_share_a_link_and_fsync_has_its_own(replicator: Replicator) -> None:
    for one in (leadership(1, 2), leadership(2), leadership(2, fsync=True)):
        replicator.began(one)
    assert [(link.broker_id, link.name) for link in LINKS] == [(1, "memory"), (2, "memory"), (2, "fsync")]


def test_only_the_links_of_a_leadership_hear_of_it(replicator: Replicator) -> None:
    one, other = leadership(1), leadership(2)
    replicator.began(one)
    replicator.began(other)
    replicator.appended(one)
    replicator.watermark_moved(one)
    assert LINKS[0].told == [("add", one), ("appended", one), ("watermark_moved", one)]
    assert LINKS[1].told == [("add", other)]
    replicator.ended(one)
    replicator.appended(one)
    assert LINKS[0].told[3:] == [("remove", one)], "what has ended is not sent"


def test_a_new_session_is_for_one_follower(replicator: Replicator) -> None:
    one = leadership(1, 2)
    replicator.began(one)
    replicator.restart(one, 2)
    assert [verb for verb, _ in LINKS[0].told] == ["add"]
    assert [verb for verb, _ in LINKS[1].told] == ["add", "restart"]


def test_a_new_incarnation_is_for_all_links_to_that_broker(replicator: Replicator) -> None:
    for one in (leadership(1, 2), leadership(2, fsync=True)):
        replicator.began(one)
    replicator.incarnation_is(BrokerRef(2, 9))
    assert ["incarnation_is" in dict(link.told) for link in LINKS] == [False, True, True]
