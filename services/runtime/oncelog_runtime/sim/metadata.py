"""A simulated etcd: one linearizable store for the whole world, and a handle for each node that can lose its answers.

Rule 1: a call takes effect at one instant, between its start and its end; when its answer is lost, perhaps not at all.
Rule 2: revisions, leases, watches and compaction behave as etcd's do; `tests/contracts` runs the same suite on both.
Rule 3: a lease that runs out deletes its keys in one revision. Its holder gets no message.
Rule 4: a watch is a cursor on the history: it may be late, it never skips, and after a compaction or a lost position
        it begins again with a `Listing`.
Rule 5: `restore` brings a `Snapshot` back, as `etcdutl snapshot restore` does: keys, mod revisions and leases are as they
        were, each lease with its whole time to live. A watch that is ahead of the store begins again with a `Listing`;
        one that the store has passed by the time it asks again misses what lies between, as etcd's own watches do.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from random import Random
from typing import Final, TypeVar
from zlib import crc32

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.ports import RENEWAL_MS, Change, CommitResult, Compare, KeyValue, Listing, Put
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.loop import Life, SimFuture, SimLoop

T = TypeVar("T")
DEADLINE_MS: Final = 3_000
"""A call without an answer fails after this time."""
MAX_OPERATIONS: Final = 128
"""etcd's own bound on the conditions, and on the writes, of one transaction."""


