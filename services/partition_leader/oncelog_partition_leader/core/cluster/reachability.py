"""Which brokers answer this one, and what their silence proves.

Rule 1: a broker is *heard* when it has answered us under its registered incarnation, at most `silence_max_ms` ago. A broker
        that has just registered is neither heard nor silent: it gets the same time for its first answer.
Rule 2: a refused connection proves that the process is gone, and needs no second opinion. The proof is good for as long as
        the registration of a dead process can last: one that outlives it belongs to a living process behind a firewall.
Rule 3: silence proves nothing by itself: either end may be cut off. It counts as death only for a broker that hears from a
        majority of the registered brokers, and only if another of them has an opinion and none of them reaches the suspect.
Rule 4: time in which *this* process was paused does not count as silence of the others (`slept`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from oncelog.types import BrokerRef

_LEASES: Final = 2
"""This many leases after the refusal, a registration cannot belong to the dead process any more: etcd may be late by one."""


class Probe(Enum):
    """The result of a probe of the suspect itself."""

    ANSWERED = 1
    GONE = 2
    SILENT = 3


class Verdict(Enum):
    """The conclusion about a suspect."""

    ANSWERS = 1
    DEAD = 2
    CUT_OFF = 3
    """It is alive, but this broker does not reach it."""
    UNDECIDED = 4


@dataclass(slots=True)
class _Contact:
    """`last_ms`: its last answer, or when its registration was seen first."""

    last_ms: int
    answered: bool = False
    failed: bool = False
    """A call to it has failed since its last answer."""
    refused_ms: int | None = None


class Reachability:
    """The registered brokers as one of them, `me`, reaches them. Times come from its monotonic clock."""

    def __init__(self, me: int, *, silence_max_ms: int, lease_ms: int) -> None:
        self._me = me
        self._silence_max_ms = silence_max_ms
        self._proof_ms = _LEASES * lease_ms
        self._contacts: dict[BrokerRef, _Contact] = {}

    # ------------------------------------------------------------ what happened

    def registered(self, live: Mapping[int, int], now_ms: int) -> None:
        """Takes over the registered brokers. `live`: broker id -> incarnation."""
        refs = [BrokerRef(broker_id, incarnation) for broker_id, incarnation in live.items() if broker_id != self._me]
        self._contacts = {ref: self._contacts.get(ref) or _Contact(now_ms) for ref in refs}

    def answered(self, ref: BrokerRef, now_ms: int) -> bool:
        """Notes that a broker has answered under this incarnation. True when it was not heard before."""
        contact = self._contacts.get(ref)
        if contact is None:
            return False
        was_heard = self.heard(ref, now_ms)
        contact.last_ms, contact.answered, contact.failed, contact.refused_ms = now_ms, True, False, None
        return not was_heard

    def refused(self, ref: BrokerRef, now_ms: int) -> None:
        """Notes that a connection to the broker's address was refused: no process listens there."""
        contact = self._contacts.get(ref)
        if contact is not None and contact.refused_ms is None:
            contact.refused_ms = now_ms

    def failed(self, ref: BrokerRef) -> None:
        """Notes that a call to the broker failed on its way: an answer to an earlier one says nothing of now."""
        contact = self._contacts.get(ref)
        if contact is not None:
            contact.failed = True

    def slept(self, ms: int) -> None:
        """Excuses all others for the time in which this process was paused."""
        for contact in self._contacts.values():
            contact.last_ms += ms

    # ------------------------------------------------------------ questions

    def heard(self, ref: BrokerRef, now_ms: int) -> bool:
        """Returns True when the broker has answered in this incarnation, and not too long ago."""
        contact = self._contacts.get(ref)
        return (
            contact is not None and contact.answered and contact.refused_ms is None and self._is_recent(contact, now_ms)
        )

    def is_gone(self, ref: BrokerRef, now_ms: int) -> bool:
        """Returns True when a refused connection proves that the broker's process has ended."""
        contact = self._contacts.get(ref)
        if contact is None or contact.refused_ms is None:
            return False
        return now_ms - contact.refused_ms <= self._proof_ms

    def all_heard(self, now_ms: int) -> list[BrokerRef]:
        """Returns all brokers that are heard."""
        return [ref for ref in self._contacts if self.heard(ref, now_ms)]

    def silent(self, for_ms: int, now_ms: int) -> list[BrokerRef]:
        """Returns the registered brokers that have not answered for longer than this."""
        return [ref for ref, contact in self._contacts.items() if now_ms - contact.last_ms > for_ms]

    def opinion(self, ref: BrokerRef, now_ms: int) -> bool | None:
        """Answers another broker that asks whether this one hears `ref`; None: it cannot know yet."""
        contact = self._contacts.get(ref)
        is_new = contact is not None and not contact.answered and contact.refused_ms is None
        if contact is None or (is_new and self._is_recent(contact, now_ms)):
            return None
        return self.heard(ref, now_ms)

    def hears_majority(self, now_ms: int) -> bool:
        """Returns True when this broker and those it hears are more than half of all: no other side can say so."""
        return 2 * (len(self.all_heard(now_ms)) + 1) > self._electorate(now_ms)

    def is_minority(self, now_ms: int) -> bool:
        """Returns True when fewer than half have answered recently or may still do so: the others may be a majority alone."""
        contacts = self._contacts.items()
        possible = sum(self._is_recent(contact, now_ms) and contact.refused_ms is None for _, contact in contacts)
        return 2 * (possible + 1) < self._electorate(now_ms)

    def may_be_given_up(self, after_ms: int, now_ms: int) -> bool:
        """Returns True when this broker, and those that have answered within this time, are no majority of the registered ones:
        the others may reach none of these, and hold this broker for dead. One that refuses connections counts: a firewall
        may do so, and refuse ours there, which is taken for a proof (rule 2).
        """
        contacts = self._contacts.values()
        answered = sum(
            contact.answered
            and not contact.failed
            and contact.refused_ms is None
            and now_ms - contact.last_ms < after_ms
            for contact in contacts
        )
        return 2 * (answered + 1) <= 1 + len(contacts)

    def _electorate(self, now_ms: int) -> int:
        return 1 + sum(not self.is_gone(ref, now_ms) for ref in self._contacts)

    def _is_recent(self, contact: _Contact, now_ms: int) -> bool:
        return now_ms - contact.last_ms < self._silence_max_ms


def judge(probe: Probe, *, hears_majority: bool = False, opinions: Sequence[bool | None] = ()) -> Verdict:
    """Applies rules 2 and 3. `opinions`: whether each of the other brokers reaches the suspect; None: it does not know."""
    if probe is Probe.ANSWERED:
        return Verdict.ANSWERS
    if probe is Probe.GONE:
        return Verdict.DEAD
    if True in opinions:
        return Verdict.CUT_OFF
    return Verdict.DEAD if hears_majority and False in opinions else Verdict.UNDECIDED
