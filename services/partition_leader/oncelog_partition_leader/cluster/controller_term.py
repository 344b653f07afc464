"""One broker's term as controller: it wins the role by a key in etcd, writes under it, and gives it up.

Rule 1: a term is the mod revision of the controller's key. Every write compares it (holes 17, 18), so a deposed controller can
        write nothing.
Rule 2: a lost answer is neither yes nor no: the key is read again, and a claim that is not there is made again.
Rule 3: whether to claim the role is decided in `core/cluster/campaign.py`; how often it may be taken from a broker that is
        registered, in `core/cluster/succession.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from oncelog.errors import MetadataUnavailableError, StaleControllerEpochError
from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.cluster.registration import learned
from oncelog_partition_leader.core.cluster.campaign import Campaign, CampaignFacts, campaign, must_not_lead
from oncelog_partition_leader.core.cluster.succession import Succession
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import CONTROLLER_KEY, broker_key
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Compare, Put
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_RETRY_S: Final = 0.1


class Commit(Protocol):
    """A write of the controller's parts: `ControllerTerm.commit`, which holds only while this broker has the role."""

    def __call__(
        self, compares: list[Compare], puts: list[Put], deletes: list[str] | None = None
    ) -> Awaitable[bool]: ...


class ControllerTerm:
    """The role of one broker. `number`: its last term; 0 when it has lost the role. `wake()` has it campaign again.

    `won(overthrown)` is called with each new term; `overthrown`: the broker whose role was taken, if it was.
    """

    def __init__(
        self,
        ports: NodePorts,
        cluster: ClusterContext,
        tasks: TaskOwner,
        wake: Callable[[], None],
        won: Callable[[BrokerRef | None], None],
    ) -> None:
        self._metadata = ports.metadata
        self._clock = ports.clock
        self._view = cluster.view
        self._registration = cluster.registration
        self._contacts = cluster.contacts
        self._tasks = tasks
        self._wake = wake
        self._won = won
        self._succession = Succession()
        self._known_holder: BrokerRef | None = None
        self._overthrows: BrokerRef | None = None
        self._claimed_from: BrokerRef | None = None
        """The broker from which the role was taken by a claim whose outcome is not known yet."""
        self._renouncing = False
        self.number = 0

    @property
    def is_held(self) -> bool:
        """True when this broker holds the role, as far as its view shows."""
        entry = self._view.controller
        return entry is not None and entry.mod_revision == self.number

    @property
    def is_served(self) -> bool:
        """True while this broker holds the role in this term under its present incarnation."""
        entry = self._view.controller
        return self.is_held and entry is not None and entry.value == self._registration.ref

    # ------------------------------------------------------------ winning

    def take_over(self, dead: BrokerRef, *, proven: bool) -> None:
        """Overwrites the key of a dead controller whose lease still lives. `proven`: its death is more than its silence."""
        entry = self._view.controller
        may = proven or self._succession.may_overthrow(self._clock.monotonic_ms())
        if entry is not None and entry.value == dead and may:
            self._overthrows = dead
            self._wake()

    def role_changed(self) -> None:
        """Notes a change of the controller's key."""
        entry, before = self._view.controller, self._known_holder
        self._known_holder = entry.value if entry is not None else None
        if entry is not None and entry.value != before:
            taken = before is not None and self._view.is_live(before)
            self._succession.began(self._clock.monotonic_ms(), taken=taken)

    async def campaign(self) -> bool:
        """Takes the step that is due. True when this broker is the controller. Raises `MetadataUnavailableError`."""
        step = campaign(self._facts())
        if step is not Campaign.CLAIM:
            self._overthrows = None  # a proof is good for now: the holder may be alive when this broker may claim again
        if step is Campaign.HOLDS:
            entry = self._view.controller
            assert entry is not None, "somebody holds the role"
            if entry.mod_revision != self.number:
                self._begin(entry.mod_revision)  # won by a claim whose answers were lost
            return True
        if step in (Campaign.NOT_READY, Campaign.CUT_OFF):
            await asyncio.sleep(_RETRY_S)
            self._wake()
        return step is Campaign.CLAIM and await self._claim()

    def _facts(self) -> CampaignFacts:
        registration, entry = self._registration, self._view.controller
        return CampaignFacts(
            is_ready=bool(registration.registered and registration.lease_id and self._view.revision),
            me=registration.ref,
            holder=entry.value if entry is not None else None,
            # a holder with a new registration is another process, though its lease still lives
            holder_is_registered=entry is not None and self._view.is_live(entry.value),
            overthrows=self._overthrows,
            must_not_lead=self._must_not_lead(),
            is_minority=self._contacts.is_minority(),
        )

    def _must_not_lead(self) -> bool:
        return must_not_lead(self._registration.ref, self._view.draining_broker(), self._view.brokers)

    async def _claim(self) -> bool:
        """Writes the key, and reads it again whatever became of that."""
        me, entry = self._registration.ref, self._view.controller
        self._claimed_from, self._overthrows = self._overthrows, None
        put = Put(CONTROLLER_KEY, cluster_keys.encode_ref(me), self._registration.lease_id)
        compares = [
            Compare(CONTROLLER_KEY, entry.mod_revision if entry is not None else 0),
            Compare(broker_key(me.broker_id), me.incarnation),
        ]
        is_answered = True
        try:
            result = await self._metadata.commit(compares, [put])
            if result.succeeded:
                self._view.learn(learned(result.revision, [put]))
        except MetadataUnavailableError as error:
            _log.info("campaign: %s", error)
            is_answered = False
        found = await self._metadata.get(CONTROLLER_KEY)
        if found is not None and cluster_keys.decode_ref(found.value) == me:
            self._view.learn([found])
            self._begin(found.mod_revision)
            return True
        if not is_answered:  # nothing may have been written, and then no key changes that would wake this broker
            await asyncio.sleep(_RETRY_S)
            self._wake()
        return False

    def _begin(self, number: int) -> None:
        """Begins a term."""
        overthrown, self._claimed_from = self._claimed_from, None
        self.number = number
        self._won(overthrown)

    # ------------------------------------------------------------ losing

    def lost(self) -> None:
        """Notes that this broker does not have the role any more."""
        self.number = 0

    def look_at_role(self) -> None:
        """Gives the role up when this broker reaches fewer than half of the brokers: the others may be cut off from it."""
        if self.is_held and not self._renouncing and self._contacts.is_minority():
            self._renouncing = True
            self._tasks.spawn(self._renounce(), "renounce")

    async def _renounce(self) -> None:
        try:
            await self._give_up("too few brokers answer it")
        except MetadataUnavailableError as error:
            _log.warning("controller: %s", error)
        finally:
            self._renouncing = False

    async def resign(self) -> None:
        """Gives the role up when this broker drains and another one is registered. Raises `MetadataUnavailableError`."""
        if self.is_held and self._must_not_lead():
            await self._give_up("it drains")

    async def _give_up(self, reason: str) -> None:
        _log.warning("broker %d gives up the controller's role: %s", self._registration.ref.broker_id, reason)
        await self._metadata.commit([Compare(CONTROLLER_KEY, self.number)], deletes=[CONTROLLER_KEY])

    # ------------------------------------------------------------ writing

    async def commit(self, compares: list[Compare], puts: list[Put], deletes: list[str] | None = None) -> bool:
        """Writes under this term. False: a condition did not hold.

        Raises `StaleControllerEpochError` when the role is lost, `MetadataUnavailableError` without an answer.
        """
        if not self.is_held:
            raise StaleControllerEpochError("this broker is no longer the controller")
        fence = [Compare(CONTROLLER_KEY, self.number), self._view.restored_is()]
        result = await self._metadata.commit([*fence, *compares], puts, deletes or [])
        if result.succeeded:
            self._view.learn(learned(result.revision, puts))
        return result.succeeded
