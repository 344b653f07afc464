"""The controller: one of the brokers, elected by a key in etcd; it elects leaders and keeps topics complete.

Rule 1: every write compares the controller key's mod revision (`controller_term`), the partition's, and the registration of
        each broker that it names (holes 17, 18). A deposed controller can write nothing.
Rule 2: one task decides (`_serve`). Probes and questions to replicas run beside it and return facts.
Rule 3: a topic exists when its key does; missing partitions are created, partitions of deleted topics are removed. So the
        next controller finishes whatever one that dies half-way leaves.
Rule 4: a lost answer is neither yes nor no: the keys are read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from oncelog.errors import MetadataUnavailableError, NotControllerError, OncelogError
from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.balancer import Balancer
from oncelog_partition_leader.cluster.channels import Channels
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.cluster.controller_term import ControllerTerm
from oncelog_partition_leader.cluster.elections import Elections
from oncelog_partition_leader.cluster.liveness_probe import Prober
from oncelog_partition_leader.cluster.reassigner import Mover
from oncelog_partition_leader.cluster.suspicion import Suspicion
from oncelog_partition_leader.cluster.topics.creation import TopicCreation
from oncelog_partition_leader.cluster.topics.log_survey import LogSurvey
from oncelog_partition_leader.cluster.topics.topics import Topics
from oncelog_partition_leader.cluster.topics.upkeep import TopicUpkeep
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.campaign import Duty, DutyFacts, Look, is_due, look_after
from oncelog_partition_leader.core.cluster.election import Brokers
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import Cluster, SessionKey
from oncelog_runtime.metadata.cluster_view import ClusterView, partition_of
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Compare, Put
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_RETRY_S = 0.1


class Controller:
    """Campaigns for the controller's role, and does its work while this broker has it.

    It has some 20 methods and fields, since it is the face of its parts: term, suspects, elections, topics, moves, balance.
    """

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
        self._wake = asyncio.Event()
        self._topics_dirty = True
        self._rebalance_at_ms = 0
        self._suspicion = Suspicion(prober, view, tasks, lambda: self.is_controller, self._look_at_all)
        self._term = ControllerTerm(ports, cluster, tasks, self._wake.set, self._suspicion.new_term)
        changed, timeout_ms = self._topics_changed, config.replicate_timeout_ms
        self.log_survey = LogSurvey(view, ports.transport, ports.clock, tasks, timeout_ms, changed)
        self.elections = Elections(config, ports, view, tasks, self.commit, self._brokers, self._wake.set, forgotten)
        creation = TopicCreation(view, ports.random, self.commit, changed, self.log_survey.result)
        charge = ports.quotas.change_partitions
        self.topics = Topics(config, view, ports.clock, self.commit, changed, charge, creation)
        self._upkeep = TopicUpkeep(config, view, ports.clock, self.commit, changed, creation, self.log_survey)
        self.channels = Channels(view, ports.random, ports.clock, self.commit)
        self.mover = Mover(config, ports.metadata, view, self.commit)
        self.balancer = Balancer(config, view, ports.clock, self.mover, self.commit, self.log_survey.result)
        self._duties: dict[Duty, Callable[[], Awaitable[None]]] = {
            Duty.FOUND_CLUSTER: self._found_cluster,
            Duty.WRITE_SESSION_KEY: self._write_session_key,
            Duty.RECONCILE_TOPICS: self._reconcile_topics,
            Duty.MOVE_REPLICAS: lambda: self.mover.step(self._suspicion.dead, self._avoid()),
        }
        view.listen(self._saw)
        cluster.contacts.listen(self._suspicion.heard)

    # ------------------------------------------------------------ the role

    @property
    def is_controller(self) -> bool:
        """True when this broker holds the role, as far as its view shows."""
        return self._term.is_held

    @property
    def term(self) -> int:
        """The last term that this broker won (mod revision of the controller's key); 0 when it has lost the role."""
        return self._term.number

    def suspect(self, ref: BrokerRef) -> None:
        """Probes a broker that another one has reported."""
        if ref != self._registration.ref:
            self._suspicion.report(ref)

    def take_over(self, dead: BrokerRef, *, proven: bool) -> None:
        """See `ControllerTerm.take_over`."""
        self._term.take_over(dead, proven=proven)

    def look_at_role(self) -> None:
        """See `ControllerTerm.look_at_role`."""
        self._term.look_at_role()

    async def resign(self) -> None:
        """See `ControllerTerm.resign`."""
        await self._term.resign()

    async def commit(self, compares: list[Compare], puts: list[Put], deletes: list[str] | None = None) -> bool:
        """See `ControllerTerm.commit`."""
        return await self._term.commit(compares, puts, deletes)

    # ------------------------------------------------------------ changes

    def _saw(self, keys: list[str]) -> None:
        for key in keys:
            self.balancer.saw(key)
            if self.mover.saw(key):
                self._wake.set()
            look = look_after(key)
            if look is None:
                continue
            if Look.PARTITION in look:
                self.elections.look_at(partition_of(key))
            if Look.ELECTIONS in look:
                self.elections.look_at_all()
            if Look.TOPICS in look:
                self._topics_dirty = True
            if Look.ROLE in look:
                self._term.role_changed()
            self._wake.set()

    def _topics_changed(self) -> None:
        self._topics_dirty = True
        self._wake.set()

    def _look_at_all(self) -> None:
        """Looks at everything, since the set of dead brokers has changed. No key of etcd shows that, so moves are woken too."""
        self.mover.dirty = True
        self.elections.look_at_all()
        self._wake.set()

    # ------------------------------------------------------------ serving

    async def run(self) -> None:
        """Campaigns, serves, and campaigns again, until it is cancelled."""
        while True:
            try:
                if not await self._term.campaign():
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

    async def _serve(self) -> None:
        """Does the controller's work until the role is lost."""
        self._begin_anew()
        self.balancer.begin()
        self._rebalance_at_ms = self._clock.monotonic_ms() + self._config.leader_rebalance_interval_ms
        while self._term.is_served:
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
        self._term.lost()

    def _begin_anew(self) -> None:
        """Forgets earlier looks, so that everything is looked at again."""
        self._topics_dirty = self.mover.dirty = True
        self.elections.look_at_all()

    def _brokers(self) -> Brokers:
        """Returns the brokers as this controller knows them."""
        kept = self.log_survey.answers()
        return Brokers(self._view.live(), self._suspicion.dead, self._avoid(), self._answers, kept)

    def _avoid(self) -> tuple[BrokerRef, ...]:
        draining = self._view.draining_broker()
        return () if draining is None else (draining,)

    def _answers(self, ref: BrokerRef) -> bool:
        return ref == self._registration.ref or self._contacts.heard(ref)

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
        for duty, fulfil in self._duties.items():
            if is_due(duty, self._duty_facts()):
                await fulfil()

    def _duty_facts(self) -> DutyFacts:
        view = self._view
        has_session_key = view.revision_of(cluster_keys.SESSION_KEY) > 0
        return DutyFacts(view.cluster is not None, has_session_key, self._topics_dirty, self.mover.dirty)

    async def _reconcile_topics(self) -> None:
        self._topics_dirty = False
        await self.channels.reconcile()  # before the tombstones go by which it knows their topics
        await self._upkeep.reconcile()

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


def require_controller(controller: Controller, view: ClusterView) -> None:
    """Raises `NotControllerError`, with the controller's address, on every other broker."""
    if not controller.is_controller:
        entry = view.controller
        known = entry.value.broker_id if entry is not None else -1
        address = controller.signpost.controller()
        raise NotControllerError("this broker is not the controller", controller=known, go_to=address)
