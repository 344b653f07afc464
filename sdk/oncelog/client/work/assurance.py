"""Makes sure that records which have waited here are still this worker's, before they are handed out.

Rule 1: a record that its leader gave, or confirmed, a moment ago is certainly the worker's (`core/work/deadlines.py`, rule 3).
        Any other one is touched first; so is one whose partition has no leader that this client knows of.
Rule 2: one touch for all such records, and the next one when it is answered. An answer that was slow to come makes sure for
        longer, or no record of a slow broker would ever be handed out; but only for a moment, and only if it confirms.
Rule 3: what the touch fails with is not told: a record that was lost is not handed out, and others are asked for again.
"""

from __future__ import annotations

import asyncio

from oncelog.client.home.context import now_ms
from oncelog.client.work.inbox import Inbox
from oncelog.client.work.settling import Settler
from oncelog.core.work.deadlines import SURE_MS, sure_for_ms
from oncelog.core.work.holding import Held
from oncelog.core.work.settlements import Said, Verdict


class Assurance:
    """See the module. One per worker."""

    def __init__(self) -> None:
        self._slow_ms = SURE_MS
        self._slow_until_ms = 0
        """Until then the last answer makes sure for `_slow_ms`."""
        self._asked: asyncio.Future[None] | None = None

    def is_sure(self, held: Held) -> bool:
        """Rule 1, but for the leader."""
        now = now_ms()
        return now - held.from_ms <= (self._slow_ms if now < self._slow_until_ms else SURE_MS)

    def ask(self, inbox: Inbox, settler: Settler) -> bool:
        """Asks about the messages that the inbox keeps back. Returns False when there are none."""
        doubtful = [message._held for message in inbox.doubtful()]
        if doubtful and self._asked is None:
            asked_ms, ack_wait_ms = now_ms(), min(held.ack_wait_ms for held in doubtful)

            def answered(done: asyncio.Future[None]) -> None:
                self._asked = None
                if not done.cancelled() and done.exception() is None:
                    self._slow_ms = sure_for_ms(now_ms() - asked_ms, ack_wait_ms)
                    self._slow_until_ms = now_ms() + SURE_MS
                inbox.wake()  # readers look again

            self._asked = settler.say(doubtful, Said(Verdict.TOUCH))
            self._asked.add_done_callback(answered)
        return bool(doubtful)
