"""Lets the peer of a link in, or refuses it: the process has room, the caller proves who it is, and has few enough links.

Rule 1: until a peer is let in, its link counts for its address; from then on for the principal that it proved to be.
Rule 2: a refused peer gets the reason, and hangs up itself.
"""

from __future__ import annotations

import asyncio
from typing import Final, Generic, TypeVar

import grpc
import grpc.aio

from oncelog import errors
from oncelog.link.link_states import LinkState
from oncelog.link.server_core import Breached, OpenRequest, Proved, ServerCore, ServerEvent
from oncelog.v1 import link_pb2
from oncelog_runtime.adapters.grpc.link.link_host import LinkHost, Visitor
from oncelog_runtime.adapters.grpc.server_context import ServerContext
from oncelog_runtime.core.listeners import INTERNAL
from oncelog_runtime.core.shares import Share
from oncelog_runtime.serving.call_context import CallInfo
from oncelog_runtime.serving.peer_key import peer_of
from oncelog_runtime.serving.quotas import subject_of

R = TypeVar("R", bound=OpenRequest)
LINGER_S: Final = 1.0
"""A refused peer has so long to hang up."""
TOO_MANY: Final = (
    "too many links from this address, or of this principal, to this process: share one client among your tasks"
)


class Entrance(Generic[R]):
    """See the module. One per link."""

    def __init__(
        self, host: LinkHost, core: ServerCore[R], stream: ServerContext, caller: CallInfo, visitor: Visitor
    ) -> None:
        self._host = host
        self._core = core
        self._stream = stream
        self._visitor = visitor
        self._loop = asyncio.get_running_loop()
        self._is_internal = visitor.listener == INTERNAL
        self.caller = caller
        """Changes when the caller proves who it is."""
        self.subject = ""
        """The principal whose quotas count."""
        self.share: Share | None = None
        """The peer's part of the process's memory; None until it is let in."""

    def first_of(self, data: bytes) -> ServerEvent[R]:
        """Takes what the peer says while it is not let in. Raises the error that refuses it."""
        return next(self._core.receive(data, self._loop.time() * 1000))

    async def enter(self, hello: link_pb2.Hello) -> bytes:
        """The peer is let in; returns the end of a password exchange. Raises what refuses the peer."""
        self._check_room()
        proof = await self._authenticate(hello)
        self._let_in()
        return proof

    async def _authenticate(self, hello: link_pb2.Hello) -> bytes:
        """Learns who the caller is; returns the end of a password exchange. Raises what refuses the caller."""
        authentication = self._host.authentication
        if authentication is None:
            return b""
        if not hello.mechanism:
            self.caller = await authentication.caller(self._stream, self.caller)
            return b""
        if not authentication.wants_password(self.caller):
            return b""
        caller = await authentication.caller(self._stream, self.caller)
        self.caller, proof = await authentication.by_password(
            hello.mechanism, hello.authentication, caller, self._challenge
        )
        return proof

    async def _challenge(self, message: bytes) -> bytes:
        """Sends the server's message of a password exchange, returns the caller's. Raises `AuthenticationError`."""
        self._core.challenge(message)
        await self._stream.write(self._core.data_to_send())
        data = await self._stream.read()
        event = self.first_of(data) if data is not grpc.aio.EOF else Proved(None)
        if isinstance(event, Breached):
            raise event.error
        if not isinstance(event, Proved) or event.message is None:
            raise errors.AuthenticationError("the password exchange was broken off")
        return event.message

    def _check_room(self) -> None:
        if self._host.stopping:
            raise errors.ShuttingDownError()
        if self._host.links_at[self._visitor.listener] > self._host.max_links:
            raise errors.ResourceExhaustedError("too many links to this process", retry_after_ms=1000)

    def _let_in(self) -> None:
        """Counts the link for the principal that the caller proved to be. Raises `ResourceExhaustedError`."""
        host = self._host
        host.rename(self._visitor, peer_of(self.caller))
        if host.let_in[self._visitor.listener, self._visitor.peer] >= host.max_links_per_peer:
            raise errors.ResourceExhaustedError(TOO_MANY, retry_after_ms=1000, limit=host.max_links_per_peer)
        self.subject = subject_of(self.caller)
        host.quotas.connect(self.subject, host.links_let_in(self._visitor.peer))
        self._visitor.is_let_in = True
        host.let_in[self._visitor.listener, self._visitor.peer] += 1
        self.share = host.shares.enter(self._visitor.peer, self.caller.peer, is_internal=self._is_internal)

    async def refuse(self, error: errors.OncelogError) -> None:
        """Says why, and lets the peer hang up first: the end of a stream can overtake its last message."""
        self._host.metrics.link_refused(error.code)
        # Else what came with the hello broke the protocol, and the core has said so.
        if self._core.state is LinkState.HELLO:
            self._core.refuse_link(error)
        await self._stream.write(self._core.data_to_send())
        try:
            async with asyncio.timeout(LINGER_S):
                await self._stream.read()
        except TimeoutError:
            pass

    def leave(self) -> None:
        """Gives back the peer's part of the process's memory, if it was let in."""
        if self.share is not None:
            self._host.shares.leave(self._visitor.peer, self.caller.peer, is_internal=self._is_internal)
