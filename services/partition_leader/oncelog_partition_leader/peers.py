"""Every broker watches every other by a call that is held open: when the link breaks, the death is known at once.

Rule 1: a report proves nothing; the controller probes. When the controller itself is the suspect, the reporter probes
        it, and may take the controller's key over by compare-and-swap: every write of a controller compares that key.
Rule 2: a held call is answered after `peer_hold_ms`; silence of `peer_silence_max_ms` is a report too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from oncelog import methods
from oncelog.errors import ErrorCode, OncelogError
from oncelog.ports import Transport
from oncelog.types import BrokerRef
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.contacts import Contacts
from oncelog_partition_leader.probes import is_dead
from oncelog_runtime.cluster_view import ClusterView
from oncelog_runtime.tasks import TaskOwner

_log = logging.getLogger(__name__)
_AGAIN_S = 0.1


class ControllerRole(Protocol):
    """The part of the controller that peers speak to."""

    def suspect(self, ref: BrokerRef) -> None:
        """Probe this broker."""
        ...

    def take_over(self, dead: BrokerRef) -> None:
        """The controller is dead: become it."""
        ...


class Peers:
    """One watching task per registered broker."""

    def __init__(
        self,
        config: BrokerConfig,
        transport: Transport,
        view: ClusterView,
        controller: ControllerRole,
        contacts: Contacts,
        tasks: TaskOwner,
        me: Callable[[], BrokerRef],
    ) -> None:
        self._config = config
        self._transport = transport
        self._view = view
        self._controller = controller
        self._contacts = contacts
        self._tasks = tasks
        self._me = me
        self._watched: dict[BrokerRef, None] = {}
        self._reporting: dict[BrokerRef, None] = {}
        view.listen(self._saw)

    def _saw(self, _keys: list[str]) -> None:
        for broker_id, entry in self._view.brokers.items():
            ref = BrokerRef(broker_id, entry.mod_revision)
            if broker_id != self._config.broker_id and ref not in self._watched:
                self._watched[ref] = None
                self._tasks.spawn(self._watch(ref), f"watch-{broker_id}")

    def heard(self, ref: BrokerRef) -> bool:
        """It has answered this broker in this incarnation, and not too long ago."""
        return self._contacts.heard(ref)

    async def _watch(self, ref: BrokerRef) -> None:
        request = pb.PingRequest()  # answered at once: who is new is to be heard soon
        while self._view.is_live(ref):
            address = self._view.address_of(ref.broker_id)
            assert address is not None, "a living broker has an address"
            try:
                reply, _ = await methods.PING.call(self._transport, address, request, self._config.peer_silence_max_ms)
            except OncelogError as error:
                if error.code in (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT):
                    await self._report(ref)
                await asyncio.sleep(_AGAIN_S)
                continue
            if reply.broker.incarnation != ref.incarnation:
                await asyncio.sleep(_AGAIN_S)  # restarted; etcd will say so
                continue
            self._contacts.answered(ref)
            request = pb.PingRequest(hold_ms=self._config.peer_hold_ms)
        self._watched.pop(ref, None)

    def unreachable(self, ref: BrokerRef, _error: OncelogError) -> None:
        """Another part of the broker could not reach it."""
        if ref not in self._reporting and self._view.is_live(ref):
            self._tasks.spawn(self._report(ref), "report")

    async def _report(self, ref: BrokerRef) -> None:
        if ref in self._reporting:
            return
        self._reporting[ref] = None
        try:
            await self._tell_controller(ref)
        except OncelogError as error:
            _log.info("report of broker %d: %s", ref.broker_id, error)
        finally:
            del self._reporting[ref]

    async def _tell_controller(self, ref: BrokerRef) -> None:
        controller = self._view.controller
        if controller is None:
            return
        if controller.value == self._me():
            self._controller.suspect(ref)
            return
        if controller.value != ref and await self._heard(controller.value, ref):
            return
        if await is_dead(self._transport, self._view, controller.value, self._config.probe_timeout_ms):
            self._controller.take_over(controller.value)

    async def _heard(self, controller: BrokerRef, suspect: BrokerRef) -> bool:
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
            return error.code not in (ErrorCode.NETWORK_ERROR, ErrorCode.REQUEST_TIMED_OUT)
        return True
