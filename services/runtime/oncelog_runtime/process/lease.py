"""A leased key that exists in the metadata store as long as the process runs.

Rule 1: a lease is a hint that starts elections, never a lock; epochs do the fencing.
Rule 2: a lost answer is neither yes nor no: the key is read before the process relies on it, and a lease whose key
        cannot be read back is revoked.
Rule 3: when the lease is gone the key is written again under a new lease, with a new mod revision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from oncelog.errors import OncelogError
from oncelog_runtime.ports import MetadataStore, Put

_log = logging.getLogger(__name__)
_RETRY_S = 0.2


class Registration:
    """Keeps `key` = `value` alive. `mod_revision` is that of our own write, 0 while the key may be missing.

    `value` must be unique to this process (an address with a nonce) where `mod_revision` is used as an incarnation.
    `on_registered(mod_revision)` is called after each write; `on_lost()` as soon as the lease may have run out.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        key: str,
        value: bytes,
        ttl_ms: int,
        on_registered: Callable[[int], None] = lambda _revision: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._metadata = metadata
        self._key = key
        self._value = value
        self._ttl_ms = ttl_ms
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._lease_id = 0
        self.mod_revision = 0

    async def run(self) -> None:
        """Registers and renews until cancelled; then call `withdraw`."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self.register()
                await self._keep_alive(loop)
            except OncelogError as error:
                _log.warning("registration of %s: %s", self._key, error)
            self._forget()
            await asyncio.sleep(_RETRY_S)

    async def register(self) -> int:
        """Writes the key under a new lease; returns its mod revision. Raises `MetadataUnavailableError`."""
        lease_id = await self._metadata.grant_lease(self._ttl_ms)
        try:
            await self._metadata.commit(puts=[Put(self._key, self._value, lease_id)])
        except OncelogError as error:
            if error.context.get("unknown") != "true":
                raise
        found = await self._metadata.get(self._key)
        if found is None or found.lease_id != lease_id:
            await self._metadata.revoke_lease(lease_id)
            raise OncelogError("the registration did not reach the metadata store", key=self._key)
        self._lease_id, self.mod_revision = lease_id, found.mod_revision
        self._on_registered(self.mod_revision)
        return self.mod_revision

    async def _keep_alive(self, loop: asyncio.AbstractEventLoop) -> None:
        """Returns when the lease is gone, or must be assumed gone because no renewal was confirmed in time."""
        valid_until, pause_s = loop.time() + self._ttl_ms / 1000, self._ttl_ms / 3000
        while loop.time() < valid_until:
            await asyncio.sleep(pause_s)
            asked_at = loop.time()
            try:
                async with asyncio.timeout_at(valid_until):
                    left_ms = await self._metadata.keep_alive(self._lease_id)
            except TimeoutError:
                return
            except OncelogError as error:
                _log.warning("lease of %s was not renewed: %s", self._key, error)
                pause_s = _RETRY_S  # it may reach another member of the store
                continue
            pause_s = self._ttl_ms / 3000
            if left_ms <= 0:
                return
            valid_until = asked_at + left_ms / 1000

    def _forget(self) -> None:
        if self.mod_revision:
            self.mod_revision = 0
            self._on_lost()

    async def withdraw(self) -> None:
        """Removes the key at once (a clean stop). After a failure the key disappears with its lease."""
        lease_id, self._lease_id = self._lease_id, 0
        if lease_id:
            try:
                await self._metadata.revoke_lease(lease_id)
            except OncelogError as error:
                _log.info("lease of %s runs out by itself: %s", self._key, error)
