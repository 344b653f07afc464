"""Every broker watches every other by a call that is held open: when a process dies its link breaks, which is seen at once.

Rule 1: a report proves nothing; the controller judges (`liveness_probe`). When the controller itself is the suspect, the
        reporter judges it, and may take the controller's key over by compare-and-swap: every write of a controller compares
        that key.
Rule 2: a held call is answered after `peer_hold_ms`; silence of `peer_silence_max_ms` makes a suspect too.
Rule 3: a suspect is pursued until it answers or the controller knows of it: a report that did not arrive is repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ports import Transport
from oncelog.types import BrokerRef
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.liveness_probe import Prober
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.reachability import Verdict
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_AGAIN_S = 0.1


class ControllerRole(Protocol):
    """The methods of the controller that the failure detector calls."""

    def suspect(self, ref: BrokerRef) -> None:
        """Probes this broker."""
        ...

    def take_over(self, dead: BrokerRef, *, proven: bool) -> None:
        """Takes the role of a dead controller. `proven`: its death is more than its silence."""
        ...


class Peers:
    """Watches the other registered brokers, with one task for each."""

    def __init__(
        self,
        config: BrokerConfig,
        transport: Transport,
        view: ClusterView,
        controller: ControllerRole,
        contacts: Contacts,
        prober: Prober,
        tasks: TaskOwner,
        me: Callable[[], BrokerRef],
    ) -> None:
        self._config = config
        self._transport = transport
        self._view = view
        self._controller = controller
        self._contacts = contacts
        self._prober = prober
        self._tasks = tasks
        self._me = me
        self._watched: dict[BrokerRef, None] = {}
        self._suspects: dict[BrokerRef, None] = {}
        view.listen(self._saw)

    def _saw(self, _keys: list[str]) -> None:
        for broker_id, entry in self._view.brokers.items():
            ref = BrokerRef(broker_id, entry.mod_revision)
            if broker_id != self._config.broker_id and ref not in self._watched:
                self._watched[ref] = None
                self._tasks.spawn(self._watch(ref), f"watch-{broker_id}")

    def heard(self, ref: BrokerRef) -> bool:
        """Returns True when the broker has answered this one in this incarnation, and not too long ago."""
        return self._contacts.heard(ref)

    async def _watch(self, ref: BrokerRef) -> None:
        request = pb.PingRequest()  # answered at once: a new broker must be heard soon
        while self._view.is_live(ref):
            address = self._view.address_of(ref.broker_id)
            assert address is not None, "a living broker has an address"
            try:
                reply, _ = await methods.PING.call(self._transport, address, request, self._config.peer_silence_max_ms)
            except OncelogError as error:
                self.unreachable(ref, error)
                await asyncio.sleep(_AGAIN_S)
                continue
            if reply.broker.incarnation != ref.incarnation:
                await asyncio.sleep(_AGAIN_S)  # restarted; etcd will say so
                continue
            self._suspects.pop(ref, None)
            self._contacts.answered(ref, reply.now_ms)
            request = pb.PingRequest(hold_ms=self._config.peer_hold_ms)
        self._watched.pop(ref, None)

    def unreachable(self, ref: BrokerRef, error: OncelogError) -> None:
        """Notes that a broker did not answer a call, and pursues it as a suspect."""
        if error.code not in (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT):
            return
        self._contacts.failed(ref)
        if ref in self._suspects:
            return
        if self._view.is_live(ref) and ref != self._me():
            self._suspects[ref] = None
            self._tasks.spawn(self._pursue(ref), f"pursue-{ref.broker_id}")

    async def _pursue(self, ref: BrokerRef) -> None:
        """Reports a suspect until the controller knows of it, it answers again, or its registration is gone."""
        try:
            while ref in self._suspects and self._view.is_live(ref):
                if await self._is_settled(ref):
                    return
                await asyncio.sleep(_AGAIN_S)
        finally:
            self._suspects.pop(ref, None)

    async def _is_settled(self, ref: BrokerRef) -> bool:
        """Returns True when the controller takes care of the suspect from now on, or the suspect answers."""
        controller = self._view.controller
        if controller is None:
            return False
        if controller.value == self._me():
            self._controller.suspect(ref)
            return True
        if controller.value == ref:
            return await self._judge_controller(ref)
        return await self._report(controller.value, ref)

    async def _judge_controller(self, ref: BrokerRef) -> bool:
        verdict = await self._prober.verdict(ref)
        if verdict is Verdict.DEAD:
            self._controller.take_over(ref, proven=self._contacts.is_gone(ref))
        return verdict is Verdict.ANSWERS

    async def _report(self, controller: BrokerRef, suspect: BrokerRef) -> bool:
        """Reports a suspect to the controller, which probes it. False when the report did not arrive."""
        address = self._view.address_of(controller.broker_id)
        if address is None:
            return False
        me = self._me()
        request = pb.ReportBrokerRequest(
            suspect=types_pb2.BrokerRef(broker_id=suspect.broker_id, incarnation=suspect.incarnation),
            reporter=types_pb2.BrokerRef(broker_id=me.broker_id, incarnation=me.incarnation),
        )
        try:
            await methods.REPORT_BROKER.call(self._transport, address, request, self._config.probe_timeout_ms)
        except OncelogError as error:
            _log.info("report of broker %d: %s", suspect.broker_id, error)
            self.unreachable(controller, error)
            return False
        return True
