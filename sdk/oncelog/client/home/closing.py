"""A close that is done once, however often and by however many it is asked for.

Rule 1: the first caller closes. Who calls while that is under way waits for the same close, and cuts nothing short.
Rule 2: a caller in another event loop is refused, unless the work has ended: then there is nothing to wait for.
Rule 3: only the first caller can cut it short, by being cancelled. However it ends, it has ended then, and all who wait
        go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from oncelog.client.home.home import Home


class Closing:
    """See the module. One per thing that is closed."""

    __slots__ = ("_ended", "_home")

    def __init__(self, home: Home) -> None:
        self._home = home
        self._ended: asyncio.Future[None] | None = None

    @property
    def is_begun(self) -> bool:
        """A caller has asked for it: nothing new is taken from here on."""
        return self._ended is not None

    @property
    def is_over(self) -> bool:
        """There is nothing left to do or to wait for."""
        return self._ended is not None and self._ended.done()

    async def once(self, work: Callable[[], Coroutine[object, None, None]]) -> None:
        """Does the work, or waits for the one who does. Raises what it raised, to the one who did it.

        Raises as `Home.check` before; not in a client that is closed: there this waits for the last of the work.
        """
        if self.is_over:
            return
        if not self._home.is_closed:
            self._home.check()
        if self._ended is not None:
            await asyncio.wait((self._ended,))  # whose cancellation leaves the future alone
            return
        self._ended = asyncio.get_running_loop().create_future()
        try:
            await work()
        finally:
            self._ended.set_result(None)
