"""Which of two looks at the topics is the older one."""

from __future__ import annotations

from oncelog_coordinator.core.topology import Topology


def test_topics_are_older_when_their_revision_is_but_not_after_a_restore() -> None:
    assert Topology((0, 5), {}, {}).is_older_than((0, 6))
    assert not Topology((0, 6), {}, {}).is_older_than((0, 6))
    assert not Topology((9, 5), {}, {}).is_older_than((0, 6))
