"""Is that broker dead? Asked by the controller, and by whoever finds the controller itself silent."""

from __future__ import annotations

from oncelog import methods
from oncelog.errors import OncelogError
from oncelog.ports import Transport
from oncelog.types import BrokerRef
from oncelog.v1 import partition_pb2 as pb
from oncelog_runtime.cluster_view import ClusterView

_TRIES = 2


async def is_dead(transport: Transport, view: ClusterView, ref: BrokerRef, timeout_ms: int) -> bool:
    """True when nobody listens at its address, another incarnation answers, or it stays silent for the bound twice.

    Electing on this word is safe: whoever lives on is fenced by the epoch.
    """
    address = view.address_of(ref.broker_id)
    if address is None or not view.is_live(ref):
        return True
    for _ in range(_TRIES):
        try:
            reply, _payload = await methods.PING.call(transport, address, pb.PingRequest(), timeout_ms)
        except OncelogError as error:
            if error.context.get("refused") == "true":
                return True
            continue
        return reply.broker.incarnation > ref.incarnation
    return True
