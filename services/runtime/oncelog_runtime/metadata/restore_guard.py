"""Detects that etcd was restored from a backup. Every process that keeps a view of etcd runs one guard.

    <root>/pulse      grows by one every `PULSE_S`, by the controller, compare-and-swap
    <root>/restored   the pulse when a restore was detected; older values of partitions are not trusted (elections)

Rule 1: etcd went back when its pulse is below one that was seen, its revision below one that was seen, or a key has an
        older mod revision than it had. All three are linearizable reads; a broker keeps the first two in a small file,
        so that it also detects a restore that happened while it was down. A value that its logs prove and etcd lacks
        (`Forgets`), or a topic that its view has and etcd lacks, is the same evidence: a backup may be only seconds old.
Rule 2: the process that detects it first writes `restored` by compare-and-swap, and all others see that key change.
Rule 3: a process never acts on a store whose revision is below one that it has seen: it writes `lift` until the
        revision is above (as etcd's own `--bump-revision` does at once). So no incarnation and no mod revision that
        this process knows is ever used twice.
Rule 4: then everything that this process knows is read again: `before_restart` (its registrations and leases are void),
        and `ClusterView.restart`. Every write of a partition's value compares `restored` (`ClusterView.restored_is`),
        so no later write comes from a process that has not noticed.
Rule 5: the brokers that it has seen are kept, too: a restored etcd may not know those that were added after the backup.
Rule 6: epochs of shards that this process knows are written back: clients and leaders know them too, and accept no
        owner with a lower one. The time-based floor (`Ownership`, rule 5) does not give higher ones after an owner
        whose clock was ahead.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeAlias

from oncelog.core.malformed import MALFORMED
from oncelog.errors import OncelogError, StorageError
from oncelog_runtime.core.checked_json import pack, unpack
from oncelog_runtime.metadata.cluster_keys import (
    DECOMMISSIONS,
    LIFT_KEY,
    PULSE_KEY,
    RESTORED_KEY,
    ROOT,
    SHARDS,
    shard_epoch_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Compare, Disk, KeyValue, Listing, MetadataStore, Put

_log = logging.getLogger(__name__)
PULSE_S: Final = 10.0
_PULSE_LATE: Final = 2
"""A pulse takes at most this many times `PULSE_S` while a controller works."""
PULSE_FILE: Final = "pulse.json"
_RETRY_S: Final = 0.2
_LIFTS_AT_ONCE: Final = 8
Forgets: TypeAlias = Callable[[Sequence[KeyValue], float], Iterable[str]]
"""(all key-values in etcd, the longest time in milliseconds that this process was away) -> names of what etcd has lost."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The highest pulse and revision that were seen, and the mod revision of `restored` under which this process acts.

    `forgotten`: what etcd was known to have lost when this process last started. `brokers`: the ids of all brokers that were
    ever registered, without those that were decommissioned and are away.
    """

    pulse: int = 0
    revision: int = 0
    restored: int = 0
    forgotten: frozenset[str] = frozenset()
    brokers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Store:
    """The result of one look. `contradicts`: a key is older than it was. `lost`: topics of the view that are missing in etcd.
    `forgotten`: proven by the logs, and missing in etcd.
    """

    listing: Listing
    pulse: KeyValue | None
    restored: KeyValue | None
    contradicts: bool
    lost: frozenset[str]
    forgotten: frozenset[str]

    @property
    def count(self) -> int:
        return int(self.pulse.value) if self.pulse is not None else 0

    @property
    def restored_at(self) -> int:
        return self.restored.mod_revision if self.restored is not None else 0


def _revision_of(item: KeyValue | None) -> int:
    return item.mod_revision if item is not None else 0


class RestoreGuard:
    """Call `begin` before the process registers anything in etcd, then keep `run` going. `beats()`: this process bumps
    the pulse.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        *,
        disk: Disk | None = None,
        beats: Callable[[], bool] = lambda: False,
        before_restart: Callable[[], None] = lambda: None,
        forgets: Forgets = lambda _items, _away_ms: (),
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._disk = disk
        self._beats = beats
        self._before_restart = before_restart
        self._forgets = forgets
        self._seen = Seen()
        self._has_begun = False
        self._contradictions: dict[str, None] = {}
        self._doubted = asyncio.Event()
        self.brokers_seen: set[int] = set()
        """The ids of the brokers that this process knows, from earlier runs too (rule 5)."""
        view.on_doubt = self._doubted.set
        view.listen(self._saw)
        self.restores = 0
        """How often this process has restarted its view from a listing."""

    def _saw(self, keys: list[str]) -> None:
        """Keeps `brokers_seen`. A mark of a decommissioned broker that is away and empty may be gone again: its key alone
        tells. One that has replicas stays: it may be put back to use.
        """
        self.brokers_seen.update(self._view.brokers)
        marked = {int(key.removeprefix(DECOMMISSIONS)) for key in keys if key.startswith(DECOMMISSIONS)}
        if gone := marked - self._view.brokers.keys():
            named = {broker_id for entry in self._view.partitions.values() for broker_id in entry.value.replicas}
            self.brokers_seen -= gone - named

    async def begin(self) -> None:
        """Compares etcd with what earlier runs of this process have seen. Returns when it has an answer."""
        self._seen = self._read()
        self.brokers_seen |= self._seen.brokers
        while True:
            try:
                await self._look(thorough=True)
                self._has_begun = True
                return
            except OncelogError as error:
                _log.info("whether etcd was restored is not known: %s", error)
                await asyncio.sleep(_RETRY_S)

    def contradicted(self, what: str) -> None:
        """Reports proof that etcd has lost this value, and triggers a look at once."""
        self._contradictions[what] = None
        self._doubted.set()

    async def run(self) -> None:
        """Looks periodically, and at once when the view is in doubt."""
        while True:
            try:
                async with asyncio.timeout(PULSE_S):
                    await self._doubted.wait()
            except TimeoutError:
                pass
            doubted = self._doubted.is_set()
            self._doubted.clear()
            try:
                await self._look(thorough=doubted)
                if not doubted and self._beats():
                    await self._beat()
            except OncelogError as error:
                _log.info("whether etcd was restored is not known: %s", error)
                if doubted:
                    self._doubted.set()
                    await asyncio.sleep(_RETRY_S)

    # ------------------------------------------------------------ looking

    async def _look(self, *, thorough: bool) -> None:
        """Checks once. `thorough`: every key's mod revision is compared, not only the pulse and the store's revision.

        Before `begin` has returned, the content of this process's logs is compared too.
        """
        seen = replace(self._seen, revision=max(self._seen.revision, self._view.newest_revision))
        store = await self._ask(thorough)
        is_behind = store.listing.revision < seen.revision
        forgotten = (store.forgotten - seen.forgotten) | store.lost | self._contradictions.keys()
        contradicts = is_behind or store.contradicts or bool(forgotten)
        is_told = store.restored_at > seen.restored
        is_older = store.count < seen.pulse or store.restored_at < seen.restored
        if is_older or (contradicts and not is_told):
            _log.error(
                "etcd went back: it was restored from a backup. Its pulse is %d and its revision %d; this process has seen"
                " pulse %d and revision %d; etcd has forgotten what is there: %s. Every process takes its view of the"
                " cluster anew",
                *(store.count, store.listing.revision, seen.pulse, seen.revision),
                ", ".join(sorted(forgotten)) or "none",
            )
            await self._lift(seen.revision)  # first, so that watches which are ahead see that `restored` changes
            await self._declare(store, seen)
        elif not is_behind and not self._acts_under_another(store):
            revision = max(seen.revision, store.listing.revision)
            await self._note(Seen(store.count, revision, store.restored_at, store.forgotten))
            return
        await self._start_again(replace(seen, forgotten=store.forgotten))

    def _acts_under_another(self, store: _Store) -> bool:
        """True when the state of this process, or a registration since `begin`, is from before the restore that the
        store names.

        The view's first listing may be later than that restore, and an older registration of this process does not show
        in it.
        """
        claims_are_old = self._has_begun and store.restored_at != self._seen.restored
        return claims_are_old or store.restored_at != self._view.restored_at(store.restored_at)

    async def _ask(self, thorough: bool) -> _Store:
        known = self._view.revisions() if thorough else {}
        listing = await self._metadata.list(f"{ROOT}/" if thorough else PULSE_KEY)
        pulse = next((item for item in listing.items if item.key == PULSE_KEY), None)
        restored = await self._metadata.get(RESTORED_KEY)
        contradicts = any(item.mod_revision < known.get(item.key, 0) for item in listing.items)
        lost = frozenset(self._view.lost_topics(listing)) if thorough else frozenset[str]()
        store = _Store(listing, pulse, restored, contradicts, lost, self._seen.forgotten)
        if self._has_begun:
            return store
        pulses_missed = store.count - self._seen.pulse if self._seen.revision else math.inf
        away_ms = pulses_missed * PULSE_S * 1000 * _PULSE_LATE
        return replace(store, forgotten=frozenset(self._forgets(listing.items, away_ms)))

    async def _beat(self) -> None:
        pulse = await self._metadata.get(PULSE_KEY)
        count = int(pulse.value) if pulse is not None else 0
        if count < self._seen.pulse:
            self._doubted.set()
            return
        compares = [Compare(PULSE_KEY, _revision_of(pulse))]
        result = await self._metadata.commit(compares, [Put(PULSE_KEY, str(count + 1).encode())])
        if result.succeeded:
            await self._note(replace(self._seen, pulse=count + 1, revision=max(self._seen.revision, result.revision)))

    # ------------------------------------------------------------ after a restore

    async def _declare(self, store: _Store, seen: Seen) -> None:
        """Writes `restored`. Another process may do so at the same time: one write is enough, and the next look sees it."""
        pulse = str(max(store.count, seen.pulse) + 1).encode()
        compares = [Compare(PULSE_KEY, _revision_of(store.pulse)), Compare(RESTORED_KEY, store.restored_at)]
        await self._metadata.commit(compares, [Put(PULSE_KEY, pulse), Put(RESTORED_KEY, pulse)])

    async def _start_again(self, seen: Seen) -> None:
        listing = await self._lifted_listing(seen.revision)
        values = {item.key: item for item in listing.items}
        pulse = int(values[PULSE_KEY].value) if PULSE_KEY in values else 0
        self._contradictions.clear()
        self._before_restart()
        self._view.restart(listing)
        self.restores += 1
        _log.warning("the view of the cluster is read again at revision %d", listing.revision)
        restored = _revision_of(values.get(RESTORED_KEY))
        revision = max(seen.revision, listing.revision)
        await self._note(Seen(max(pulse, seen.pulse), revision, restored, seen.forgotten))

    async def _write_back_shard_epochs(self) -> None:
        """Writes back shard epochs by rule 6; repeats after concurrent writes until etcd holds no lower one."""
        behind = dict(self._view.shard_epochs)
        while behind:
            found = {item.key: item for item in (await self._metadata.list(SHARDS)).items}
            for shard, epoch in list(behind.items()):
                key = shard_epoch_key(*shard)
                item = found.get(key)
                if item is not None and int(item.value) >= epoch:
                    del behind[shard]
                else:
                    await self._metadata.commit([Compare(key, _revision_of(item))], [Put(key, str(epoch).encode())])

    async def _lifted_listing(self, above: int) -> Listing:
        """Returns a listing at a revision not below what the watch has delivered in the meantime, so that nothing newer
        is dropped.
        """
        while True:
            await self._lift(max(above, self._view.newest_revision))
            await self._write_back_shard_epochs()
            listing = await self._metadata.list(f"{ROOT}/")
            if listing.revision >= self._view.newest_revision:
                return listing

    async def _lift(self, above: int) -> None:
        """Raises etcd's revision by rule 3."""
        revision = (await self._metadata.list(LIFT_KEY)).revision
        if revision <= above:
            _log.warning("etcd's revision %d is lifted above %d, which was seen before", revision, above)
        while revision <= above:
            count = min(above + 1 - revision, _LIFTS_AT_ONCE)
            lifts = (self._metadata.commit(puts=[Put(LIFT_KEY, b"")]) for _ in range(count))
            revision = max(result.revision for result in await asyncio.gather(*lifts))

    # ------------------------------------------------------------ the file

    def _read(self) -> Seen:
        if self._disk is None or not self._disk.exists(PULSE_FILE):
            return Seen()
        try:
            found = unpack(self._disk.read_file(PULSE_FILE))
            names = frozenset(map(str, found.get("forgotten", ())))
            brokers = frozenset(map(int, found.get("brokers", ())))
            return Seen(int(found["pulse"]), int(found["revision"]), int(found["restored"]), names, brokers)
        except (*MALFORMED, StorageError) as error:
            _log.error(
                "%s cannot be read, so a restore of etcd before this start is not noticed: %s", PULSE_FILE, error
            )
            return Seen()

    async def _note(self, seen: Seen) -> None:
        """Stores it in memory first. When the file cannot be written, the next run of this process only detects less."""
        seen = replace(seen, brokers=frozenset(self.brokers_seen))
        is_new, self._seen = seen != self._seen, seen
        if self._disk is None or not is_new:
            return
        fields = {**asdict(seen), "forgotten": sorted(seen.forgotten), "brokers": sorted(seen.brokers)}
        try:
            await self._disk.write_atomic(PULSE_FILE, pack(fields))
        except StorageError as error:
            _log.warning("%s cannot be written: %s", PULSE_FILE, error)
