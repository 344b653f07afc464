"""Acknowledgements of late are known, and bounded."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels import settled_lately
from oncelog_partition_leader.core.channels.settled_lately import SettledLately


@pytest.mark.parametrize(
    ("worker", "delivery", "offset", "known"),
    [("ann", 1, 5, True), ("ann", 1, 6, False), ("ann", 2, 5, False), ("bob", 1, 5, False)],
)
def test_it_knows_the_worker_the_delivery_and_the_record(worker: str, delivery: int, offset: int, known: bool) -> None:
    lately = SettledLately()
    lately.add("ann", 1, 4, 5)
    assert lately.has(worker, delivery, offset) is known


def test_a_worker_is_forgotten() -> None:
    lately = SettledLately()
    lately.add("ann", 1, 4, 5)
    lately.forget("ann")
    lately.forget("bob")
    assert not lately.has("ann", 1, 4)
    lately.check()


def test_the_lowest_ranges_of_a_worker_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_lately, "MAX_RANGES_EACH", 2)
    lately = SettledLately()
    for offset in (0, 2, 4):
        lately.add("ann", 1, offset, offset)
        lately.check()
    assert [lately.has("ann", 1, offset) for offset in (0, 2, 4)] == [False, True, True]


def test_the_quietest_worker_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_lately, "MAX_RANGES", 2)
    lately = SettledLately()
    lately.add("ann", 1, 0, 0)
    lately.add("bob", 1, 2, 2)
    lately.add("ann", 2, 4, 4)
    lately.check()
    assert [lately.has("ann", 1, 0), lately.has("bob", 1, 2), lately.has("ann", 2, 4)] == [True, False, True]


def test_one_worker_alone_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_lately, "MAX_RANGES", 2)
    lately = SettledLately()
    for delivery in (1, 2, 3):
        lately.add("ann", delivery, delivery, delivery)
        lately.check()
    assert [lately.has("ann", delivery, delivery) for delivery in (1, 2, 3)] == [False, True, True]


def test_everything_is_forgotten() -> None:
    lately = SettledLately()
    lately.add("ann", 1, 4, 5)
    lately.clear()
    assert not lately.has("ann", 1, 4)
    lately.check()
