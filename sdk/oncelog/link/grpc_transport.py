"""Calls to other processes over gRPC: one link per address and service.

Rule 1: a link is one `Connect` stream. Exactly one task reads it and one task writes it; callers wait on futures, and
        their time-outs are timers (a cancelled `read` would end the whole stream, concurrent `write`s lose messages).
Rule 2: all frames that wait travel in one envelope; nothing ever waits for more to come.
Rule 3: any exception of the stream means that the link is gone. What was sent has an unknown outcome; what was not
        sent says `unsent="true"`; the next call makes a new link, with a new channel, so that neither gRPC's back-off
        nor its cached name look-ups stand between a caller and a peer that has come back.
Rule 4: calls and bytes in flight are bounded per link; who comes later waits for room, in order, until its time-out.
Rule 5: a channel does not survive a fork. The child's use of it, or of a new one, raises `ForkedClientError`.

This module imports grpc, so nothing that `import oncelog` loads may import it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import weakref
from collections.abc import Coroutine, Sequence
from typing import Final

import grpc
import grpc.aio

from oncelog import errors
from oncelog.core.throttles import Throttles
from oncelog.link import link_codec
from oncelog.link.client_link import Answer, GrpcOptions, Link
from oncelog.link.credentials import Credentials, check_way
from oncelog.link.grpc_tls import ClientTls, HandshakeFailure, explain_handshake
from oncelog.link.grpc_tracing import traced
from oncelog.link.protocol import KnownCluster
from oncelog.trace import tracing
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import Buffer

log = logging.getLogger(__name__)

_FIRST_CONNECT_TIMEOUT_MS: Final = 200
_LAST_CONNECT_TIMEOUT_MS: Final = 5_000
_RECONNECT_PAUSE_S: Final = 0.05


# ---------------------------------------------------------------- fork


_live_channels: weakref.WeakSet[grpc.aio.Channel] = weakref.WeakSet()
_fork_count = 0
_forked_with_channels = False


def _after_fork_in_child() -> None:
    global _fork_count, _forked_with_channels
    _fork_count += 1
    _forked_with_channels = _forked_with_channels or len(_live_channels) > 0


os.register_at_fork(after_in_child=_after_fork_in_child)


def _refuse_if_forked(born_in: int) -> None:
    if born_in != _fork_count:
        raise errors.ForkedClientError.inherited()
    if _forked_with_channels:
        raise errors.ForkedClientError(
            "this process was forked while a client was connected, and gRPC cannot work in it: start processes with spawn or"
            " forkserver, as multiprocessing.get_context('spawn') does, or close all clients before the fork (gunicorn:"
            " without --preload)"
        )


# ---------------------------------------------------------------- all links


class GrpcTransport:
    """Implements `oncelog.ports.Transport`. Belongs to the event loop of its first call.

    `cluster_id` empty = taken from the first peer that names one; from then on another cluster's peer is refused with
    `WrongClusterError`. `tls` None = plaintext. `metadata` is sent once per link. `credentials` say who this process is.

    Raises `ForkedClientError` when this process was forked while a channel was open.
    """

    def __init__(
        self,
        cluster_id: str = "",
        options: GrpcOptions | None = None,
        tls: ClientTls | None = None,
        metadata: Sequence[tuple[str, str | bytes]] = (),
        tracer: tracing.Tracer | None = None,
        credentials: Credentials | None = None,
        throttles: Throttles | None = None,
    ) -> None:
        self._born_in = _fork_count
        _refuse_if_forked(self._born_in)
        self._tracer = tracer
        self.cluster = KnownCluster(cluster_id)
        self.options = options or GrpcOptions()
        self._metadata = tuple(metadata)
        self.credentials = credentials
        self.throttles = throttles or Throttles()
        self._tls = tls
        self._links: dict[tuple[str, str], Link] = {}
        self._ending: dict[int, Link] = {}
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}  # count in a row, time of the last
        self._closed = False

    @property
    def cluster_id(self) -> str:
        """The cluster whose peers are spoken to; empty while it is not known."""
        return self.cluster.id

    @cluster_id.setter
    def cluster_id(self, cluster_id: str) -> None:
        self.cluster.id = cluster_id

    def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> Coroutine[object, None, tuple[bytes, Buffer]]:
        """See `oncelog.ports.Transport.call`.

        `NetworkError` carries `unsent="true"` when the request certainly never left, and `refused="true"` too when no
        process listens. Raises `MessageTooLargeError` for more than `max_message_bytes`, `IllegalStateError` after
        `close`, `ForkedClientError` in a forked child.
        """
        context = TRACEPARENT.get()
        if self._tracer is None or (context[-3:] == tracing.UNRECORDED and self._tracer.follows_parents):
            return self._call(address, method, header, payload, timeout_ms, context)
        return traced(
            self._tracer,
            method,
            address,
            lambda traceparent: self._call(address, method, header, payload, timeout_ms, traceparent),
        )

    async def _call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int, traceparent: str
    ) -> tuple[bytes, Buffer]:
        self._check(header, payload)
        answer: Answer = asyncio.get_running_loop().create_future()
        link = self._link(address, method.partition(".")[0])
        call = link.request(answer, method, header, payload, timeout_ms, traceparent)
        try:
            return await answer
        except asyncio.CancelledError:
            link.abandon(call)
            if answer.done() and not answer.cancelled():
                answer.exception()  # answered and cancelled in the same moment: its result is not read elsewhere
            raise

    async def close(self) -> None:
        """Ends all links; open calls fail with `NetworkError`. Any number of times."""
        self._closed = True
        links = [*self._links.values(), *self._ending.values()]
        for link in links:
            link.end(errors.NetworkError("this client was closed", address=link.address))
        for link in links:
            await link.closed()

    def _check(self, header: bytes, payload: Buffer) -> None:
        if self._born_in != _fork_count or _forked_with_channels:
            _refuse_if_forked(self._born_in)
        if self._closed:
            raise errors.IllegalStateError("this transport is closed")
        size = len(header) + len(payload)
        if size + link_codec.FRAME_OVERHEAD_BYTES > self.options.max_message_bytes:
            raise errors.MessageTooLargeError(
                "the request does not fit into one message",
                bytes=size,
                max_message_bytes=self.options.max_message_bytes,
            )

    # ------------------------------------------------------------ what links need

    def _link(self, address: str, service: str) -> Link:
        key = (address, service)
        link = self._links.get(key)
        if link is None:
            failures, last = self._failures.get(key, (0, 0.0))
            pause_s = last + _RECONNECT_PAUSE_S - asyncio.get_running_loop().time() if failures else 0.0
            timeout_ms = min(_FIRST_CONNECT_TIMEOUT_MS << min(failures, 8), _LAST_CONNECT_TIMEOUT_MS)
            link = self._links[key] = Link(self, address, service, pause_s, timeout_ms)
        return link

    def forget(self, link: Link, *, failed: bool, refused: bool) -> None:
        """The link takes no new calls. `failed`: it never came up."""
        key = (link.address, link.service)
        if self._links.get(key) is link:
            del self._links[key]
            self._ending[id(link)] = link
            link.task.add_done_callback(lambda _: self._ending.pop(id(link), None))
        if failed:
            count = 1 if refused else self._failures.get(key, (0, 0.0))[0] + 1
            self._failures[key] = (count, asyncio.get_running_loop().time())
        else:
            self._failures.pop(key, None)

    def throttled(self, address: str, method: str, throttle_ms: int) -> None:
        """The peer asks to be left alone with this method for a while."""
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        if self.throttles.told(address, method, throttle_ms, now_ms):
            log.info("%s throttles %s: above a quota, waiting %d ms", address, method, throttle_ms)

    async def link_metadata(self, address: str) -> tuple[tuple[str, str | bytes], ...]:
        """Returns the metadata of a new link. Raises `AuthenticationError`: there is no token, or the connection must not
        carry one.
        """
        if self.credentials is None:
            return self._metadata
        check_way(address, is_tls=self._tls is not None)
        return (*self._metadata, *await self.credentials.metadata())

    def explain_handshake(self, address: str, details: str) -> HandshakeFailure | None:
        """Explains gRPC's details of a connection that never came up, if they are about TLS."""
        return explain_handshake(
            address, details, self._tls.paths if self._tls is not None else None, self.options.tls_hints
        )

    def open_channel(self, address: str, connect_timeout_ms: int) -> grpc.aio.Channel:
        """A channel of its own for each link."""
        options = [
            ("grpc.max_send_message_length", self.options.max_message_bytes),
            ("grpc.max_receive_message_length", self.options.max_message_bytes),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", connect_timeout_ms),  # gRPC's name for the connect time-out
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),  # peers are inside the cluster
        ]
        if self._tls is None:
            channel = grpc.aio.insecure_channel(address, options=options)
        else:
            channel = grpc.aio.secure_channel(address, self._tls.credentials(), options=options)
        with contextlib.suppress(TypeError):  # should a grpcio's channels ever refuse weak references
            _live_channels.add(channel)
        return channel
