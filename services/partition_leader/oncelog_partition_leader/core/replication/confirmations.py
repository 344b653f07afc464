"""Whether a leader still leads: which of its questions enough replicas have answered since they were asked.

A leader that stood still, or that etcd does not reach, learns late that another one leads. Nobody takes an append of it any
more, but its high watermark is old: as the end of the log it would leave out what the new leader has acknowledged.

Rule 1: a replica confirms a question by accepting any message of this epoch that was sent after the question. It had not
        heard of a newer epoch by then, and had neither led nor acknowledged anything in one.
Rule 2: all of those that may be elected (ISR, proposed members and eligible replicas) have confirmed, so nobody led; or so
        few of the replicas have not that no new leader had `min_insync_replicas` of them. Either is enough.
Rule 3: a process that has ended, or is not registered, leads nothing and cannot be asked. But it may have led, and another one
        after it: if one of those that may be elected is gone, all other replicas have to confirm.

The rule is Raft's ReadIndex (Ongaro's thesis, 6.4), with ISR and minimum in the place of the majority.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Confirmations:
    """Questions of one leader in one epoch; they are numbered from 1."""

    def __init__(self, others: Iterable[int]) -> None:
        self._answered = dict.fromkeys(others, 0)
        self.asked = 0
        """The newest question."""

    def ask(self) -> int:
        """One question more; its number."""
        self.asked += 1
        return self.asked

    def answered(self, broker_id: int, number: int) -> None:
        """A replica has accepted a message that was sent when this was the newest question."""
        self._answered[broker_id] = max(self._answered.get(broker_id, 0), number)

    def confirmed(self, electable: Collection[int], min_insync_replicas: int, gone: Collection[int] = ()) -> int:
        """The newest question that is answered by enough. `electable`: who may be elected, this leader left out."""
        known = dict.fromkeys(electable, 0) | self._answered
        waited_for = electable if not any(broker in gone for broker in electable) else list(known)
        nobody_led = min((known[broker] for broker in waited_for if broker not in gone), default=self.asked)
        by_number = sorted(known.values())
        few_did_not = by_number[min(min_insync_replicas, len(by_number)) - 1] if by_number else self.asked
        return max(nobody_led, few_did_not)
