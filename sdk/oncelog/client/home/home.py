"""Where a client lives: in one process and one event loop of it, from its first call until its `close`.

Rule 1: the loop of the first call is the client's. A call in another one raises: what it would wait for runs in the first loop,
        or ended with it.
Rule 2: after `close` every call raises, and nothing connects again by itself.
Rule 3: a forked child has copies of what its parent made: each use of them raises.
Rule 4: all rules together cost one comparison, so that what is done for each record can afford them. (A child has no loop of
        its parent's that runs, so the comparison finds it too.)
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from oncelog.errors import ForkedClientError, IllegalStateError

_CLOSED: Final = "this client is closed, and with it all that it made: make another one with oncelog.Client(...)"
_ELSEWHERE: Final = (
    "this client belongs to another event loop, that of its first call: make a client inside of each asyncio.run() and"
    " close it there, or use oncelog.SyncClient, which any thread may call"
)


class Home:
    """See the module. One per client; `loop` is None before the first call and after `close`."""

    __slots__ = ("_is_closed", "_process_id", "loop")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._process_id = os.getpid()

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._is_closed

    def check(self) -> asyncio.AbstractEventLoop:
        """The loop that runs, which is the client's from now on. Raises `IllegalStateError` or `ForkedClientError`."""
        loop = asyncio.get_running_loop()
        if loop is not self.loop:
            self.check_open()
            if self.loop is not None:
                raise IllegalStateError(_ELSEWHERE)
            self.loop = loop
        return loop

    def check_open(self) -> None:
        """For what needs no loop. Raises `IllegalStateError` after `close`, and `ForkedClientError`."""
        if os.getpid() != self._process_id:
            raise ForkedClientError.inherited()
        if self._is_closed:
            raise IllegalStateError(_CLOSED)

    def close(self) -> None:
        """The client is closed."""
        self._is_closed = True
        self.loop = None
