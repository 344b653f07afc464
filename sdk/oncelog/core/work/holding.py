"""The records that a worker holds: in which state each of them is, and until when it is the worker's.

Rule 1: a record is held once. When it comes again in a later delivery, the earlier one is lost.
Rule 2: a record whose time has passed is forgotten here. One that the caller does not have yet is lost with that; about
        one that he has, the broker has the last word, since he may still say something about it.
Rule 3: nothing here grows without bound: a settled or lost record is removed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from oncelog.core.work.deadlines import held_until_ms, touch_at_ms
from oncelog.core.work.message_states import MessageIncident, MessageState, next_state
from oncelog.core.work.settlements import Place


class Held:
    """One record in one of its deliveries. `broker` is who gave it; `until_ms` is when the worker stops to take it for its
    own.
    """

    __slots__ = (
        "ack_wait_ms",
        "broker",
        "from_ms",
        "is_counted",
        "is_doubtful",
        "is_left",
        "is_touched",
        "leader_epoch",
        "place",
        "state",
        "until_ms",
    )

    def __init__(self, place: Place, broker: str, now_ms: int, ack_wait_ms: int, leader_epoch: int = -1) -> None:
        self.place = place
        self.broker = broker
        self.leader_epoch = leader_epoch
        """The epoch of the leader that delivered it."""
        self.ack_wait_ms = ack_wait_ms
        self.from_ms = now_ms
        self.until_ms = held_until_ms(now_ms, ack_wait_ms)
        self.state = MessageState.WAITING
        self.is_counted = True
        """It is one of those that `Holding` has."""
        self.is_doubtful = False
        """It was acknowledged or rejected, and whether that was done is not known: it may be said again."""
        self.is_touched = False
        """The broker is being told that it is still worked on."""
        self.is_left = False
        """It was acknowledged in a transaction, or settled unseen by the worker. If that fails, it comes again in its time,
        unless its caller says something else about it.
        """

    def moves(self, incident: MessageIncident) -> bool:
        """Moves by the table. False: that is not legal now, and nothing changed."""
        after = next_state(self.state, incident)
        if after is not None:
            self.state = after
        return after is not None

    @property
    def is_open(self) -> bool:
        """Nothing has been said about it yet, and it was not lost."""
        return self.state in (MessageState.WAITING, MessageState.HELD)

    @property
    def may_be_settled(self) -> bool:
        """It was acknowledged or rejected, or is being settled: that the broker no longer has it for this worker may be why."""
        return self.is_doubtful or self.state is MessageState.SETTLING


class Holding:
    """See the module. `add`, `remove` and `passed` tell the broker to whose account each record goes."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Held] = {}
        self._by_time: list[tuple[int, int, Held]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def at(self, place: Place) -> Held | None:
        """Returns the record of this partition and offset, in whichever delivery; None: it is not held."""
        return self._held.get(place[:2])

    def add(self, held: Held) -> Held | None:
        """Returns the earlier delivery of the record, which is lost and removed; None: there is none. Rule 1."""
        key = held.place[:2]
        earlier = self._held.get(key)
        if earlier is not None:
            self.remove(earlier)
            earlier.moves(MessageIncident.TAKEN_AWAY)
        self._held[key] = held
        self._note(held)
        return earlier

    def _note(self, held: Held) -> None:
        self._number += 1
        heapq.heappush(self._by_time, (held.until_ms, self._number, held))

    def remove(self, held: Held) -> bool:
        """Removes it. False: it was removed before."""
        if not held.is_counted:
            return False
        held.is_counted = False
        del self._held[held.place[:2]]
        return True

    def touched(self, held: Held, now_ms: int) -> None:
        """Its time began again at `now_ms`, when the touch was sent."""
        held.from_ms = now_ms
        held.until_ms = held_until_ms(now_ms, held.ack_wait_ms)
        if held.is_counted:
            self._note(held)

    def passed(self, now_ms: int) -> list[Held]:
        """Returns those whose time has passed, and removes them. Rule 2."""
        found: list[Held] = []
        while self._by_time and (self._is_outdated(0) or self._by_time[0][0] <= now_ms):
            _, _, held = heapq.heappop(self._by_time)
            if held.is_counted and held.until_ms <= now_ms:
                self.remove(held)
                if held.state is MessageState.WAITING:
                    held.moves(MessageIncident.TAKEN_AWAY)
                found.append(held)
        return found

    def next_deadline_ms(self) -> int | None:
        """Returns when the next one's time passes; None: there is none. It may be early, never late."""
        return self._by_time[0][0] if self._by_time else None

    def _is_outdated(self, number: int) -> bool:
        until_ms, _, held = self._by_time[number]
        return not held.is_counted or until_ms != held.until_ms

    def to_touch(self, now_ms: int) -> list[Held]:
        """Returns those that have to be touched now, so that they stay the worker's."""
        return [held for held in self._touchable() if _touch_ms(held) <= now_ms]

    def next_touch_ms(self) -> int | None:
        """Returns when the next one has to be touched; None: there is none."""
        return min(map(_touch_ms, self._touchable()), default=None)

    def _touchable(self) -> Iterator[Held]:
        return (held for held in self if held.is_open and not held.is_touched and not held.is_left)

    def check(self) -> None:
        """Asserts every invariant."""
        for key, held in self._held.items():
            assert held.is_counted
            assert key == held.place[:2]
            assert any(entry is held and until == held.until_ms for until, _, entry in self._by_time)


def _touch_ms(held: Held) -> int:
    return touch_at_ms(held.from_ms, held.ack_wait_ms)
