"""Decides whether a leader still leads, by the questions that enough replicas have answered since they were asked.

A leader that was paused, or that etcd does not reach, learns late that another broker leads. No replica takes its appends
any more, but its high watermark is old: as the end of the log it would leave out what the new leader has acknowledged.

Rule 1: a replica confirms a question by accepting any message of this epoch's stream that was sent after the question. It
        did not know of a newer epoch by then, and had neither led nor acknowledged anything in one.
Rule 2: either of two is enough. All replicas that may be elected (ISR, proposed members and eligible replicas) have
        confirmed, so none of them led. Or so few of all replicas have not that no new leader had `min_insync_replicas`.
Rule 3: a process that has ended, or is not registered, leads nothing and cannot be asked. But it may have led, and another
        one after it: if one of those that may be elected is gone, all other replicas have to confirm.

The rule is Raft's ReadIndex (Ongaro's thesis, 6.4), with ISR and minimum in the place of the majority.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Confirmations:
    """The questions of one leader in one epoch; they are numbered from 1."""

    def __init__(self, others: Iterable[int]) -> None:
        self._answered = dict.fromkeys(others, 0)
        self.asked = 0
        """Number of the newest question; 0 = none was asked."""

    def ask(self) -> int:
        """Adds a question, and returns its number."""
        self.asked += 1
        return self.asked

    def answered(self, broker_id: int, number: int) -> None:
        """Notes that a replica has accepted a message that was sent when `number` was the newest question."""
        self._answered[broker_id] = max(self._answered.get(broker_id, 0), number)

    def confirmed(self, electable: Collection[int], min_insync_replicas: int, gone: Collection[int] = ()) -> int:
        """Returns the newest question that enough replicas have answered.

        `electable`: replicas that may be elected, without this leader. `gone`: replicas whose process has ended.
        """
        known = dict.fromkeys(electable, 0) | self._answered
        waited_for = electable if not any(broker in gone for broker in electable) else list(known)
        nobody_led = min((known[broker] for broker in waited_for if broker not in gone), default=self.asked)
        by_number = sorted(known.values())
        few_did_not = by_number[min(min_insync_replicas, len(by_number)) - 1] if by_number else self.asked
        return max(nobody_led, few_did_not)
