"""Decides which shards this process owns: registration, take-over, hand-over, and the end of all of it with the lease.

Rule 1: owner key (leased) and epoch key (without a lease, it only grows) are written in one commit, compared with the
        revisions that were seen: one winner per epoch, and no epoch twice (hole 18).
Rule 2: a lost answer is neither yes nor no.  Until a linearizable read shows this process's own write under this lease,
        it owns nothing; when that read fails too, the lease is revoked and the process registers again (hole 17).
Rule 3: the process assumes that its lease is gone as soon as it may be: then every shard is dropped at once.  This only
        shortens the overlap; safety comes from the epoch, which every receiver checks.
Rule 4: shards go to the coordinator that `core/assignment.py` names.  An ownerless shard is taken at once; an owned one
        is handed over only after the set of coordinators has been stable for `handover_delay_ms`.
Rule 5: an epoch is at least the number of quarters of a second since 2025, and the epochs of a shard do not follow each
        other faster than that. So an etcd that was restored from a backup, which forgets epochs, still yields higher
        ones than all before (docs/decisions/0020-restored-etcd.md), unless an owner's clock was ahead: then the log
        fences the next owner, which continues above the log's epoch. After a restore the process registers again, as
        after the end of the lease.
Rule 6: a draining coordinator is not registered and owns nothing (`drainer`), unless it is the only one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.errors import MetadataUnavailableError, OncelogError
from oncelog_coordinator.core.assignment import assign
from oncelog_coordinator.shard.drainer import CoordinatorDrain
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.shard import Shard
from oncelog_coordinator.shard.shard_runtime import first_cause
from oncelog_runtime.core.listeners import Addresses
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import (
    KIND_GROUP,
    KIND_TXN,
    Coordinator,
    ShardOwner,
    ShardTrouble,
    shard_epoch_key,
    shard_owner_key,
    shard_trouble_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView, ShardKey
from oncelog_runtime.ports import Compare, KeyValue, MetadataStore, Put

_log = logging.getLogger(__name__)
_RETRY_S = 0.2
_LOOK_S = 0.5
_TAKEOVERS_AT_ONCE = 8
_EPOCH_MS = 250
_AHEAD_MAX = 2
"""Epochs that may follow each other without a pause."""
_FLOOR_START_MS = 1_735_689_600_000
"""2025-01-01, from which epochs are counted."""
_EPOCH_MAX = (1 << 31) - 1
"""The largest epoch: epochs have 31 bits."""
_FLOOR_MAX = (1 << 31) - (1 << 24)
"""Reached in 2041; the floor stays there afterwards."""


class _LeaseGoneError(Exception):
    """The lease has ended, or must be assumed to have ended."""


@dataclass(slots=True)
class _Owned:
    """A shard of this process; `revision` is that of the commit that wrote both of its keys."""

    shard: Shard
    task: asyncio.Task[None]
    revision: int
    epoch: int
    is_renewed: bool = False
    """A write of a higher epoch is in progress."""


class Owner(NamedTuple):
    """The addresses of this process and the nonce of this run."""

    addresses: Addresses
    nonce: str


class LeaseTimes(NamedTuple):
    """Time to live of the lease, and how long the set of coordinators must be stable before shards move."""

    ttl_ms: int
    handover_delay_ms: int


class ShardOwnership:
    """Takes and gives shards; `run` is its task, and handlers look shards up in `shards`.

    It has many methods and fields, since what it may own depends on all of them: its lease, the other members, the
    drain, and the shards that it has.
    """

    def __init__(
        self,
        owner: Owner,
        metadata: MetadataStore,
        view: ClusterView,
        clock: SteadyClock,
        make_shard: Callable[[str, int], Shard],
        times: LeaseTimes,
        shards: dict[ShardKey, Shard],
        drain: CoordinatorDrain,
    ) -> None:
        self._drain = drain
        self._addresses, self._nonce = owner
        self._address = drain.address = owner.addresses.internal
        self._metadata = metadata
        self._view = view
        self._clock = clock
        self._make_shard = make_shard
        self._ttl_ms, self._handover_delay_ms = times
        self._lease_id = 0
        self._granted_at = 0.0
        self._owned: dict[ShardKey, _Owned] = {}
        self._members: tuple[str, ...] = ()
        self._members_since_ms = 0
        self._assigned: dict[ShardKey, str] = {}
        self._restored = asyncio.Event()
        self.shards = shards

    # ------------------------------------------------------------ start, lease, end

    async def run(self) -> None:
        """Registers and owns shards until cancelled; registers again each time the lease is gone."""
        while True:
            try:
                await self._register()
                await self._own()
            except (OncelogError, _LeaseGoneError) as error:
                _log.warning("ownership of shards ends: %s", error)
            finally:
                await self._drop_all()
            await self._revoke()
            await asyncio.sleep(_RETRY_S)

    def etcd_was_restored(self) -> None:
        """Gives up the lease and all shards: what etcd says about them is from before the restore."""
        self._restored.set()

    async def stop(self) -> None:
        """Hands everything over: the shards end, then revoking the lease deletes all keys at once. Call it after `run`
        was cancelled.
        """
        await self._drop_all()
        await self._revoke()

    async def _register(self) -> None:
        self._restored.clear()
        self._granted_at = asyncio.get_running_loop().time()
        self._lease_id = self._drain.lease_id = await self._metadata.grant_lease(self._ttl_ms)
        if not self._drain.wanted:
            await self._put_registration()

    async def _put_registration(self) -> None:
        key = f"{cluster_keys.COORDINATORS}{self._address}"
        value = Coordinator(self._nonce, self._addresses.client, self._addresses.external).encode()
        try:
            await self._metadata.commit(puts=[Put(key, value, self._lease_id)])
        except MetadataUnavailableError as error:
            if error.context.get("unknown") != "true":
                raise
        found = await self._metadata.get(key)
        if found is None or found.lease_id != self._lease_id:
            raise MetadataUnavailableError("the registration did not reach the metadata store")
        self._view.learn([found])

    async def _own(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_alive())
                group.create_task(self._until_restored())
                group.create_task(self._reconcile_for_ever())
        except ExceptionGroup as failures:  # not `except*`: before Python 3.11.4 it wraps what is raised in it
            if failures.split((OncelogError, _LeaseGoneError))[1] is not None:
                raise
            raise _LeaseGoneError(str(first_cause(failures))) from failures

    async def _until_restored(self) -> None:
        await self._restored.wait()
        raise _LeaseGoneError("etcd was restored from a backup")

    async def _keep_alive(self) -> None:
        """Renews the lease. Raises `_LeaseGoneError` when no renewal was confirmed in time."""
        loop = asyncio.get_running_loop()
        valid_until, pause_s = self._granted_at + self._ttl_ms / 1000, self._ttl_ms / 4000
        while True:
            await asyncio.sleep(pause_s)
            asked_at = loop.time()
            try:
                async with asyncio.timeout_at(valid_until):
                    left_ms = await self._metadata.keep_alive(self._lease_id)
            except TimeoutError:
                raise _LeaseGoneError("the lease was not confirmed in time") from None
            except OncelogError as error:
                _log.warning("the lease was not renewed: %s", error)
                if loop.time() >= valid_until:
                    raise _LeaseGoneError("the lease was not confirmed in time") from error
                pause_s = _RETRY_S  # it may reach another member of etcd
                continue
            pause_s = self._ttl_ms / 4000
            if left_ms <= 0:
                raise _LeaseGoneError("the lease has ended")
            valid_until = asked_at + left_ms / 1000

    async def _drop_all(self) -> None:
        owned, self._owned = self._owned, {}
        self.shards.clear()
        for entry in owned.values():
            entry.task.cancel()
        await asyncio.gather(*(entry.task for entry in owned.values()), return_exceptions=True)

    async def _revoke(self) -> None:
        lease_id, self._lease_id = self._lease_id, 0
        self._drain.lease_id = 0
        if lease_id:
            try:
                await self._metadata.revoke_lease(lease_id)
            except OncelogError as error:
                _log.info("the lease runs out by itself: %s", error)

    # ------------------------------------------------------------ assignment

    async def _reconcile_for_ever(self) -> None:
        while True:
            await self._reconcile()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._view.changed()
            except TimeoutError:
                pass

    async def _reconcile(self) -> None:
        if not await _or_later(self._follow_drain()):
            return  # no other takes the shards of a coordinator that is still registered
        self._look_at_members()
        for key in [key for key, entry in self._owned.items() if entry.task.done()]:
            self._forget(key)
        missing = [key for key, address in self._assigned.items() if address == self._address and self._is_free(key)]
        for start in range(0, len(missing), _TAKEOVERS_AT_ONCE):
            async with asyncio.TaskGroup() as group:  # not `gather`: if one fails, the others must stop
                for key in missing[start : start + _TAKEOVERS_AT_ONCE]:
                    group.create_task(self._take(key))
        for key, entry in list(self._owned.items()):
            if self._is_lost(key, entry):
                await self._hand_over(key)  # perhaps to itself, under a higher epoch
        for key, revision in self._strays():
            await self._delete_owner_key(key, revision)
        await _or_later(self._tell_troubles())
        if self._drain.wanted or self._clock.now_ms() - self._members_since_ms >= self._handover_delay_ms:
            for key in [key for key in self._owned if self._assigned.get(key) != self._address]:
                await self._hand_over(key)

    async def _tell_troubles(self) -> None:
        """Keeps the keys in etcd that report troubled shards up to date."""
        for key, entry in list(self._owned.items()):
            at, error = shard_trouble_key(*key), entry.shard.vitality.trouble
            known = self._view.shard_troubles.get(key)
            if error and known != (trouble := ShardTrouble(self._address, error)):
                await self._metadata.commit(puts=[Put(at, trouble.encode(), self._lease_id)])
            elif not error and known is not None:
                await self._metadata.commit([Compare(at, self._view.revision_of(at))], deletes=[at])

    async def _follow_drain(self) -> None:
        """Deletes the registration while this coordinator drains, and writes it again afterwards."""
        if not self._view.revision:
            return
        entry = self._view.coordinators.get(self._address)
        key = f"{cluster_keys.COORDINATORS}{self._address}"
        if self._drain.wanted and entry is not None:
            await self._metadata.commit([Compare(key, entry)], deletes=[key])
        elif not self._drain.wanted and entry is None:
            await self._put_registration()

    def _look_at_members(self) -> None:
        known = self._view.cluster
        others = {address for address in self._view.coordinators if address != self._address}
        members = tuple(sorted(others if self._drain.wanted and others else {*others, self._address}))
        if known is None or (members == self._members and self._assigned):
            return
        self._members = members
        self._members_since_ms = self._clock.now_ms()
        counts = {KIND_TXN: known.transaction_shards, KIND_GROUP: known.group_shards}
        self._assigned = {
            (kind, shard): address
            for kind, count in counts.items()
            for shard, address in assign(kind, count, members).items()
        }

    def _is_lost(self, key: ShardKey, entry: _Owned) -> bool:
        """True when etcd no longer says what this process wrote: its owner key is gone or another's, or after a restore of etcd
        another process knew a higher epoch. As long as this one serves a shard without a key, no process would take it.
        """
        if entry.is_renewed:
            return False
        is_other_key = self._view.revision_of(shard_owner_key(*key)) != entry.revision
        return is_other_key or self._view.shard_epochs.get(key, 0) > entry.epoch

    def _is_free(self, key: ShardKey) -> bool:
        return key not in self._owned and self._view.revision_of(shard_owner_key(*key)) == 0

    def _strays(self) -> list[tuple[ShardKey, int]]:
        """Returns shards whose owner key names this process although it does not run them: leftovers of lost answers.

        Each with the revision of that key: by the time it is deleted, the view may know the key of the next owner.
        """
        return sorted(
            (key, self._view.revision_of(shard_owner_key(*key)))
            for key, owner in self._view.shard_owners.items()
            if owner.nonce == self._nonce and key not in self._owned
        )

    @property
    def settled(self) -> bool:
        """True when registered (or draining), and no shard assigned to this process is still without an owner."""
        is_member = self._drain.wanted or self._address in self._view.coordinators
        waiting = (key for key, address in self._assigned.items() if address == self._address and self._is_free(key))
        return is_member and bool(self._assigned) and not any(waiting)

    # ------------------------------------------------------------ taking and giving

    async def _take(self, key: ShardKey) -> None:
        epoch_key = shard_epoch_key(*key)
        epoch = max(self._view.shard_epochs.get(key, 0) + 1, _epoch_floor(self._clock.now_ms()))
        try:
            won = await self._write_ownership(key, 0, self._view.revision_of(epoch_key), epoch)
        except MetadataUnavailableError as error:
            _log.info("shard %s is not taken: %s", key, error)
            return
        if won:
            shard = self._make_shard(*key)
            task = asyncio.get_running_loop().create_task(shard.run(epoch), name=f"shard {shard.name}")
            task.add_done_callback(_report)
            self._owned[key] = _Owned(shard, task, won, epoch)
            self.shards[key] = shard

    async def next_epoch(self, kind: str, number: int, above: int = 0) -> int | None:
        """Wins a higher epoch for a shard that restarts; returns None when this process does not own it any more.

        `above`: the shard was fenced by this epoch. If etcd still names this process as the owner, etcd has lost that
        epoch. Raises `MetadataUnavailableError` when the outcome is not known.
        """
        entry = self._owned.get((kind, number))
        if entry is None:
            return None
        epoch = max(entry.epoch, above if above < _EPOCH_MAX else 0) + 1
        if epoch > _epoch_floor(self._clock.now_ms()) + _AHEAD_MAX:
            await asyncio.sleep(_EPOCH_MS / 1000)
        entry.is_renewed = True  # the watch may show this write before its answer is here
        try:
            won = await self._write_ownership((kind, number), entry.revision, entry.revision, epoch)
        except _LeaseGoneError as error:
            raise MetadataUnavailableError(str(error)) from error  # asked again: the same write is recognised then
        finally:
            entry.is_renewed = False
        if not won:
            return None
        entry.revision, entry.epoch = won, epoch
        return epoch

    async def _write_ownership(self, key: ShardKey, owner_revision: int, epoch_revision: int, epoch: int) -> int:
        """Writes both keys in one compare-and-swap. Returns the revision of the write; 0 = another process was first."""
        owner_key, epoch_key = shard_owner_key(*key), shard_epoch_key(*key)
        at = self._addresses
        value = ShardOwner(at.internal, self._nonce, epoch, at.client, at.external).encode()
        lease_id = self._lease_id
        if not lease_id:
            return 0
        try:
            result = await self._metadata.commit(
                [Compare(owner_key, owner_revision), Compare(epoch_key, epoch_revision)],
                [Put(epoch_key, str(epoch).encode()), Put(owner_key, value, lease_id)],
            )
        except MetadataUnavailableError as error:
            if error.context.get("unknown") != "true":
                raise
            return await self._settle(key, value, lease_id, error)
        if not result.succeeded:
            return await self._settle(key, value, lease_id, None) if owner_revision else 0
        self._view.learn(
            [
                KeyValue(epoch_key, str(epoch).encode(), result.revision),
                KeyValue(owner_key, value, result.revision, lease_id),
            ]
        )
        return result.revision

    async def _settle(self, key: ShardKey, value: bytes, lease_id: int, error: OncelogError | None) -> int:
        """Finds out by a linearizable read whether a write succeeded. When the read fails too, the lease is given up."""
        try:
            found = await self._metadata.get(shard_owner_key(*key))
        except OncelogError as failure:
            raise _LeaseGoneError(f"whether shard {key} was won is not known: {error or failure}") from failure
        mine = found is not None and found.value == value and found.lease_id == lease_id
        if mine and found is not None:
            self._view.learn([found])
            return found.mod_revision
        return 0

    async def _hand_over(self, key: ShardKey) -> None:
        entry = self._owned[key]
        self._forget(key)
        entry.task.cancel()
        await asyncio.gather(entry.task, return_exceptions=True)
        _log.info("shard %s goes to %s", entry.shard.name, self._assigned.get(key))
        await self._delete_owner_key(key, entry.revision)

    async def _delete_owner_key(self, key: ShardKey, revision: int) -> None:
        """Deletes an owner key. When the answer is lost, the key may remain; `_strays` finds it then."""
        owner_key = shard_owner_key(*key)
        try:
            await self._metadata.commit([Compare(owner_key, revision)], deletes=[owner_key])
        except MetadataUnavailableError as error:
            _log.info("the owner key of shard %s may still stand: %s", key, error)

    def _forget(self, key: ShardKey) -> None:
        self._owned.pop(key, None)
        self.shards.pop(key, None)


async def _or_later(step: Coroutine[object, object, None]) -> bool:
    """Leaves a step to the next look when etcd fails (False): no reason to drop shards, since the lease is judged by itself."""
    try:
        await step
    except MetadataUnavailableError as error:
        _log.info("etcd did not take a change of this coordinator, it is tried again: %s", error)
        return False
    return True


def _epoch_floor(now_ms: int) -> int:
    """Returns the lowest epoch for a shard that is taken over now."""
    return min(max(0, now_ms - _FLOOR_START_MS) // _EPOCH_MS, _FLOOR_MAX)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s ended by a bug", task.get_name(), exc_info=error)
