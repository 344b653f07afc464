"""The broker's own key in etcd. Its mod revision is the broker's incarnation (Kafka's broker epoch).

Rule 1: an incarnation is known only when the store has shown our nonce under our key; a lost answer is read back.
Rule 2: the lease is a hint that starts elections. While the store is silent the incarnation stays (every message is
        fenced by epochs); when the store says that the lease is gone, there is a new one.
Rule 3: `renew(reason)` writes the key again: when the last replica of a partition may have lost records, no ISR entry that
        names this broker may be believed any more (hole 3).
Rule 4: after etcd was restored from a backup (`begin_anew`) there is no incarnation until there is a new one, above every one
        before: a registration that came back with the backup is not believed.
Rule 5: a broker that finds a newer registration of its own id by another process is replaced and stops, whether the watch
        shows it or the look before a registration: it overwrites no other process's, except one of before it was registered.
Rule 6: a renewal without an answer is followed by the next one at once, which may reach another member of etcd in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random

from oncelog.errors import MetadataUnavailableError, OncelogError
from oncelog.types import BrokerRef
from oncelog_runtime.core.listeners import Addresses
from oncelog_runtime.metadata.cluster_keys import Broker, broker_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Compare, KeyValue, MetadataStore, Put

_log = logging.getLogger(__name__)
_RETRY_S = 0.2


class Registration:
    """Keeps this broker registered. It calls `on_incarnation(ref)` after each new one, `on_replaced()` when it lost its id.

    It has some 19 fields, since the value that it writes is kept beside the state of its lease.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        random: Random,
        *,
        broker_id: int,
        ttl_ms: int,
        on_incarnation: Callable[[BrokerRef], None],
        on_replaced: Callable[[], None],
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._random = random
        self._broker_id = broker_id
        self._key = broker_key(broker_id)
        self._ttl_ms = ttl_ms
        self._on_incarnation = on_incarnation
        self._on_replaced = on_replaced
        self._addresses = Addresses("")
        self._rack = self._directory_id = ""
        self._partitions_max = 0
        self._nonces: set[str] = set()
        self._renew = asyncio.Event()
        self._retired = False
        self._highest = 0
        self._renewed_s = 0.0
        self.ref = BrokerRef(broker_id, 0)
        self.lease_id = 0
        view.listen(self._saw)

    def announce(self, addresses: Addresses, rack: str, directory_id: str, partitions_max: int = 0) -> None:
        """Sets the content of the registration, before `run`."""
        self._addresses, self._rack, self._directory_id = addresses, rack, directory_id
        self._partitions_max = partitions_max

    @property
    def registered(self) -> bool:
        """True when an incarnation is known."""
        return self.ref.incarnation > 0

    def unrenewed_ms(self) -> float:
        """How long ago the last renewal that succeeded was asked for: after `ttl_ms` the registration may have run out."""
        return (asyncio.get_running_loop().time() - self._renewed_s) * 1000

    def renew(self, reason: str) -> None:
        """Has the broker take a new incarnation soon."""
        _log.warning("broker %d takes a new incarnation: %s", self._broker_id, reason)
        self._renew.set()

    def begin_anew(self) -> None:
        """Drops the incarnation after a restore of etcd, whose value of this broker is old, and has a new one taken."""
        self.ref = BrokerRef(self._broker_id, 0)
        self._renew.set()

    def retire(self) -> None:
        """Drops the incarnation and never registers again."""
        self._retired = True
        self.ref = BrokerRef(self._broker_id, 0)
        self.lease_id = 0
        self._renew.set()

    async def run(self) -> None:
        """Registers, keeps alive, registers again; until another process takes the id."""
        while not self._retired:
            try:
                await self._register()
                await self._keep_alive()
            except OncelogError as error:
                _log.warning("registration of broker %d: %s", self._broker_id, error)
                self.lease_id = 0  # it may be gone; an abandoned lease runs out by itself
                await asyncio.sleep(_RETRY_S)

    async def withdraw(self) -> None:
        """Removes the key at once (a clean stop); on failure the lease runs out by itself."""
        self._retired = True  # else a broker that takes long to stop would be registered again
        lease_id, self.lease_id = self.lease_id, 0
        self._renew.set()
        if not lease_id:
            return
        try:
            await self._metadata.revoke_lease(lease_id)
        except OncelogError as error:
            _log.info("the lease of broker %d runs out by itself: %s", self._broker_id, error)

    async def _register(self) -> None:
        self._renew.clear()
        asked_s, had_lease = asyncio.get_running_loop().time(), bool(self.lease_id)
        lease_id = self.lease_id = self.lease_id or await self._metadata.grant_lease(self._ttl_ms)
        if not had_lease:
            self._renewed_s = asked_s
        nonce = f"{self._random.getrandbits(64):016x}"
        self._nonces.add(nonce)
        at = self._addresses
        value = Broker(
            at.internal, at.client, nonce, self._rack, at.external, self._directory_id, self._partitions_max
        ).encode()
        before = await self._metadata.get(self._key)
        known = before.mod_revision if before is not None else 0
        if before is not None and self._is_of_another(before.mod_revision, Broker.decode(before.value)):
            self._on_replaced()
            raise OncelogError("another process is registered under this broker's id", key=self._key)
        if self._retired or self.lease_id != lease_id:  # without a lease the key would have no end
            raise OncelogError("the registration was given up, or its lease has ended meanwhile", key=self._key)
        try:
            await self._metadata.commit([Compare(self._key, known)], [Put(self._key, value, lease_id)])
        except MetadataUnavailableError as error:
            if error.context.get("unknown") != "true":
                raise
        found = await self._metadata.get(self._key)
        if found is None or found.value != value:
            raise OncelogError("the registration did not reach the metadata store", key=self._key)
        self._view.learn([found])
        self._adopt(found.mod_revision)

    def _adopt(self, incarnation: int) -> None:
        if incarnation <= self._highest or self._retired:
            return
        self._highest = incarnation
        self.ref = BrokerRef(self._broker_id, incarnation)
        _log.info("broker %d is registered with incarnation %d", self._broker_id, incarnation)
        self._on_incarnation(self.ref)

    async def _keep_alive(self) -> None:
        """Returns when a new registration is due."""
        pause_s = self._ttl_ms / 3000
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._renew.wait()
                return
            except TimeoutError:
                pass
            asked_s = asyncio.get_running_loop().time()
            try:
                left_ms = await self._metadata.keep_alive(self.lease_id)
            except OncelogError as error:
                _log.warning("the lease of broker %d was not renewed: %s", self._broker_id, error)
                pause_s = _RETRY_S
                continue
            pause_s = self._ttl_ms / 3000
            if left_ms <= 0:
                self.lease_id = 0
                return
            self._renewed_s = asked_s

    def _saw(self, keys: list[str]) -> None:
        if self._key not in keys:
            return
        entry = self._view.brokers.get(self._broker_id)
        if entry is None:
            if self.registered and self.lease_id:
                self._lost()
        elif entry.value.nonce in self._nonces:
            self._adopt(entry.mod_revision)
        elif self._is_of_another(entry.mod_revision, entry.value):
            self._on_replaced()

    def _is_of_another(self, mod_revision: int, found: Broker) -> bool:
        """True when another process has registered under this id since this one did."""
        return mod_revision > self.ref.incarnation > 0 and found.nonce not in self._nonces

    def _lost(self) -> None:
        self.lease_id = 0
        self._renew.set()


def learned(revision: int, puts: list[Put]) -> list[KeyValue]:
    """Returns the values that a successful commit has written, for `ClusterView.learn`."""
    return [KeyValue(put.key, put.value, revision, put.lease_id) for put in puts]
