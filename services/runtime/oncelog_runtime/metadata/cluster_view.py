"""The content of etcd as this process last saw it: one watch over everything, so that all of it is of one revision.

Rule 1: the view never goes back: a key never takes an older mod revision, a listing older than the view is ignored, and
        a process may enter its own writes ahead of the watch (`learn`). The exception is an etcd that was restored from
        a backup: once that is certain, `RestoreGuard` calls `restart`, which forgets everything but the epochs of
        shards. An event that looks like a restore is not entered, and the guard is called (`on_doubt`). So does a listing
        that lacks a topic without a tombstone (`lost_topics`).
Rule 2: listeners get the changed keys, after all of them were entered: those of a listing, or of one answer of the watch.
Rule 3: a value that cannot be parsed is left out and logged, and affects no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from oncelog.core.malformed import MALFORMED
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_values import (
    ClusterValues,
    ShardKey,
    Versioned,
    moved_partition_of,
    partition_of,
    shard_of,
    troubled_shard_of,
)
from oncelog_runtime.ports import Change, Compare, KeyValue, Listing, MetadataStore

__all__ = [
    "ClusterView",
    "ShardKey",
    "Versioned",
    "moved_partition_of",
    "partition_of",
    "shard_of",
    "troubled_shard_of",
]

_log = logging.getLogger(__name__)
V = TypeVar("V")


class ClusterView(ClusterValues):
    """The cluster as this process last saw it. Free to read; only the watch task and `learn` write."""

    def __init__(self) -> None:
        self.on_doubt: Callable[[], None] = _ignore
        """Called when etcd seems to have gone back, and when another process has declared it (`restored`)."""
        self.on_fault: Callable[[Exception], object] | None = None
        """Gets the exception that a listener raised; without it that ends the watch."""
        self._listeners: list[Callable[[list[str]], None]] = []
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._newest = 0
        self._untold: list[str] = []
        """Changed keys of an answer that is not entered to its end."""
        super().__init__()

    def clear(self) -> None:
        """Forgets everything but what must never go back."""
        super().clear()
        self._revisions: dict[str, int] = {}

    # ------------------------------------------------------------ revisions

    def revision_of(self, key: str) -> int:
        """Returns the mod revision of a key as last seen; 0 = absent."""
        return self._revisions.get(key, 0)

    @property
    def newest_revision(self) -> int:
        """The highest revision that this process has seen."""
        return self._newest

    def revisions(self) -> Mapping[str, int]:
        """Returns a copy of every known key's mod revision."""
        return dict(self._revisions)

    def restored_at(self, unlisted: int = 0) -> int:
        """Returns the mod revision of the last restore that this view includes; `unlisted` before its first listing."""
        if not self.revision:
            return unlisted
        return self.restored.mod_revision if self.restored is not None else 0

    def restored_is(self) -> Compare:
        """Returns the condition that etcd was not restored since this view was read from it."""
        return Compare(cluster_keys.RESTORED_KEY, self.restored_at())

    @property
    def logs_are_told(self) -> bool:
        """True when all brokers have told since the last restore which logs they keep that etcd does not know (`LogSurvey`)."""
        return not self.restored_at() or (self.logs_told is not None and self.logs_told.value == self.restored_at())

    def is_doubtful(self, entry: Versioned[V]) -> bool:
        """True when the value is older than the last restore: later changes of it may be missing in etcd."""
        return entry.mod_revision < self.restored_at()

    # ------------------------------------------------------------ listening

    def listen(self, listener: Callable[[list[str]], None]) -> None:
        """Registers `listener(keys)`, which is called after each change with the changed keys."""
        self._listeners.append(listener)

    async def changed(self) -> None:
        """Returns after the next change."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)  # most callers give up after a while

    # ------------------------------------------------------------ writing

    async def follow(self, metadata: MetadataStore) -> None:
        """Applies the watch; it does not end by itself."""
        async for event in metadata.watch(f"{cluster_keys.ROOT}/"):
            if isinstance(event, Listing):
                self.listed(event)
            else:
                self.change(event)

    def listed(self, listing: Listing) -> None:
        """Applies a full listing at a revision: the first event, and the one after each gap."""
        if self._contradicts(listing):
            self.on_doubt()
            return
        is_first = not self.revision
        self._enter(listing)
        if is_first and self.restored is not None:
            self.on_doubt()  # etcd may have been restored after this process registered something

    def restart(self, listing: Listing) -> None:
        """Replaces everything by a listing after a restore, whatever its revision. Epochs of shards stay."""
        known = list(self._revisions)
        self.clear()
        self._enter(listing, also=known)

    def _contradicts(self, listing: Listing) -> bool:
        """True when a key in the listing is older than here (one may be ahead of it by `learn`), or `restored` differs,
        which only `restart` takes over.
        """
        if listing.revision < self.revision:
            return True
        restored = next((item.mod_revision for item in listing.items if item.key == cluster_keys.RESTORED_KEY), 0)
        if restored != self.restored_at(unlisted=restored):
            return True
        known = self._revisions
        if any(item.mod_revision < known.get(item.key, 0) <= listing.revision for item in listing.items):
            return True
        return bool(self.lost_topics(listing))

    def _enter(self, listing: Listing, also: Iterable[str] = ()) -> None:
        changed = [item.key for item in listing.items if self._put(item)]
        present = {item.key for item in listing.items}
        for key in sorted(self._revisions):
            if key not in present and self._revisions[key] <= listing.revision:
                self._drop(key, listing.revision)
                changed.append(key)
        self.revision = listing.revision
        self._newest = max(self._newest, self.revision)
        self._tell((*changed, *also))

    def change(self, change: Change) -> None:
        """Applies the change of one key. Listeners get it with the last change of the same answer."""
        if change.mod_revision >= self.revision and self._has_entered(change):
            self._untold.append(change.key)
        if not change.has_more:
            self._tell(())

    def _has_entered(self, change: Change) -> bool:
        """Enters a change. False when it is known already, or not taken over here."""
        self.revision = change.mod_revision
        self._newest = max(self._newest, self.revision)
        if change.key == cluster_keys.RESTORED_KEY:
            self.on_doubt()  # `restart` takes it over with everything else
            return False
        if change.value is None:
            return self._drop(change.key, change.mod_revision)
        return self._put(KeyValue(change.key, change.value, change.mod_revision))

    def learn(self, items: Iterable[KeyValue]) -> None:
        """Enters own successful writes, or linearizable reads, ahead of the watch."""
        new = [item for item in items if item.mod_revision > self.revision and item.key != cluster_keys.RESTORED_KEY]
        self._newest = max([self._newest, *(item.mod_revision for item in new)])
        self._tell([item.key for item in new if self._put(item)])

    def _tell(self, more: Iterable[str]) -> None:
        """Gives listeners the keys of which they do not know yet, and these."""
        changed, self._untold = list(dict.fromkeys((*self._untold, *more))), []
        if not changed:
            return
        for listener in self._listeners:
            try:
                listener(changed)
            except Exception as error:  # other listeners must be called, and the watch must continue
                if self.on_fault is None:
                    raise
                self.on_fault(error)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _put(self, item: KeyValue) -> bool:
        if item.mod_revision <= self._revisions.get(item.key, 0):
            return False
        try:
            known = self.enter(item)
        except MALFORMED as error:
            _log.error("the value of %s cannot be parsed: %s", item.key, error)
            return False
        if known:
            self._revisions[item.key] = item.mod_revision
        return known

    def _drop(self, key: str, revision: int) -> bool:
        known = self._revisions.pop(key, 0)
        if not known:
            return False
        if known > revision:  # our own later write
            self._revisions[key] = known
            return False
        self.remove(key)
        return True


def _ignore() -> None:
    """Does nothing: this view has no guard."""
