"""The explorer itself: a search that finds nothing proves nothing unless it would have found it."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.explorer import Broken, Step, explore


class Walk:
    """A walk over numbered places: `progress` and `faults` are the ways, `bad` the places where a promise is broken."""

    def __init__(
        self, progress: dict[int, list[int]], faults: dict[int, list[int]] | None = None, bad: tuple[int, ...] = ()
    ) -> None:
        self.progress = progress
        self.faults = faults or {}
        self.bad = bad

    def initial(self) -> Iterable[int]:
        return [0]

    def steps(self, state: int, /) -> Iterable[tuple[Step, int]]:
        for place in self.progress.get(state, []):
            yield Step("to {0}", (place,)), place
        for place in self.faults.get(state, []):
            yield Step("pushed to {0}", (place,), True), place

    def broken(self, state: int, /) -> Iterable[Broken]:
        return [Broken("bad", "a bad place")] if state in self.bad else []

    def broken_at_rest(self, state: int, /) -> Iterable[Broken]:
        return [Broken("stuck", "rests at a negative place")] if state < 0 else []


def test_visits_every_state_once_and_is_complete() -> None:
    found = explore(Walk({0: [1, 2], 1: [3], 2: [3]}))
    assert (found.states, found.at_rest, found.complete, found.violations) == (4, 1, True, {})


def test_returns_the_shortest_trace() -> None:
    trace = explore(Walk({0: [1, 3], 1: [2], 2: [9], 3: [9]}, bad=(9,))).violations["bad"]
    assert [str(step).strip() for step in trace.steps] == ["to 3", "to 9"]
    assert trace.end == 9


def test_a_state_rests_when_only_the_adversary_could_go_on() -> None:
    found = explore(Walk({0: [-1]}, faults={-1: [5]}))
    assert "stuck" in found.violations


def test_a_step_that_changes_nothing_is_no_way_out_of_rest() -> None:
    assert "stuck" in explore(Walk({0: [-1], -1: [-1]})).violations


def test_a_circle_without_a_way_to_rest_hangs() -> None:
    trace = explore(Walk({0: [1, 4], 1: [2], 2: [1]})).violations["hanging"]
    assert trace.end == 1


def test_a_circle_with_a_way_to_rest_does_not_hang() -> None:
    assert not explore(Walk({0: [1], 1: [0, 2]})).violations


def test_the_adversary_does_not_lead_out_of_a_circle() -> None:
    assert "hanging" in explore(Walk({0: [1], 1: [0]}, faults={1: [2]})).violations


def test_a_cut_search_says_so() -> None:
    found = explore(Walk({place: [place + 1] for place in range(100)}), max_states=10)
    assert not found.complete


def test_stops_when_it_has_what_was_asked_for() -> None:
    found = explore(Walk({place: [place + 1] for place in range(100)}, bad=(5,)), until=frozenset({"bad"}))
    assert not found.complete
    assert found.states < 10


def test_visits_one_of_those_that_are_alike() -> None:
    found = explore(Walk({0: [1, -1], 1: [2], -1: [-2], 2: [9], -2: [9]}, bad=(9,)), key=abs)
    assert found.states == 4
    assert [str(step).strip() for step in found.violations["bad"].steps] == ["to 1", "to 2", "to 9"]


def test_a_search_with_a_key_still_finds_circles() -> None:
    assert explore(Walk({0: [1, 4], 1: [2], 2: [-1]}), key=abs).violations["hanging"].end == 1
