"""Follows the quotas in etcd for a process whose access rules are off. Where they are on, `Authorizer` follows both."""

from __future__ import annotations

from oncelog_runtime.ports import Change, MetadataStore
from oncelog_runtime.security.stored import QUOTAS, Stored
from oncelog_runtime.serving.quotas import Quotas


async def follow_quotas(quotas: Quotas, metadata: MetadataStore) -> None:
    """Applies changes until cancelled."""
    stored = Stored()
    async for event in metadata.watch(QUOTAS):
        if isinstance(event, Change):
            stored.enter(event.key, event.value, event.mod_revision)
        else:
            stored = Stored()
            for item in event.items:
                stored.enter(item.key, item.value, item.mod_revision)
        quotas.replace(stored.quotas.values())
