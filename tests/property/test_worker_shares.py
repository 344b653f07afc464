"""A worker's shares, with brokers that answer, fail, come and go in any order: never too much, and nobody starves."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.work.shares import Shares

NAMES = ("a", "b", "c", "d", "e")


@dataclass
class World:
    """Brokers as they are: what each allows the worker by the request that stands, and what the worker has of each, as the
    broker counts it. A settlement is confirmed to the worker later.
    """

    shares: Shares
    standing: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    confirming: dict[str, int] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)  # who could give something when its request ended

    def ask(self) -> None:
        for grant in self.shares.next_grants():
            assert self.standing.get(grant.broker, 0) == 0, "what allows something is never broken off"
            self.shares.asked(grant)
            self.standing[grant.broker] = grant.max_in_flight
        self.check()

    def check(self) -> None:
        self.shares.check()
        could_be = [max(self.standing.get(name, 0), self.held.get(name, 0)) for name in NAMES]
        assert sum(could_be) <= self.shares.max_in_flight

    def answer(self, name: str, records: int) -> None:
        if name not in self.standing:
            return
        room = max(0, self.standing.pop(name) - self.held.get(name, 0))
        if room:
            self.turns.append(name)
        given_out = min(room, records)
        self.held[name] = self.held.get(name, 0) + given_out
        self.shares.answered(name, given_out)

    def settle(self, name: str) -> None:
        if self.held.get(name, 0):
            self.held[name] -= 1
            self.confirming[name] = self.confirming.get(name, 0) + 1

    def confirm(self, name: str) -> None:
        for _ in range(self.confirming.pop(name, 0)):
            self.shares.let_go(name)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("answer"), st.sampled_from(NAMES), st.integers(0, 20)),
        st.tuples(st.just("settle"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("confirm"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("brokers"), st.sampled_from(NAMES), st.integers(0, 4)),
    ),
    max_size=60,
)


@given(st.integers(1, 12), st.integers(1, 5), STEPS)
def test_brokers_never_may_give_more_than_max_in_flight(
    max_in_flight: int, count: int, steps: list[tuple[str, str, int]]
) -> None:
    world = World(Shares(max_in_flight))
    world.shares.set_brokers(NAMES[:count])
    world.ask()
    for kind, name, number in steps:
        if kind == "answer":
            world.answer(name, number)
        elif kind == "settle":
            world.settle(name)
        elif kind == "confirm":
            world.confirm(name)
        else:
            world.shares.set_brokers(NAMES[number:] if NAMES.index(name) % 2 else NAMES[: number + 1])
        world.ask()


@given(st.integers(1, 12), st.integers(1, 5), STEPS)
def test_every_broker_gets_its_turn_when_what_is_held_is_settled(
    max_in_flight: int, count: int, steps: list[tuple[str, str, int]]
) -> None:
    world = World(Shares(max_in_flight))
    brokers = NAMES[:count]
    world.shares.set_brokers(brokers)
    world.ask()
    for kind, name, number in steps:
        if kind == "answer":
            world.answer(name, number)
        elif kind == "settle":
            world.settle(name)
        elif kind == "confirm":
            world.confirm(name)
        world.ask()
    world.turns.clear()
    for _ in range(2 * count):  # every request ends, with much or with nothing, and everything that came is settled
        for name in brokers:
            world.answer(name, 20 if NAMES.index(name) % 2 else 0)
            world.ask()
        for name in brokers:
            while world.held.get(name, 0):
                world.settle(name)
            world.confirm(name)
            world.ask()
    assert set(world.turns) == set(brokers)
