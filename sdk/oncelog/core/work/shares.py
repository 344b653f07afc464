"""How many records a worker may be given by each broker, so that all of them together never give it more than `max_in_flight`.

Rule 1: a broker is committed to what it was allowed by the request that stands there, or to what the worker holds from it,
        whichever is more. No request makes the sum over all brokers exceed `max_in_flight`. What is being settled counts until
        its broker has confirmed that; the broker counts it no longer, and may have sent the next record already. So for a
        moment the sum here may be higher than what the brokers count, which never is above `max_in_flight`.
Rule 2: a broker whose last request came back empty is idle, also when it is the only one. Its share is one record more than the
        worker holds of it, and its next request stands long; the others have the rest in equal parts, and so has a broker that
        comes later. It gets its part back with the first record that it sends.
Rule 3: when there are more brokers than records, the shares rotate (as NSQ's clients do it): the broker that has waited the
        longest gets the next one, and keeps it for one short request. So every broker gets its turn.
Rule 4: a request is never broken off, since its answer may hold records; one that allows none may be, and is, when its broker's
        turn comes. It stands where the worker holds records and may have no more, and wherever it is not asked for others while
        the worker holds records of a former leader: a worker that is not heard of has left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

TURN_WAIT_MS: Final = 100
"""How long a request may stand whose share others wait for."""
PASSING_WAIT_MS: Final = 500
"""How long a request may stand that has more than one record's share: others could use it, also brokers that come later."""
LONG_WAIT_MS: Final = 10_000
"""How long a request may stand that has nothing to pass on."""


class Grant(NamedTuple):
    """A request that is to be sent now. What stands at this broker already allows nothing, and is broken off."""

    broker: str
    max_in_flight: int
    wait_ms: int


class _Broker:
    """One of them."""

    __slots__ = ("granted", "held", "is_asked", "is_gone", "is_idle", "turn")

    def __init__(self, turn: int) -> None:
        self.granted = 0  # by the request that stands there
        self.held = 0
        self.is_asked = False
        self.is_idle = False
        self.is_gone = False  # it leads nothing for this worker any more, or failed and is not asked again yet
        self.turn = turn  # when its last request ended: grows

    @property
    def committed(self) -> int:
        """Rule 1."""
        return max(self.held, self.granted if self.is_asked else 0)

    @property
    def may_be_asked(self) -> bool:
        return not self.is_gone and (not self.is_asked or self.granted == 0)


class Shares:
    """See the module. After each call that changes something, `next_grants` says what to ask for."""

    def __init__(self, max_in_flight: int) -> None:
        assert max_in_flight >= 1
        self.max_in_flight = max_in_flight
        self._brokers: dict[str, _Broker] = {}
        self._former: dict[str, int] = {}  # what is held from brokers that lead nothing for us any more
        self._turn = 0

    # ------------------------------------------------------------ what has happened

    def set_brokers(self, names: Iterable[str]) -> None:
        """These lead partitions from now on. What is held from others stays held, and what stands there ends as it does."""
        wanted = dict.fromkeys(names)
        for name in [*self._brokers]:
            self._brokers[name].is_gone = name not in wanted
            self._forget_gone(name)
        for name in wanted:
            if name not in self._brokers:
                self._brokers[name] = _Broker(self._turn)
                self._brokers[name].held = self._former.pop(name, 0)

    def _forget_gone(self, name: str) -> None:
        """A broker that is gone is kept as long as a request stands there."""
        broker = self._brokers[name]
        if broker.is_gone and not broker.is_asked:
            del self._brokers[name]
            if broker.held:
                self._former[name] = broker.held

    def asked(self, grant: Grant) -> None:
        """The request of a grant is on its way."""
        broker = self._brokers[grant.broker]
        assert broker.may_be_asked
        assert grant.max_in_flight <= broker.committed + max(0, self.max_in_flight - self.committed)
        broker.is_asked, broker.granted = True, grant.max_in_flight

    def answered(self, name: str, records: int) -> None:
        """The request there has ended and brought so many records."""
        broker = self._brokers[name]
        had_room = broker.held < broker.granted
        broker.is_asked, broker.granted = False, 0
        broker.held += records
        self._turn += 1
        broker.turn = self._turn
        if records or had_room:
            broker.is_idle = not records
        self._forget_gone(name)

    def let_go(self, name: str, records: int = 1) -> None:
        """So many records of this broker are held no more."""
        if name in self._brokers:
            self._brokers[name].held -= records
            assert self._brokers[name].held >= 0
        elif name in self._former:
            self._former[name] -= records
            if self._former[name] <= 0:
                del self._former[name]

    def took(self, name: str, records: int) -> None:
        """The worker holds so many records more of this broker, which it did not ask for by a grant (a claim)."""
        if name in self._brokers:
            self._brokers[name].held += records
        else:
            self._former[name] = self._former.get(name, 0) + records

    # ------------------------------------------------------------ what to do

    def next_grants(self) -> list[Grant]:
        """Returns the requests that are to be sent now, in this order; the caller tells each with `asked`."""
        found: list[Grant] = []
        left = self.max_in_flight - self.committed
        for name, broker in sorted(self._brokers.items(), key=lambda item: item[1].turn):
            if not broker.may_be_asked:
                continue
            allowed = min(self._target(broker), broker.committed + max(0, left))
            is_new = not broker.is_asked
            if allowed > broker.held or (is_new and broker.held and not self._rotates):
                found.append(Grant(name, allowed, self._wait_ms(broker, allowed)))
                left -= max(0, allowed - broker.committed)
            elif is_new and (broker.held or self._former):
                found.append(Grant(name, 0, LONG_WAIT_MS))
        return found

    @property
    def committed(self) -> int:
        """How many records the worker holds, or may be given by the requests that stand."""
        return sum(broker.committed for broker in self._brokers.values()) + sum(self._former.values())

    @property
    def held(self) -> int:
        """How many records the worker holds."""
        return sum(broker.held for broker in self._brokers.values()) + sum(self._former.values())

    @property
    def _rotates(self) -> bool:
        return self.max_in_flight < len(self._brokers)

    def _target(self, broker: _Broker) -> int:
        """The broker's share. Rules 2 and 3."""
        if self._rotates:
            return 1
        if broker.is_idle:
            return broker.held + 1
        idle = sum(other.held + 1 for other in self._brokers.values() if other.is_idle)
        busy = sum(1 for other in self._brokers.values() if not other.is_idle)
        return max(1, (self.max_in_flight - idle) // busy)

    def _wait_ms(self, broker: _Broker, allowed: int) -> int:
        if self._rotates:
            return TURN_WAIT_MS
        return LONG_WAIT_MS if broker.is_idle or allowed <= 1 else PASSING_WAIT_MS

    def check(self) -> None:
        """Asserts every invariant.

        No request brings the worker above `max_in_flight` (`asked`). Claims may, and so may a broker's answer that overtakes
        its answer to an acknowledgement: for the broker the record is the worker's no more, for the worker it still is.
        """
        for broker in self._brokers.values():
            assert min(broker.held, broker.granted) >= 0
            assert broker.is_asked or broker.granted == 0
        assert min(self._former.values(), default=1) >= 1
