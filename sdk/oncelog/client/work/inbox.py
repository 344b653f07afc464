"""The messages that have come and that the caller does not have yet, in the order in which they came.

Rule 1: a message that is no longer the worker's is not handed out: its time has passed, or its partition has another leader.
Rule 2: one that may be another worker's by now stays until its leader was asked (`assurance`).
Rule 3: what a reader must be told comes after the messages before it, once; every reader gets what ends the worker.
Its bound is the worker's `max_in_flight`: no broker is asked for more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from oncelog.client.home.context import now_ms
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.moment import Moment
from oncelog.core.causes import again
from oncelog.core.work.message_states import MessageIncident
from oncelog.errors import OncelogError

_FOREVER_S = 3_600.0


class Inbox:
    """See the module. `is_ours` says whether the broker that gave a record still leads its partition, and strikes it off
    otherwise; `is_sure`, whether that is beyond doubt. Both are asked at a `moment`: that looks at the clock, which may strike
    off what a frozen process held, and returns the time and the leaders.
    """

    def __init__(
        self,
        moment: Callable[[], Moment],
        is_ours: Callable[[ChannelMessage, Moment], bool],
        is_sure: Callable[[ChannelMessage, Moment], bool] = lambda *_: True,
    ) -> None:
        self._moment = moment
        self._is_ours = is_ours
        self._is_sure = is_sure
        self._messages: deque[ChannelMessage] = deque()
        self._news = asyncio.Event()
        self._error: OncelogError | None = None
        self._fatal: OncelogError | None = None

    def put(self, messages: Iterable[ChannelMessage]) -> None:
        """These have come."""
        self._messages.extend(messages)
        self._news.set()

    def tell(self, error: OncelogError, is_fatal: bool = False) -> None:
        """A reader must be told this."""
        if is_fatal:
            self._fatal = self._fatal or error
        else:
            self._error = error
        self._news.set()

    def wake(self) -> None:
        """Wakes all readers that wait."""
        self._news.set()

    def take(self, most: int) -> list[ChannelMessage]:
        """Up to so many messages for the caller; none when there are none. Raises by rule 3."""
        taken: list[ChannelMessage] = []
        doubtful: list[ChannelMessage] = []
        if self._fatal is None and self._messages:
            moment = self._moment()
            while self._messages and len(taken) < most:
                message = self._messages.popleft()
                if not self._is_ours(message, moment):
                    continue
                if not self._is_sure(message, moment):
                    doubtful.append(message)
                elif message._held.moves(MessageIncident.HANDED_OUT):
                    taken.append(message)
        self._messages.extendleft(reversed(doubtful))
        if not taken:
            self._raise()
        return taken

    def doubtful(self) -> list[ChannelMessage]:
        """Returns the messages here that rule 2 keeps back."""
        if not self._messages:
            return []
        moment = self._moment()
        return [message for message in self._messages if message._held.is_open and not self._is_sure(message, moment)]

    def _raise(self) -> None:
        if self._fatal is not None:
            raise again(self._fatal)
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def wait(self, until_ms: int | None) -> bool:
        """Returns on news. False: the time has passed."""
        left_s = _FOREVER_S if until_ms is None else (until_ms - now_ms()) / 1000
        if left_s <= 0:
            return False
        self._news.clear()
        try:
            async with asyncio.timeout(left_s):
                await self._news.wait()
        except TimeoutError:
            pass
        return True

    def take_all(self) -> list[ChannelMessage]:
        """Returns the messages that were not handed out, for a close."""
        rest = [*self._messages]
        self._messages.clear()
        return rest
