"""Renews leases over one call that stays open: a call for each renewal costs an idle process more than the renewal.

Rule 1: one renewal at a time, so an answer belongs to the request before it.
Rule 2: after anything but an answer the call is ended, and the next renewal begins another one; so does a new channel, and a
        call that etcd has ended between two renewals.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc

from oncelog_runtime.adapters.etcd.etcd_client import Connection
from oncelog_runtime.etcd_wire import rpc_pb2, rpc_pb2_grpc

_STUB: Final[Any] = rpc_pb2_grpc.LeaseStub  # generated, untyped


class LeaseCall:
    """`connection()` returns the channel to use now, and the metadata of calls."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()
        self._channel: grpc.aio.Channel | None = None
        self._call: grpc.aio.StreamStreamCall | None = None

    async def renew(self, lease_id: int) -> int:
        """Returns the lease's time to live in seconds, 0 when it is gone. Raises `grpc.RpcError` or `ValueError`."""
        async with self._turn:
            is_answered = False
            try:
                call = self._opened()
                await call.write(rpc_pb2.LeaseKeepAliveRequest(ID=lease_id))
                answer = await call.read()
                if answer is grpc.aio.EOF:
                    raise ValueError("etcd ended the call without an answer")
                is_answered = lease_id == answer.ID
                if not is_answered:
                    raise ValueError("etcd answered about another lease")
                return int(answer.TTL)
            except asyncio.InvalidStateError as error:  # gRPC's word for a call that has just ended
                raise ValueError("etcd ended the call") from error
            finally:
                if not is_answered:
                    self.end()

    def end(self) -> None:
        """Ends the call. May be called repeatedly."""
        call, self._call, self._channel = self._call, None, None
        if call is not None:
            call.cancel()

    def _opened(self) -> grpc.aio.StreamStreamCall:
        channel, metadata = self._connection()
        if self._call is None or channel is not self._channel or self._call.done():
            self.end()
            self._channel, self._call = channel, _STUB(channel).LeaseKeepAlive(metadata=metadata)
        return self._call
