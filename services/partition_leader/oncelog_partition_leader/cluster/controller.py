"""The controller: one of the brokers, elected by a key in etcd; it elects leaders and keeps topics complete.

Rule 1: every write compares the controller key's mod revision, the partition's, and the registration of each broker
        that it names (holes 17, 18). A deposed controller can write nothing.
Rule 2: one task decides (`_serve`). Probes and questions to replicas run beside it and return facts.
Rule 3: a topic exists when its key does; missing partitions are created, partitions of deleted topics are removed. So the
        next controller finishes whatever one that dies half-way leaves.
Rule 4: a lost answer is neither yes nor no: the keys are read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from oncelog.errors import MetadataUnavailableError, NotControllerError, OncelogError, StaleControllerEpochError
from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.balancer import Balancer
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.cluster.elections import Elections
from oncelog_partition_leader.cluster.liveness_probe import Prober
from oncelog_partition_leader.cluster.reassigner import Mover
from oncelog_partition_leader.cluster.registration import learned
from oncelog_partition_leader.cluster.topics import Topics
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.election import Brokers
from oncelog_partition_leader.core.cluster.reachability import Verdict
from oncelog_partition_leader.core.cluster.succession import Succession
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import Cluster, SessionKey, broker_key
from oncelog_runtime.metadata.cluster_view import ClusterView, partition_of
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Compare, Put
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_RETRY_S = 0.1
_PROBE_AGAIN_S = 1.0


class Controller:
    """Campaigns for the controller's role, and does its work while this broker has it."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: NodePorts,
        cluster: ClusterContext,
        prober: Prober,
        tasks: TaskOwner,
        forgotten: Callable[[str], None],
    ) -> None:
        view = cluster.view
        self.signpost = cluster.signpost
        self._config = config
        self._metadata = ports.metadata
        self._clock = ports.clock
        self._random = ports.random
        self._view = view
        self._registration = cluster.registration
        self._contacts = cluster.contacts
        self._prober = prober
        self._succession = Succession()
        self._known_holder: BrokerRef | None = None
        self._renouncing = False
        self._tasks = tasks
        self._term = 0
        self._wake = asyncio.Event()
        self._topics_dirty = True
        self._dead: dict[BrokerRef, None] = {}
        self._probing: dict[BrokerRef, None] = {}
        self._overthrow: BrokerRef | None = None
        self._rebalance_at_ms = 0
        self.elections = Elections(config, ports, view, tasks, self.commit, self._brokers, self._wake.set, forgotten)
        charge = ports.quotas.change_partitions
        self.topics = Topics(config, view, ports.random, ports.clock, self.commit, self._topics_changed, charge)
        self.mover = Mover(config, ports.metadata, view, self.commit)
        self.balancer = Balancer(config, view, ports.clock, self.mover, self.commit)
        view.listen(self._saw)
        cluster.contacts.listen(self._heard)

    # ------------------------------------------------------------ facts

    @property
    def is_controller(self) -> bool:
        """True when this broker holds the role, as far as its view shows."""
        entry = self._view.controller
        return entry is not None and entry.mod_revision == self._term

    @property
    def term(self) -> int:
        """The last term that this broker won (mod revision of the controller's key); 0 when it has lost the role."""
        return self._term

    def suspect(self, ref: BrokerRef) -> None:
        """Probes a broker that another one has reported."""
        if ref == self._registration.ref:
            return
        if self.is_controller and ref not in self._probing and self._view.is_live(ref):
            self._probing[ref] = None
            self._tasks.spawn(self._probe(ref), f"probe-{ref.broker_id}")

    def take_over(self, dead: BrokerRef, *, proven: bool) -> None:
        """Overwrites the key of a dead controller whose lease still lives. `proven`: its death is more than its silence."""
        entry = self._view.controller
        may = proven or self._succession.may_overthrow(self._clock.monotonic_ms())
        if entry is not None and entry.value == dead and may:
            self._overthrow = dead
            self._wake.set()

    def look_at_role(self) -> None:
        """Gives the role up when this broker reaches fewer than half of the brokers: the others may be cut off from it."""
        if self.is_controller and not self._renouncing and self._contacts.is_minority():
            self._renouncing = True
            self._tasks.spawn(self._renounce(), "renounce")

    async def _renounce(self) -> None:
        try:
            await self._give_up("too few brokers answer it")
        except MetadataUnavailableError as error:
            _log.warning("controller: %s", error)
        finally:
            self._renouncing = False

    def _saw(self, keys: list[str]) -> None:
        for key in keys:
            self.balancer.saw(key)
            if self.mover.saw(key):
                self._wake.set()
            if key.startswith(cluster_keys.PARTITIONS):
                self.elections.look_at(partition_of(key))
            elif key.startswith(cluster_keys.BROKERS):
                self.elections.look_at_all()
                self._topics_dirty = True
            elif key.startswith((cluster_keys.TOPICS, cluster_keys.DELETED_TOPICS)):
                self._topics_dirty = True
            elif key == cluster_keys.BROKER_DRAIN_KEY:
                self.elections.look_at_all()
            elif key.startswith((cluster_keys.DECOMMISSIONS, cluster_keys.SESSION_KEY)):
                pass
            elif key == cluster_keys.CONTROLLER_KEY:
                self._role_changed()
            else:
                continue
            self._wake.set()

    def _role_changed(self) -> None:
        entry, before = self._view.controller, self._known_holder
        self._known_holder = entry.value if entry is not None else None
        if entry is not None and entry.value != before:
            taken = before is not None and self._view.is_live(before)
            self._succession.began(self._clock.monotonic_ms(), taken=taken)

    def _heard(self, ref: BrokerRef) -> None:
        """Notes a broker that answers again or for the first time: it is not dead, and an election may need it."""
        if self._dead.pop(ref, "absent") is None:
            _log.info("broker %d answers again", ref.broker_id)
        self._look_at_all()

    def _topics_changed(self) -> None:
        self._topics_dirty = True
        self._wake.set()

    async def _probe(self, ref: BrokerRef) -> None:
        """Probes a broker until it answers or its registration is gone; declares it dead when that is known."""
        try:
            while self.is_controller and self._view.is_live(ref):
                verdict = await self._prober.verdict(ref)
                if verdict is Verdict.ANSWERS:
                    if ref in self._dead:
                        self._heard(ref)
                    return
                if verdict is Verdict.DEAD and ref not in self._dead:
                    _log.warning("broker %d (incarnation %d) is dead", ref.broker_id, ref.incarnation)
                    self._dead[ref] = None
                    self._look_at_all()
                await asyncio.sleep(_PROBE_AGAIN_S if ref in self._dead else _RETRY_S)
            self._dead.pop(ref, None)
        finally:
            self._probing.pop(ref, None)

    def _look_at_all(self) -> None:
        """Looks at everything, since the set of dead brokers has changed. No key of etcd shows that, so moves are woken too."""
        self.mover.dirty = True
        self.elections.look_at_all()
        self._wake.set()

    # ------------------------------------------------------------ the role

    async def run(self) -> None:
        """Campaigns, serves, and campaigns again, until it is cancelled."""
        while True:
            try:
                if not await self._campaign():
                    await self._woken()
                    continue
                _log.info("broker %d is the controller", self._config.broker_id)
                await self._serve()
            except OncelogError as error:
                _log.warning("controller: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _woken(self) -> None:
        await self._wake.wait()
        self._wake.clear()

    async def _campaign(self) -> bool:
        """Tries to win the controller's key. True when this broker holds it."""
        if not self._registration.registered or not self._registration.lease_id or not self._view.revision:
            await asyncio.sleep(_RETRY_S)
            self._wake.set()
            return False
        me, entry = self._registration.ref, self._view.controller
        if entry is not None and entry.value == me:
            self._term = entry.mod_revision
            return True
        if self._must_not_lead():
            return False
        if entry is not None and entry.value != self._overthrow and self._view.is_live(entry.value):
            return False  # a holder with a new registration is another process, though its lease still lives
        if self._contacts.is_minority():
            await asyncio.sleep(_RETRY_S)
            self._wake.set()
            return False
        dead, self._overthrow = self._overthrow, None
        put = Put(cluster_keys.CONTROLLER_KEY, cluster_keys.encode_ref(me), self._registration.lease_id)
        compares = [
            Compare(cluster_keys.CONTROLLER_KEY, entry.mod_revision if entry is not None else 0),
            Compare(broker_key(me.broker_id), me.incarnation),
        ]
        try:
            result = await self._metadata.commit(compares, [put])
            if result.succeeded:
                self._view.learn(learned(result.revision, [put]))
        except MetadataUnavailableError as error:
            _log.info("campaign: %s", error)
        found = await self._metadata.get(cluster_keys.CONTROLLER_KEY)
        if found is None or cluster_keys.decode_ref(found.value) != me:
            return False
        self._view.learn([found])
        self._term = found.mod_revision
        self._dead = {dead: None} if dead is not None else {}
        if dead is not None:
            self.suspect(dead)
        return True

    def _must_not_lead(self) -> bool:
        """Returns True when this broker drains and another one could be the controller."""
        me = self._registration.ref
        others = any(broker_id != me.broker_id for broker_id in self._view.brokers)
        return others and self._view.draining_broker() == me

    async def resign(self) -> None:
        """Gives the role up when this broker drains and another one is registered. Raises `MetadataUnavailableError`."""
        if self.is_controller and self._must_not_lead():
            await self._give_up("it drains")

    async def _give_up(self, reason: str) -> None:
        _log.warning("broker %d gives up the controller's role: %s", self._config.broker_id, reason)
        await self._metadata.commit(
            [Compare(cluster_keys.CONTROLLER_KEY, self._term)], deletes=[cluster_keys.CONTROLLER_KEY]
        )

    def _avoid(self) -> tuple[BrokerRef, ...]:
        draining = self._view.draining_broker()
        return () if draining is None else (draining,)

    async def _serve(self) -> None:
        """Does the controller's work until the role is lost."""
        self._begin_anew()
        self.balancer.begin()
        self._rebalance_at_ms = self._clock.monotonic_ms() + self._config.leader_rebalance_interval_ms
        while self._registration.ref == self._holder():
            try:
                await self._step()
            except MetadataUnavailableError as error:
                _log.warning("controller: %s", error)
                self._begin_anew()
                await asyncio.sleep(_RETRY_S)
                continue
            if not (self.elections.due or self._topics_dirty or self.mover.dirty):
                await self._pause()
        _log.info("broker %d is no longer the controller", self._config.broker_id)
        self._term = 0

    def _begin_anew(self) -> None:
        """Forgets earlier looks, so that everything is looked at again."""
        self._topics_dirty = self.mover.dirty = True
        self.elections.look_at_all()

    def _brokers(self) -> Brokers:
        """Returns the brokers as this controller knows them."""
        return Brokers(self._view.live(), self._dead, self._avoid(), self._answers)

    def _answers(self, ref: BrokerRef) -> bool:
        return ref == self._registration.ref or self._contacts.heard(ref)

    def _holder(self) -> BrokerRef | None:
        entry = self._view.controller
        return entry.value if entry is not None and entry.mod_revision == self._term else None

    async def _pause(self) -> None:
        next_ms = min(self._rebalance_at_ms, self.balancer.next_look_ms)
        try:
            async with asyncio.timeout(max(1, next_ms - self._clock.monotonic_ms()) / 1000):
                await self._woken()
        except TimeoutError:
            pass
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._rebalance_at_ms:
            self._rebalance_at_ms = now_ms + self._config.leader_rebalance_interval_ms
            await self.elections.rebalance()
        if now_ms >= self.balancer.next_look_ms:
            await self.balancer.plan()

    async def _step(self) -> None:
        await self.elections.step()
        if self._view.cluster is None:
            await self._found_cluster()
        if not self._view.revision_of(cluster_keys.SESSION_KEY):
            await self._write_session_key()
        if self._topics_dirty and self._view.cluster is not None:
            self._topics_dirty = False
            await self.topics.reconcile()
        if self.mover.dirty:
            await self.mover.step(self._dead, self._avoid())

    async def _found_cluster(self) -> None:
        value = Cluster(
            f"{self._random.getrandbits(128):032x}", self._config.transaction_shards, self._config.group_shards
        )
        await self.commit([Compare(cluster_keys.CLUSTER_KEY, 0)], [Put(cluster_keys.CLUSTER_KEY, value.encode())])
        found = await self._metadata.get(cluster_keys.CLUSTER_KEY)
        if found is not None:
            self._view.learn([found])

    async def _write_session_key(self) -> None:
        """Writes a new key, or the one that a restored etcd has lost, so that sessions begun with it stay valid."""
        key = self._view.session_key or self._random.getrandbits(256).to_bytes(32, "big")
        await self.commit(
            [Compare(cluster_keys.SESSION_KEY, 0)], [Put(cluster_keys.SESSION_KEY, SessionKey(key).encode())]
        )
        found = await self._metadata.get(cluster_keys.SESSION_KEY)
        if found is not None:
            self._view.learn([found])

    async def commit(self, compares: list[Compare], puts: list[Put], deletes: list[str] | None = None) -> bool:
        """Writes under this controller's term. False: a condition did not hold.

        Raises `StaleControllerEpochError` when the role is lost, `MetadataUnavailableError` without an answer.
        """
        if not self.is_controller:
            raise StaleControllerEpochError("this broker is no longer the controller")
        fence = [Compare(cluster_keys.CONTROLLER_KEY, self._term), self._view.restored_is()]
        result = await self._metadata.commit([*fence, *compares], puts, deletes or [])
        if result.succeeded:
            self._view.learn(learned(result.revision, puts))
        return result.succeeded


def require_controller(controller: Controller, view: ClusterView) -> None:
    """Raises `NotControllerError`, with the controller's address, on every other broker."""
    if not controller.is_controller:
        entry = view.controller
        known = entry.value.broker_id if entry is not None else -1
        address = controller.signpost.controller()
        raise NotControllerError("this broker is not the controller", controller=known, go_to=address)
