"""The throttles that servers have announced: methods that a client shall not call at an address for a while.

Rule 1: a server delays calls that ignore a throttle; a client that heeds it waits where waiting costs no server memory.
Rule 2: while no server has said anything, asking costs one look at `active`.
"""

from __future__ import annotations

from typing import Final

NEWS_MS: Final = 60_000
THROTTLE_MAX_MS: Final = 300_000
"""No server can keep us away for longer than this before we ask again."""


class Throttles:
    """The throttles of one client. Times are milliseconds of its loop's clock."""

    def __init__(self) -> None:
        self._until_ms: dict[tuple[str, str], int] = {}
        self._last_ms: dict[tuple[str, str], int] = {}
        self._news_ms: dict[str, int] = {}
        self.active = False
        self.throttled_ms = 0
        """How long servers asked to wait, together."""

    def told(self, address: str, method: str, throttle_ms: int, now_ms: int) -> bool:
        """A server asks for this. True: not for a minute has this server done so."""
        key = (address, method)
        before_ms = max(self._until_ms.get(key, 0), now_ms)
        until_ms = now_ms + min(throttle_ms, THROTTLE_MAX_MS)
        self.throttled_ms += max(until_ms - before_ms, 0)
        self._until_ms[key] = self._last_ms[key] = max(until_ms, before_ms)
        self.active = True
        is_news = now_ms - self._news_ms.get(address, -NEWS_MS) >= NEWS_MS
        if is_news:
            self._news_ms[address] = now_ms
        return is_news

    def until_ms(self, address: str, method: str, now_ms: int) -> int:
        """When this may be called again; 0 = now."""
        if not self.active:
            return 0
        until_ms = self._until_ms.get((address, method), 0)
        if until_ms > now_ms:
            return until_ms
        if self._until_ms.pop((address, method), None) is not None and not self._until_ms:
            self.active = False
        return 0

    def held_since(self, address: str, method: str, since_ms: int) -> bool:
        """True when a quota kept this from being called at any moment since then."""
        last_ms = self._last_ms.get((address, method))
        return last_ms is not None and last_ms > since_ms