class _Lease:
    __slots__ = ("deadline", "keys", "lease_id", "ttl")

    def __init__(self, lease_id: int, ttl: float) -> None:
        self.lease_id = lease_id
        self.ttl = ttl
        self.deadline = 0.0
        self.keys: dict[str, None] = {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of `etcdctl snapshot save`: all keys, the history that was not compacted, leases with their times in s."""

    revision: int
    compacted: int
    items: tuple[KeyValue, ...]
    history: tuple[Change, ...]
    leases: tuple[tuple[int, float], ...]


def check_commit(compares: Sequence[Compare], puts: Sequence[Put], deletes: Sequence[str]) -> None:
    """Raises `ValueError` for a commit that etcd refuses: a key written twice, or too many operations."""
    keys = [put.key for put in puts] + list(deletes)
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key is written twice in one commit: {sorted(keys)}")
    if len(keys) > MAX_OPERATIONS or len(compares) > MAX_OPERATIONS:
        raise ValueError(f"at most {MAX_OPERATIONS} conditions and writes in one commit")


class SimMetadata:
    """The store itself, with faults on command.

    It has 30 methods: etcd's own (reads, commits, leases, watches), and one for each fault.
    """

    def __init__(self, loop: SimLoop, random: Random, plan: FaultPlan | None = None) -> None:
        self.loop = loop
        self.random = random
        self.plan = plan or FaultPlan()
        self.revision = 1
        self._items: dict[str, KeyValue] = {}
        self._leases: dict[int, _Lease] = {}
        self._next_lease = 7_000_000
        self._history: list[Change] = []
        self._compacted = 0
        self._watches: dict[SimWatch, None] = {}
        self._cut: dict[str, None] = {}

    def client(self, name: str, life: Life | None = None) -> SimMetadataClient:
        """Returns a node's handle, which implements `MetadataStore`."""
        return SimMetadataClient(self, name, life)

    # ------------------------------------------------------------ faults on command

    def cut(self, name: str) -> None:
        """Cuts the named node off: it gets no answers and no changes any more."""
        self._cut[name] = None
        self.loop.trace(f"metadata cut {name}")

    def heal(self, name: str | None = None) -> None:
        """Ends the cut of one node, or of all; watches then catch up."""
        names = list(self._cut) if name is None else [name]
        for healed in names:
            self._cut.pop(healed, None)
        for watch in self._watches:
            self._wake(watch)

    def hits(self, name: str) -> bool:
        """Draws whether a fault of the plan happens now, and counts it."""
        probability: float = getattr(self.plan, name)
        if probability <= 0 or self.random.random() >= probability:
            return False
        self.loop.note_fault(name)
        return True

    def is_cut(self, name: str) -> bool:
        """True between `cut` and `heal`."""
        return name in self._cut

    def compact(self) -> None:
        """Drops all history; a watch that is behind starts again with a `Listing`."""
        self._compacted = self.revision
        self._history.clear()

    def break_watches(self) -> None:
        """Makes every watch lose its position."""
        for watch in self._watches:
            watch.position = -1
            self._wake(watch)

    def expire_lease(self, lease_id: int) -> None:
        """Ends the lease now, as if its holder had not renewed it."""
        self._end_lease(lease_id)

    def expire_some_lease(self, random: Random) -> bool:
        """Ends a random lease; False when there is none."""
        if not self._leases:
            return False
        self._end_lease(random.choice(list(self._leases)))
        return True

    # ------------------------------------------------------------ backup and restore

    def snapshot(self) -> Snapshot:
        """Returns the store as it is now."""
        leases = tuple((lease.lease_id, lease.ttl) for lease in self._leases.values())
        return Snapshot(self.revision, self._compacted, tuple(self._items.values()), tuple(self._history), leases)

    def restore(self, snapshot: Snapshot, bump_revision: int = 0) -> None:
        """Goes back to a snapshot. `bump_revision`: as etcdutl's option of this name, together with `--mark-compacted`."""
        self.loop.trace(f"metadata restored to {snapshot.revision}, bumped by {bump_revision}")
        self.revision = snapshot.revision + bump_revision
        self._history = [] if bump_revision else list(snapshot.history)
        self._compacted = self.revision if bump_revision else snapshot.compacted
        self._leases = {}
        for lease_id, ttl in snapshot.leases:
            self._start_lease(_Lease(lease_id, ttl))
        self._items = {item.key: item for item in snapshot.items}
        for item in snapshot.items:
            if item.lease_id:
                self._leases[item.lease_id].keys[item.key] = None
        for watch in self._watches:
            self._wake(watch)

    # ------------------------------------------------------------ the store

    def get(self, key: str) -> KeyValue | None:
        """Returns the current key-value. Tests may call it without delay."""
        return self._items.get(key)

    def list(self, prefix: str) -> Listing:
        """Returns all keys that begin with `prefix` now, sorted."""
        keys = sorted(key for key in self._items if key.startswith(prefix))
        return Listing(tuple(self._items[key] for key in keys), self.revision)

    def commit(self, compares: Sequence[Compare], puts: Sequence[Put], deletes: Sequence[str]) -> CommitResult:
        """Commits all or nothing, now."""
        for compare in compares:
            item = self._items.get(compare.key)
            if (item.mod_revision if item else 0) != compare.mod_revision:
                return CommitResult(False, self.revision)
        for put in puts:
            if put.lease_id and put.lease_id not in self._leases:
                raise MetadataUnavailableError("the lease is gone", reason="lease_gone")
        changes = [key for key in deletes if key in self._items]
        if not puts and not changes:
            return CommitResult(True, self.revision)
        self.revision += 1
        for put in puts:
            self._put(put)
        for key in changes:
            self._delete(key)
        self._publish()
        return CommitResult(True, self.revision)

    def _put(self, put: Put) -> None:
        self._unlease(put.key)
        if put.lease_id:
            self._leases[put.lease_id].keys[put.key] = None
        self._items[put.key] = KeyValue(put.key, bytes(put.value), self.revision, put.lease_id)
        self._history.append(Change(put.key, bytes(put.value), self.revision))
        self.loop.trace(f"put {put.key} {crc32(put.value)} {self.revision}")

    def _delete(self, key: str) -> None:
        self._unlease(key)
        del self._items[key]
        self._history.append(Change(key, None, self.revision))
        self.loop.trace(f"delete {key} {self.revision}")

    def _unlease(self, key: str) -> None:
        item = self._items.get(key)
        if item is not None and item.lease_id in self._leases:
            self._leases[item.lease_id].keys.pop(key, None)

    # ------------------------------------------------------------ leases

    def grant(self, ttl_ms: int) -> int:
        """Grants a lease; whole seconds, at least two, as etcd does."""
        self._next_lease += 1
        self._start_lease(_Lease(self._next_lease, max(2, -(-ttl_ms // 1000))))
        return self._next_lease

    def _start_lease(self, lease: _Lease) -> None:
        self._leases[lease.lease_id] = lease
        lease.deadline = self.loop.time() + lease.ttl
        self.loop.call_at(lease.deadline, self._look, lease, context=self.loop.world)

    def keep_alive(self, lease_id: int) -> int:
        """Returns the new time to live in ms; 0 for a lease that is gone."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return 0
        lease.deadline = self.loop.time() + lease.ttl
        return int(lease.ttl * 1000)

    def revoke(self, lease_id: int) -> None:
        """Ends a lease; an unknown one is no error."""
        self._end_lease(lease_id)

    def _look(self, lease: _Lease) -> None:
        if self._leases.get(lease.lease_id) is not lease:
            return
        if self.loop.time() >= lease.deadline:
            self._end_lease(lease.lease_id)
        else:
            self.loop.call_at(lease.deadline, self._look, lease, context=self.loop.world)

    def _end_lease(self, lease_id: int) -> None:
        lease = self._leases.pop(lease_id, None)
        if lease is None:
            return
        self.loop.trace(f"lease ends {lease_id}")
        if lease.keys:
            self.revision += 1
            for key in sorted(lease.keys):
                self._delete(key)
            self._publish()

    # ------------------------------------------------------------ watches

    def add_watch(self, watch: SimWatch) -> None:
        """Delivers changes to this watch from now on."""
        self._watches[watch] = None

    def remove_watch(self, watch: SimWatch) -> None:
        """Stops delivering changes to this watch."""
        self._watches.pop(watch, None)

    def _publish(self) -> None:
        for watch in self._watches:
            if any(change.key.startswith(watch.prefix) for change in self._changes_after(self.revision - 1)):
                if self.hits("relist"):
                    watch.position = -1
                self._wake(watch)

    def _wake(self, watch: SimWatch) -> None:
        delay = self.plan.watch_min_ms + (self.plan.watch_max_ms - self.plan.watch_min_ms) * self.random.random()
        self.loop.call_later(delay / 1000, self._pump, watch, context=self.loop.world)

    def _pump(self, watch: SimWatch) -> None:
        """Delivers the changes that a watch has not seen."""
        if watch not in self._watches or watch.name in self._cut:
            return
        is_ahead = watch.position > self.revision  # the store was restored
        if is_ahead or (watch.position < self._compacted and watch.position < self.revision):
            watch.push([self.list(watch.prefix)])
        else:
            watch.push([c for c in self._changes_after(watch.position) if c.key.startswith(watch.prefix)])
        watch.position = self.revision

    def _changes_after(self, revision: int) -> Sequence[Change]:
        start = bisect_right(self._history, revision, key=lambda change: change.mod_revision)
        return self._history[start:]


class SimWatch:
    """One watch of one node, as an async iterator."""

    def __init__(self, client: SimMetadataClient, prefix: str) -> None:
        self._client = client
        self._store = client.store
        self._items: deque[Listing | Change] = deque()
        self._waiter: SimFuture[None] | None = None
        self._closed = False
        self.name = client.name
        self.prefix = prefix
        self.position = 0

    def __aiter__(self) -> SimWatch:
        return self

    async def __anext__(self) -> Listing | Change:
        if not self.position and not self._closed:
            await self._begin()
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = self._store.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._items.popleft()

    async def _begin(self) -> None:
        """Gets the first listing; retries until it succeeds."""
        while not self.position and not self._closed:
            try:
                listing = await self._client.list(self.prefix)
            except MetadataUnavailableError:
                await asyncio.sleep(0.1)
                continue
            self.position = listing.revision
            self._items.append(listing)
            self._store.add_watch(self)
            self._store._wake(self)

    def push(self, items: Sequence[Listing | Change]) -> None:
        """Delivers items; called by the store. The changes of one commit are one answer, as in etcd."""
        for item, after in zip_longest(items, items[1:]):
            if isinstance(item, Change) and isinstance(after, Change) and after.mod_revision == item.mod_revision:
                item = replace(item, has_more=True)
            self._items.append(item)
        if self._items:
            self._awake()

    def close(self) -> None:
        """Ends the iteration."""
        self._closed = True
        self._store.remove_watch(self)
        self._awake()

    async def aclose(self) -> None:
        """Ends the iteration, like an async generator's `aclose`."""
        self.close()

    def _awake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class SimMetadataClient:
    """Implements `oncelog_runtime.ports.MetadataStore` for one process of one node."""

    def __init__(self, store: SimMetadata, name: str, life: Life | None) -> None:
        self.store = store
        self.name = name
        self.life = life
        self._watches: dict[SimWatch, None] = {}

    async def get(self, key: str) -> KeyValue | None:
        """Reads one key, linearizably."""
        return await self._call(lambda: self.store.get(key))

    async def list(self, prefix: str) -> Listing:
        """Reads all keys that begin with `prefix`, linearizably."""
        return await self._call(lambda: self.store.list(prefix))

    async def commit(
        self, compares: Sequence[Compare] = (), puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> CommitResult:
        """Writes all or nothing. Raises `MetadataUnavailableError`, with unknown="true" when it may have happened."""
        check_commit(compares, puts, deletes)
        frozen = (tuple(compares), tuple(puts), tuple(deletes))
        return await self._call(lambda: self.store.commit(*frozen), is_unknown=True)

    def watch(self, prefix: str) -> AsyncIterator[Listing | Change]:
        """See `MetadataStore.watch`."""
        watch = SimWatch(self, prefix)
        self._watches[watch] = None
        return watch

    async def grant_lease(self, ttl_ms: int) -> int:
        """Grants a lease and returns its id."""
        return await self._call(lambda: self.store.grant(ttl_ms))

    async def keep_alive(self, lease_id: int) -> int:
        """Renews a lease once."""
        return await self._call(lambda: self.store.keep_alive(lease_id), deadline_ms=RENEWAL_MS)

    async def revoke_lease(self, lease_id: int) -> None:
        """Ends a lease and deletes its keys."""
        await self._call(lambda: self.store.revoke(lease_id))

    async def close(self) -> None:
        """Ends watches."""
        self.unplug()

    def unplug(self) -> None:
        """Ends watches at once; also called when the node dies."""
        for watch in list(self._watches):
            watch.close()
        self._watches.clear()

    async def _call(self, work: Callable[[], T], *, is_unknown: bool = False, deadline_ms: int = DEADLINE_MS) -> T:
        """Simulates request, effect and answer, each of which may be late or lost."""
        if self.life is not None and self.life.dead:
            raise asyncio.CancelledError
        store = self.store
        loop = store.loop
        if store.is_cut(self.name) or self._hits("lose_metadata_request"):
            await self._no_answer(is_unknown, deadline_ms)
        answer: SimFuture[T] = loop.create_future()
        loop.call_later(self._delay(), self._execute, answer, work, context=loop.world)
        lost = self._hits("lose_metadata_answer")
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                result = await answer
                await asyncio.sleep(self._delay())
        except TimeoutError:
            raise _unavailable("no answer in time", is_unknown) from None
        if lost or store.is_cut(self.name):
            await self._no_answer(is_unknown, deadline_ms)
        return result

    async def _no_answer(self, is_unknown: bool, deadline_ms: int) -> None:
        wait = deadline_ms if self.store.random.random() < 0.5 else 1
        await asyncio.sleep(wait / 1000)
        raise _unavailable("the metadata store does not answer", is_unknown)

    def _execute(self, answer: SimFuture[T], work: Callable[[], T]) -> None:
        """Runs at the store, in the world's time: a paused or dying caller does not stop it."""
        try:
            result = work()
        except MetadataUnavailableError as error:
            if not answer.done():
                answer.set_exception(error)
            return
        if not answer.done():
            answer.set_result(result)

    def _delay(self) -> float:
        plan, random = self.store.plan, self.store.random
        ms = plan.metadata_min_ms + (plan.metadata_max_ms - plan.metadata_min_ms) * random.random()
        if self._hits("slow_metadata"):
            ms += plan.slow_metadata_ms * random.random()
        return ms / 2000

    def _hits(self, name: str) -> bool:
        return self.store.hits(name)


def _unavailable(message: str, is_unknown: bool) -> MetadataUnavailableError:
    """The error of a call without an answer; `is_unknown`: the call may have changed something."""
    if is_unknown:
        return MetadataUnavailableError(message, unknown="true")
    return MetadataUnavailableError(message)
