"""Calls to the coordinator that keeps the state of a channel: the owner of the group shard of `__channel.<channel id>`.

Rule 1: an answer carries the shard's epoch. One with a lower epoch than the highest known of that shard is refused, whichever
        process sent it (hole 6): it may not know what a newer owner has confirmed.
Rule 2: only a definite refusal says that nothing was done (`is_refusal`). After any other error the outcome is unknown, and the
        caller makes the same call again, after a pause (`pause_ms`).
"""

from __future__ import annotations

from typing import Final, TypeVar

from oncelog.core.batch.hashing import shard_for
from oncelog.core.names import channel_group_id
from oncelog.errors import CoordinatorFencedError, CoordinatorNotAvailableError, ErrorCode, OncelogError
from oncelog.ports import Transport
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from oncelog_runtime.metadata.cluster_view import ClusterView

_PAUSES_MS: Final = (20, 50, 100, 200, 500, 1_000)
_NO_ANSWER: Final = (
    ErrorCode.NETWORK_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_ERROR,
    ErrorCode.INVALID_RESPONSE,
    ErrorCode.INTERNAL_ERROR,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)


def pause_ms(tries: int) -> int:
    """Returns the wait before the next attempt, after so many: 20 ms to 1 s."""
    return _PAUSES_MS[min(max(tries, 1), len(_PAUSES_MS)) - 1]


def is_refusal(error: OncelogError) -> bool:
    """Returns True when the coordinator itself has said no, for good; else the outcome is unknown."""
    return not error.retriable and error.code not in _NO_ANSWER


Ask = TypeVar("Ask", co.OpenChannelPartitionRequest, co.WriteChannelStateRequest, co.SendChannelAcksRequest)
Told = TypeVar("Told", co.OpenChannelPartitionReply, co.WriteChannelStateReply, co.SendChannelAcksReply)


class ChannelCoordinators:
    """The owners of group shards, as the leaders of channels call them. One per broker."""

    def __init__(self, transport: Transport, view: ClusterView, timeout_ms: int) -> None:
        self._transport = transport
        self._view = view
        self._timeout_ms = timeout_ms
        self._epochs: dict[int, int] = {}

    async def open(self, request: co.OpenChannelPartitionRequest) -> co.OpenChannelPartitionReply:
        """Returns what is remembered; the coordinator refuses older leaders from then on. Raises `OncelogError`."""
        return await self._call(methods.OPEN_CHANNEL_PARTITION, request)

    async def write(self, request: co.WriteChannelStateRequest) -> None:
        """Returns when the state is durable. Raises `OncelogError`."""
        await self._call(methods.WRITE_CHANNEL_STATE, request)

    async def send_acks(self, request: co.SendChannelAcksRequest) -> None:
        """Returns when the acknowledgements are durable as a part of the transaction. Raises `OncelogError`."""
        await self._call(methods.SEND_CHANNEL_ACKS, request)

    async def _call(self, method: MethodSpec[Ask, Told], request: Ask) -> Told:
        shard, address = self._owner(request.channel_id)
        reply, _ = await method.call(self._transport, address, request, self._timeout_ms)
        self._heard(shard, reply.coordinator_epoch)
        return reply

    def _owner(self, channel_id: str) -> tuple[int, str]:
        cluster = self._view.cluster
        if cluster is None:
            raise CoordinatorNotAvailableError("this broker does not know the cluster's group shards yet")
        shard = shard_for(channel_group_id(channel_id), cluster.group_shards)
        owner = self._view.owner_of(KIND_GROUP, shard)
        if owner is None:
            raise CoordinatorNotAvailableError("nobody owns the group shard", group_shard=shard)
        return shard, owner.address

    def _heard(self, shard: int, epoch: int) -> None:
        known = max(self._epochs.get(shard, 0), self._view.shard_epochs.get((KIND_GROUP, shard), 0))
        if epoch < known:
            raise CoordinatorFencedError(group_shard=shard, coordinator_epoch=epoch, known_epoch=known)
        self._epochs[shard] = epoch
