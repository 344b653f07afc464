"""The access rules in force in this process: a watch on etcd keeps them up to date, and decisions go to the audit log.

Rule 1: before the first listing every caller is refused (`is_loaded`): no decision is made with rules that were not
        read.
Rule 2: while etcd is away the last rules apply.
Rule 3: many changes at once are applied as one change of the rules.
"""

from __future__ import annotations

import asyncio

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.core.security.access import Access, Policy
from oncelog_runtime.metadata.cluster_keys import SECURITY
from oncelog_runtime.ports import Change, Listing, MetadataStore
from oncelog_runtime.security.stored import Stored
from oncelog_runtime.serving.quotas import Quotas


class Authorizer:
    """Follows the rules in etcd. One per process."""

    def __init__(self, policy: Policy, quotas: Quotas | None = None) -> None:
        self.policy = policy
        self.quotas = quotas
        """Gets changes of quotas; None = they are not used."""
        self.stored = Stored()
        self.revision = 0
        self.is_loaded = False
        self._changed: list[asyncio.Future[None]] = []
        self._is_due = False

    def access(self, principal: str, host: str) -> Access:
        """Returns the rights of a caller. Raises `MetadataUnavailableError`, rule 1."""
        self.require_loaded()
        return self.policy.access(principal, host)

    def require_loaded(self) -> None:
        """Raises `MetadataUnavailableError` before the first listing."""
        if not self.is_loaded:
            raise MetadataUnavailableError("this process has not read its access rules yet", retry_after_ms=200)

    async def follow(self, metadata: MetadataStore) -> None:
        """Applies changes in etcd until cancelled."""
        async for event in metadata.watch(SECURITY):
            self._enter(event)
            if not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._put_in_force)

    def _enter(self, event: Listing | Change) -> None:
        if isinstance(event, Change):
            self.stored.enter(event.key, event.value, event.mod_revision)
            self.revision = max(self.revision, event.mod_revision)
            return
        self.stored = Stored()
        for item in event.items:
            self.stored.enter(item.key, item.value, item.mod_revision)
        self.revision = event.revision

    def _put_in_force(self) -> None:
        self._is_due = False
        stored = self.stored
        self.policy.replace(stored.acls.values(), stored.bindings.values(), stored.roles_by_name())
        if self.quotas is not None:
            self.quotas.replace(stored.quotas.values())
        self.is_loaded = True
        waiting, self._changed = self._changed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, revision: int, timeout_ms: int) -> bool:
        """Waits until the rules of this revision or a later one are in force. False: they are not yet."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.revision < revision or self._is_due:
                    future = asyncio.get_running_loop().create_future()
                    self._changed.append(future)
                    await future
        except TimeoutError:
            return False
        return True
