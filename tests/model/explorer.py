"""Explores every state that a model can reach, breadth first, and returns the shortest way to each kind of violation.

Rules of this file: it knows nothing of the protocol; a model is anything with `initial`, `steps`, `broken` and
`broken_at_rest`, and its states are hashable.  A step is *progress* (the system's own doing) or a *fault* (the
adversary's, who may always decide to stop).  So a state is **at rest** when no progress step leads out of it, and a
model **hangs** when from some state no progress step, in any order, ever leads to rest.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class Step(NamedTuple):
    """What happened between two states; the text is only put together when a trace is printed."""

    text: str
    about: tuple[object, ...] = ()
    fault: bool = False

    def __str__(self) -> str:
        return ("FAULT  " if self.fault else "       ") + self.text.format(*self.about)


class Broken(NamedTuple):
    """A promise that does not hold in a state: its class, which tests name, and what a reader wants to know."""

    kind: str
    why: str


class Model(Protocol[S]):
    """What the explorer needs to know of a model."""

    def initial(self) -> Iterable[S]: ...

    def steps(self, state: S, /) -> Iterable[tuple[Step, S]]: ...

    def broken(self, state: S, /) -> Iterable[Broken]: ...

    def broken_at_rest(self, state: S, /) -> Iterable[Broken]: ...


@dataclass(frozen=True)
class Trace(Generic[S]):
    """The shortest way from an initial state to a violation."""

    broken: Broken
    steps: tuple[Step, ...]
    end: S

    def __str__(self) -> str:
        lines = [f"{self.broken.kind}: {self.broken.why}"]
        lines += [f"  {number:2d} {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([*lines, "     then", *(f"         {line}" for line in str(self.end).splitlines())])


@dataclass
class Exploration(Generic[S]):
    """What an exploration found.  `complete` says that no reachable state was left out.

    `happened` is the text of every step that was taken, by which a test can see that nothing was ruled out by mistake.
    """

    states: int = 0
    at_rest: int = 0
    complete: bool = False
    violations: dict[str, Trace[S]] = field(default_factory=dict)
    happened: set[str] = field(default_factory=set)


def explore(
    model: Model[S],
    max_states: int = 1_000_000,
    until: frozenset[str] = frozenset(),
    key: Callable[[S], Hashable] | None = None,
) -> Exploration[S]:
    """Visit every reachable state.  Stops early, and is then not complete, at `max_states` or with all of `until` found.

    States of equal `key` behave alike, as one in which two brokers have changed places: only the first one is visited.
    """
    collecting = gc.isenabled()
    gc.disable()  # a search makes no cycles, and the collector would walk all its states again and again
    try:
        return _Search(model, until, key).run(max_states)
    finally:
        if collecting:
            gc.enable()


LIVELOCK = Broken("hanging", "from here no order of the system's own steps ever leads to rest")


class _Search(Generic[S]):
    """One exploration under way: the states by number, how each was first reached, and which progress leads to it."""

    def __init__(self, model: Model[S], until: frozenset[str], key: Callable[[S], Hashable] | None) -> None:
        self.model = model
        self.key = key
        self.alike: dict[Hashable, int] = {}
        self.until = until
        self.found: Exploration[S] = Exploration()
        self.number: dict[S, int] = {}
        self.first_reached: list[tuple[int, Step] | None] = []
        self.progress_into: list[list[int]] = []
        self.rests: list[int] = []
        self.queue: deque[S] = deque()

    def run(self, max_states: int) -> Exploration[S]:
        for state in self.model.initial():
            self._reach(state, None)
        while self.queue and len(self.first_reached) <= max_states and not self._has_enough():
            self._expand(self.queue.popleft())
        self.found.states = len(self.first_reached)
        self.found.at_rest = len(self.rests)
        self.found.complete = not self.queue
        if self.found.complete:
            self._look_for_livelock()
        return self.found

    def _has_enough(self) -> bool:
        return bool(self.until) and self.until <= self.found.violations.keys()

    def _reach(self, state: S, how: tuple[int, Step] | None) -> int:
        """The number of a state, which is checked and queued when it is new."""
        known = self.number.get(state)
        if known is not None:
            return known
        if self.key is not None:
            known = self.alike.setdefault(self.key(state), len(self.alike))
            if known < len(self.first_reached):
                self.number[state] = known
                return known
        new = self.number[state] = len(self.first_reached)
        self.first_reached.append(how)
        self.progress_into.append([])
        for broken in self.model.broken(state):
            self._note(broken, state, new)
        self.queue.append(state)
        return new

    def _expand(self, state: S) -> None:
        here = self.number[state]
        rest = True
        for step, after in self.model.steps(state):
            if after == state:
                continue
            self.found.happened.add(step.text)
            there = self._reach(after, (here, step))
            if not step.fault:
                rest = False
                self.progress_into[there].append(here)
        if rest:
            self.rests.append(here)
            for broken in self.model.broken_at_rest(state):
                self._note(broken, state, here)

    def _note(self, broken: Broken, state: S, number: int) -> None:
        if broken.kind not in self.found.violations:
            self.found.violations[broken.kind] = Trace(broken, self._way_to(number), state)

    def _way_to(self, number: int) -> tuple[Step, ...]:
        steps: list[Step] = []
        how = self.first_reached[number]
        while how is not None:
            number, step = how
            steps.append(step)
            how = self.first_reached[number]
        return tuple(reversed(steps))

    def _look_for_livelock(self) -> None:
        """Walk progress backwards from every state at rest; what is not met can never come to rest."""
        met = bytearray(len(self.first_reached))
        todo = list(self.rests)
        for number in todo:
            met[number] = 1
        while todo:
            for before in self.progress_into[todo.pop()]:
                if not met[before]:
                    met[before] = 1
                    todo.append(before)
        lost = met.find(0)
        if lost >= 0:
            self._note(LIVELOCK, next(state for state, number in self.number.items() if number == lost), lost)
