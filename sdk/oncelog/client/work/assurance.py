"""Makes sure that records which have waited here are still this worker's, before they are handed out.

Rule 1: a record that its leader gave, or confirmed, a moment ago is certainly the worker's (`core/work/deadlines.py`, rule 3).
        Any other one is touched first; so is one whose partition has no leader that this client knows of.
Rule 2: one touch for all such records of a partition, and the next one when it is answered: a partition whose broker is silent
        keeps back its own records alone. An answer that was slow to come makes sure for longer, or no record of a slow broker
        would ever be handed out; but only for a moment, and only if it confirms. After a touch that failed otherwise than by
        a loss there is a pause.
Rule 3: what the touch fails with is not told: a record that was lost is not handed out, and others are asked for again.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from oncelog.client.home.context import now_ms
from oncelog.client.work.inbox import Inbox
from oncelog.client.work.moment import Moment
from oncelog.client.work.settling import Settler
from oncelog.core.work.deadlines import SURE_MS, sure_for_ms
from oncelog.core.work.holding import Held
from oncelog.core.work.settlements import Said, Verdict
from oncelog.errors import NotOwnerError

_PAUSE_S: Final = 0.5
"""How long a partition is not asked about again after a touch that failed otherwise than by the loss of a record."""


class _Slow(NamedTuple):
    """The last answer of a broker makes sure for `sure_ms`, until `until_ms`."""

    sure_ms: int
    until_ms: int


class Assurance:
    """See the module. One per worker."""

    def __init__(self) -> None:
        self._slow: dict[str, _Slow] = {}
        self._asked: dict[tuple[int, str], asyncio.Future[None]] = {}
        """The touch that is on its way, by partition and the broker that gave its records."""

    def is_sure(self, held: Held, moment: Moment) -> bool:
        """Rule 1, but for the leader."""
        now, slow = moment.now_ms, self._slow.get(held.broker)
        return now - held.from_ms <= (slow.sure_ms if slow is not None and now < slow.until_ms else SURE_MS)

    def ask(self, inbox: Inbox, settler: Settler) -> bool:
        """Asks about the messages that the inbox keeps back. Returns False when there are none."""
        by_place: dict[tuple[int, str], list[Held]] = {}
        for message in inbox.doubtful():
            by_place.setdefault((message.partition, message._held.broker), []).append(message._held)
        for place, doubtful in by_place.items():
            if place not in self._asked:
                self._touch(place, doubtful, inbox, settler)
        return bool(by_place)

    def _touch(self, place: tuple[int, str], doubtful: list[Held], inbox: Inbox, settler: Settler) -> None:
        asked_ms, ack_wait_ms = now_ms(), min(held.ack_wait_ms for held in doubtful)

        def look_again() -> None:
            self._asked.pop(place, None)
            inbox.wake()

        def answered(done: asyncio.Future[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None and not isinstance(error, NotOwnerError):  # may fail again, and at once
                asyncio.get_running_loop().call_later(_PAUSE_S, look_again)
                return
            if error is None and not done.cancelled():
                self._slow[place[1]] = _Slow(sure_for_ms(now_ms() - asked_ms, ack_wait_ms), now_ms() + SURE_MS)
            look_again()

        asked = self._asked[place] = settler.say(doubtful, Said(Verdict.TOUCH))
        asked.add_done_callback(answered)
