"""Finds out whether a suspected broker is dead: for the controller, and for a broker that suspects the controller.

Rule 1: the suspect itself is asked twice. A refused connection, or an answer of a newer incarnation, is a proof; a link that
        breaks during the question is none, and the question is repeated: a process that just died refuses the next one.
Rule 2: if it stays silent, every broker that we hear is asked for its opinion; `core/cluster/reachability.py` judges.
"""

from __future__ import annotations

import asyncio

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ports import Transport
from oncelog.types import BrokerRef
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.core.cluster.reachability import Probe, Verdict, judge
from oncelog_runtime.metadata.cluster_view import ClusterView

_TRIES = 2
_BROKEN_MAX = 5
_BROKEN_PAUSE_S = 0.01


class Prober:
    """Probes and judges suspects for one broker."""

    def __init__(self, transport: Transport, view: ClusterView, contacts: Contacts, timeout_ms: int) -> None:
        self._transport = transport
        self._view = view
        self._contacts = contacts
        self._timeout_ms = timeout_ms

    async def verdict(self, ref: BrokerRef) -> Verdict:
        """Returns the verdict on a suspect. An election after a wrong "dead" is safe: the new epoch fences the suspect."""
        probe = await self._probe(ref)
        if probe is not Probe.SILENT:
            return judge(probe)
        if self._contacts.heard(ref):
            return Verdict.UNDECIDED  # it was silent for two short questions only
        opinions = await asyncio.gather(*(self._opinion(other, ref) for other in self._contacts.all_heard()))
        if self._contacts.heard(ref):
            return Verdict.UNDECIDED  # it was heard while the others were asked
        return judge(probe, hears_majority=self._contacts.hears_majority(), opinions=opinions)

    async def _probe(self, ref: BrokerRef) -> Probe:
        broken = silent = 0
        while silent < _TRIES and broken < _BROKEN_MAX:
            address = self._view.address_of(ref.broker_id)
            if address is None or not self._view.is_live(ref):
                return Probe.GONE
            try:
                reply, _payload = await methods.PING.call(self._transport, address, pb.PingRequest(), self._timeout_ms)
            except OncelogError as error:
                if error.context.get("refused") == "true":
                    self._contacts.refused(ref)
                    return Probe.GONE if self._contacts.is_gone(ref) else Probe.SILENT
                if error.code == ErrorCode.NETWORK_ERROR:
                    broken += 1
                    await asyncio.sleep(_BROKEN_PAUSE_S)
                else:
                    silent += 1
                continue
            if reply.broker.incarnation > ref.incarnation:
                return Probe.GONE
            if reply.broker.incarnation == ref.incarnation:
                self._contacts.answered(ref, reply.now_ms)
            return Probe.ANSWERED
        return Probe.SILENT

    async def _opinion(self, asked: BrokerRef, suspect: BrokerRef) -> bool | None:
        """Asks a broker whether it hears the suspect; None: it did not say, as older versions do."""
        address = self._view.address_of(asked.broker_id)
        if address is None:
            return None
        about = types_pb2.BrokerRef(broker_id=suspect.broker_id, incarnation=suspect.incarnation)
        request = pb.PingRequest(suspect=about)
        try:
            reply, _payload = await methods.PING.call(self._transport, address, request, self._timeout_ms)
        except OncelogError:
            return None
        if reply.broker.incarnation != asked.incarnation or not reply.HasField("hears_suspect"):
            return None
        return bool(reply.hears_suspect)
