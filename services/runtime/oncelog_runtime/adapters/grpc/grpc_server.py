"""Serves the methods of a process over gRPC: as frames of links, and one by one as unary calls.

Rule 1: both ways end in the same handler, which gets the message without its bulk field, and the bulk bytes.
Rule 2: a taken port is an error at the start: two processes never share one silently (SO_REUSEPORT is off).
Rule 3: a unary caller that gives up does not cancel the handler, see `server_link`.
Rule 4: the listeners of a process share its handlers and limits, except the number of links, which each listener limits
        separately; `oncelog_runtime.core.listeners` has the other differences. `core.shares` divides the memory.
Rule 5: `stop` refuses new work first, then waits for what runs, then asks peers to disconnect, and only then closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from oncelog import errors
from oncelog.ports import Handler
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.trace.tracing import Tracer
from oncelog.types import Buffer
from oncelog.wire import methods
from oncelog_runtime.adapters.grpc import grpc_status
from oncelog_runtime.adapters.grpc.grpc_tracing import ServerTracing
from oncelog_runtime.adapters.grpc.half_messages import LOOK_S, HalfMessages, connection_of
from oncelog_runtime.adapters.grpc.link.handler_faults import unexpected
from oncelog_runtime.adapters.grpc.link.link_entrance import TOO_MANY
from oncelog_runtime.adapters.grpc.link.link_host import LinkHost
from oncelog_runtime.adapters.grpc.link.link_observer import link_observer
from oncelog_runtime.adapters.grpc.link.server_link import SMALL_BYTES, ServerLink
from oncelog_runtime.adapters.grpc.reading_turns import ReadingTurns
from oncelog_runtime.adapters.grpc.server_context import ServerContext
from oncelog_runtime.adapters.grpc.unary_requests import Arrivals, reads_request
from oncelog_runtime.config.startup_error import AddressInUseError
from oncelog_runtime.core import listeners
from oncelog_runtime.core.arriving import ArrivingLimits
from oncelog_runtime.core.arriving_calls import ArrivingCalls
from oncelog_runtime.core.shares import MemoryLimits, Shares
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.serving.admission import ADMISSION, Admission
from oncelog_runtime.serving.audience import refusal_of
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.peer_key import peer_of
from oncelog_runtime.serving.quotas import Pass, Quotas, subject_of

if TYPE_CHECKING:
    from oncelog_runtime.adapters.grpc.authentication import Authentication
    from oncelog_runtime.adapters.grpc.reflection import Reflection

log = logging.getLogger(__name__)

_THROTTLE: Final = "oncelog-throttle-ms"
"""Trailing metadata of an answer: the same as `throttle_ms` of a frame."""
_UNARY_PATIENCE_MS: Final = 2_000
AnyMethod = methods.AnyMethod
_PACKAGE: Final = "oncelog.v1."
_HANG_UP_S: Final = 0.5
_CANCEL_S: Final = 1.0
_SMALL_WINDOWS: Final = (("grpc.http2.lookahead_bytes", 16 << 10), ("grpc.http2.bdp_probe", 0))
"""A client sends so much of a message before the server reads it, and all the rest when it does."""
_UNARY_MAX_S: Final = 600.0
"""No call takes so long. A longer one would occupy its slot forever, and enough of them all slots."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening port of a process. `port` 0 = any free one; `credentials` None = plaintext."""

    name: str
    host: str
    port: int
    credentials: grpc.ServerCredentials | None = None
    port_flag: str = "--listen-port"
    """The option to change when the port is taken, for the error."""

    @classmethod
    def internal(cls, host: str, port: int, credentials: grpc.ServerCredentials | None = None) -> Listener:
        """The one for the cluster's own processes, which every process has."""
        return cls(listeners.INTERNAL, host, port, credentials)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Limits of a `GrpcServer`. Twice what `GrpcOptions` lets a client send, so a well-behaved client never reaches them."""

    max_message_bytes: int = 64 << 20
    max_requests_per_link: int = 8192
    max_bytes_per_link: int = 128 << 20
    max_links: int = 4096
    """Per listener."""
    max_links_per_peer: int = 1024
    """Per listener, from one address or of one principal."""
    max_unary_calls: int = 1024
    max_unary_calls_per_peer: int = 512
    """Also the limit of one address's calls whose request has not arrived, be it read or not."""
    max_arriving_calls: int = 1024
    """Unary calls whose request is read and has not arrived completely, per listener."""
    max_arriving_calls_per_address: int = 128
    max_streams_per_connection: int = 64
    """A link needs one, and so does each unary call; a client that needs more at once waits for its own calls. Before a client
    has read this number it may begin more, and these fail as UNAVAILABLE: with 16, every eighth call of a burst of 30."""
    max_connection_idle_ms: int = 300_000
    """A connection without any stream is closed after this."""
    request_bytes: int = 0
    """For the whole process, see `MemoryLimits`; 0 = eight times `max_message_bytes`."""
    answer_bytes: int = 0
    """For the whole process, see `MemoryLimits`; 0 = four times `max_message_bytes`."""
    arriving_bytes: int = 0
    """For messages that have not arrived completely, whole process; 0 = four times `max_message_bytes`."""
    message_timeout_ms: int = 60_000
    """Time in which a client's message must arrive completely; 0 = unlimited."""
    max_metadata_bytes: int = 16 << 10
    handshake_timeout_ms: int = 10_000
    default_timeout_ms: int = 30_000
    """Applies to a frame that names no time-out."""
    software: str = "oncelog-server"
    """Sent in the hello, for the peer's logs."""

    def memory_limits(self) -> MemoryLimits:
        """Returns the limits by which the process's memory is divided."""
        answer_bytes = self.answer_bytes or 4 * self.max_message_bytes
        return MemoryLimits(
            max_message_bytes=self.max_message_bytes,
            request_bytes=self.request_bytes or 8 * self.max_message_bytes,
            answer_bytes=answer_bytes,
            request_bytes_per_connection=max(self.max_bytes_per_link, self.max_message_bytes),
            answer_bytes_per_connection=max(answer_bytes // 4, self.max_message_bytes),
        )

    def arriving_limits(self) -> ArrivingLimits:
        """Returns the limits for incomplete messages."""
        return ArrivingLimits(
            process_bytes=self.arriving_bytes or 4 * self.max_message_bytes,
            connection_bytes=2 * self.max_message_bytes,
            patience=max(2, round(self.message_timeout_ms / 1000 / LOOK_S)),
        )


class GrpcServer:
    """Implements `oncelog_runtime.ports.RpcServer` on grpc.aio.

    `host`, `port` and `credentials` are the internal listener's, `more` are further ones; all of them share the
    handlers and the bounds. `cluster_id` empty = every peer is welcome; it may be set later (`cluster_id` attribute),
    when it was read from etcd. `metrics` counts the requests. `reflects`: callers may list the services (gRPC
    reflection).

    It has 25 methods: those of the port, the steps of a start, and the way of a unary call.
    """

    def __init__(
        self,
        *doors: Listener,
        cluster_id: str = "",
        options: ServerOptions | None = None,
        tracer: Tracer | None = None,
        metrics: NodeMetrics | None = None,
        authentication: Authentication | None = None,
        quotas: Quotas | None = None,
        reflects: bool = False,
    ) -> None:
        self._reflects = reflects
        self._listeners = doors
        self._options = o = options or ServerOptions()
        self._metrics = metrics
        self._unary_calls = 0
        self._unary_calls_of: Counter[tuple[str, str]] = Counter()
        self._servers: list[grpc.aio.Server] = []
        self._listening: dict[str, str] = {}
        self._tracer = tracer
        self._host = LinkHost(
            handlers={},
            software=o.software,
            cluster_id=cluster_id,
            max_message_bytes=o.max_message_bytes,
            max_requests_per_link=o.max_requests_per_link,
            max_bytes_per_link=o.max_bytes_per_link,
            max_links=o.max_links,
            max_links_per_peer=o.max_links_per_peer,
            quotas=quotas or Quotas(),
            shares=Shares(o.memory_limits()),
            half_messages=HalfMessages(o.arriving_limits()) if o.message_timeout_ms else None,
            default_timeout_ms=o.default_timeout_ms,
            observer=link_observer(tracer),
            authentication=authentication,
        )

    @property
    def cluster_id(self) -> str:
        """The cluster id that links must agree with, once known."""
        return self._host.cluster_id

    @cluster_id.setter
    def cluster_id(self, cluster_id: str) -> None:
        self._host.cluster_id = cluster_id

    def register(self, method: str, handler: Handler) -> None:
        """See `oncelog_runtime.ports.RpcServer.register`. Raises `ConfigError` for an unknown method."""
        assert not self._servers, "register before start"
        if method not in methods.ALL:
            raise errors.ConfigError(f"{method} is not in oncelog.wire.methods")
        self._host.handlers[method] = handler if self._metrics is None else self._metrics.timed(method, handler)

    @property
    def open_links(self) -> int:
        """The number of links from peers."""
        return len(self._host.links)

    @property
    def shares(self) -> Shares:
        """The memory of this process, divided among its connections."""
        return self._host.shares

    @property
    def quotas(self) -> Quotas:
        """The quotas of each caller."""
        return self._host.quotas

    @property
    def half_messages(self) -> HalfMessages | None:
        """Watches messages that have not arrived completely; None when they are not watched."""
        return self._host.half_messages

    def _unfinished_bytes(self, peer: str) -> int | None:
        half = self._host.half_messages
        return 0 if half is None else half.unfinished_bytes(connection_of(peer))

    @property
    def links_refused(self) -> Counter[str]:
        """The number of refused links, by the error's code."""
        return self._host.metrics.refused

    def budgets(self) -> dict[str, tuple[int, int, int]]:
        """Returns (bytes taken, limit in bytes, times refused) of each budget."""
        shares = self._host.shares
        found = {
            name: (budget.taken_bytes, budget.limit_bytes, budget.refused)
            for name, budget in (("requests", shares.requests), ("answers", shares.answers))
        }
        if (half := self._host.half_messages) is not None:
            found["arriving"] = (half.arriving.unfinished_bytes, half.limit_bytes, half.ended)
        return found

    @property
    def running_requests(self) -> int:
        """The number of requests whose handler runs."""
        return len(self._host.running)

    # ------------------------------------------------------------ start and stop

    async def start(self) -> str:
        """See `oncelog_runtime.ports.RpcServer.start`. Raises `AddressInUseError`, or `ConfigError` for a bad host."""
        bound: list[tuple[grpc.aio.Server, str]] = []
        reflection = self._make_reflection()
        try:
            for listener in self._listeners:
                server = self._make_server(listener, reflection)
                bound.append((server, self._bind(server, listener)))
        except errors.OncelogError:
            for server, _ in bound:
                await server.stop(0)
            raise
        for listener, (_, address) in zip(self._listeners, bound, strict=True):
            self._listening[listener.name] = address
        if self._host.half_messages is not None:  # before the first link: it is watched from its beginning, or never
            self._host.half_messages.start(self._client_ports())
        for server, _ in bound:
            await server.start()
            self._servers.append(server)
        return self._listening[listeners.INTERNAL]

    def _client_ports(self) -> list[int]:
        watched = [self._listening[listener.name] for listener in self._listeners if self._is_watched(listener)]
        return [int(address.rpartition(":")[2]) for address in watched]

    def _is_watched(self, listener: Listener) -> bool:
        """Tells whether clients use it: it is one of theirs, or the only one. Services are trusted to finish a message."""
        return listener.name != listeners.INTERNAL or len(self._listeners) == 1

    @property
    def listening(self) -> dict[str, str]:
        """See `oncelog_runtime.ports.RpcServer.listening`."""
        return self._listening

    def _make_reflection(self) -> Reflection | None:
        if not self._reflects:
            return None
        try:
            from oncelog_runtime.adapters.grpc.reflection import (
                Reflection,  # imported here: when it is off, it is not loaded
            )
        except ImportError as error:
            raise errors.ConfigError(
                "reflection needs grpcio-reflection: pip install 'oncelog[server]', or set reflection=false"
            ) from error
        return Reflection(self._host, {_PACKAGE + name.partition(".")[0] for name in self._host.handlers})

    def _make_server(self, listener: Listener, reflection: Reflection | None) -> grpc.aio.Server:
        """Makes a gRPC server for one listener, because a call does not know its port."""
        interceptors = [] if self._tracer is None else [ServerTracing(self._tracer)]
        server = grpc.aio.server(interceptors=interceptors, options=self._channel_options(listener))
        o = self._options
        arrivals = Arrivals(
            ArrivingCalls(o.max_unary_calls, min(o.max_unary_calls_per_peer, o.max_unary_calls)),
            ArrivingCalls(o.max_arriving_calls, o.max_arriving_calls_per_address),
            ReadingTurns(self._unfinished_bytes) if self._is_watched(listener) else ReadingTurns(),
        )
        services: dict[str, dict[str, grpc.RpcMethodHandler]] = {}
        for name, handler in self._host.handlers.items():
            service, _, method = name.partition(".")
            table = services.setdefault(service, {})
            unary = reads_request(self._unary(methods.ALL[name], handler, listener), arrivals, o.message_timeout_ms)
            table[method] = grpc.stream_unary_rpc_method_handler(unary)
            table["Connect"] = grpc.stream_stream_rpc_method_handler(self._connect(service, listener))
        found = [grpc.method_handlers_generic_handler(_PACKAGE + service, table) for service, table in services.items()]
        if reflection is not None:
            found += reflection.handlers(lambda context: _caller(context, listener))
        server.add_generic_rpc_handlers((_Arrivals(self._host), *found))
        return server

    @staticmethod
    def _bind(server: grpc.aio.Server, listener: Listener) -> str:
        """Takes the port; returns host:port."""
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        address = f"{host}:{listener.port}"
        try:
            if listener.credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, listener.credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            raise explain_bind_failure(listener.host, listener.port, listener.port_flag)
        return f"{host}:{port}"

    async def stop(self, grace_ms: int) -> None:
        """See `oncelog_runtime.ports.RpcServer.stop`. May be called repeatedly."""
        servers, self._servers = self._servers, []
        if not servers:
            return
        self._host.stopping = True
        if self._host.half_messages is not None:
            await self._host.half_messages.stop()
        running = self._host.running
        if running:
            await asyncio.wait(list(running), timeout=grace_ms / 1000)
        for link in list(self._host.links.values()):
            link.say_goodbye(errors.ShuttingDownError())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HANG_UP_S):
                await self._host.no_links.wait()
        grace_s = 0 if self._host.links else _HANG_UP_S  # 0 is rude: it resets connections
        await asyncio.gather(*(server.stop(grace_s) for server in servers))
        for task in list(running):
            task.cancel()
        if running:
            await asyncio.wait(list(running), timeout=_CANCEL_S)

    def _channel_options(self, listener: Listener) -> list[tuple[str, int]]:
        o = self._options
        return [
            *(_SMALL_WINDOWS if listener.name != listeners.INTERNAL else ()),
            ("grpc.so_reuseport", 0),
            ("grpc.max_send_message_length", o.max_message_bytes),
            ("grpc.max_receive_message_length", o.max_message_bytes),
            ("grpc.max_concurrent_streams", o.max_streams_per_connection),
            ("grpc.max_connection_idle_ms", o.max_connection_idle_ms),
            ("grpc.max_metadata_size", o.max_metadata_bytes),
            ("grpc.absolute_max_metadata_size", 2 * o.max_metadata_bytes),
            ("grpc.server_handshake_timeout_ms", o.handshake_timeout_ms),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.http2.max_pings_without_data", 0),
        ]

    # ------------------------------------------------------------ links

    def _connect(self, service: str, listener: Listener) -> Callable[[object, ServerContext], Awaitable[None]]:
        async def connect(_requests: object, context: ServerContext) -> None:
            caller = _caller(context, listener)
            if self._host.is_crowd(caller.listener, connection_of(caller.peer), peer_of(caller)):
                # One of thousands: neither worth the objects of a link nor waiting for its hello.
                self._host.metrics.link_refused(errors.ErrorCode.RESOURCE_EXHAUSTED)
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY)
            await ServerLink(self._host, service, context, caller).run()

        return connect

    # ------------------------------------------------------------ unary

    def _unary(
        self, spec: AnyMethod, handler: Handler, listener: Listener
    ) -> Callable[[bytes, ServerContext], Awaitable[bytes]]:
        async def unary(data: bytes, context: ServerContext) -> bytes:
            caller = _caller(context, listener)
            meter = self._host.meter(connection_of(caller.peer))
            meter.messages += 1
            meter.delivered_bytes += len(data)
            try:
                if self._host.authentication is not None:
                    caller = await self._host.authentication.caller(context, caller)
                if (refused := refusal_of(caller, spec.name)) is not None:
                    raise refused
                header, payload = split_bulk(spec, data)
                call = self._admit_unary(caller, spec.name, len(data))
            except errors.OncelogError as error:
                await grpc_status.abort(context, error)
            del data
            CALL.set(caller)
            ADMISSION.set(call.admission)
            if self._tracer is None:  # else the interceptor has set it
                TRACEPARENT.set(str(dict(context.invocation_metadata() or ()).get("traceparent", "")))
            work = self._run_unary(spec, handler, header, payload, call.quota)
            task = asyncio.get_running_loop().create_task(work)
            self._host.running.add(task)  # type: ignore[arg-type]
            task.add_done_callback(lambda task: self._unary_done(task, call))
            context.add_done_callback(lambda _: call.half_done())  # the answer has left, or never will
            answer = await asyncio.shield(task)
            if isinstance(answer, errors.OncelogError):
                await grpc_status.abort(context, answer)
            meter.answered_bytes += len(answer)
            if call.throttle_ms:
                context.set_trailing_metadata(((_THROTTLE, str(call.throttle_ms)),))
            return answer

        return unary

    def _admit_unary(self, caller: CallInfo, method: str, size: int) -> _UnaryCall:
        if self._host.stopping:
            raise errors.ShuttingDownError()
        key = (caller.listener, peer_of(caller))
        if self._unary_calls >= self._options.max_unary_calls:
            raise errors.ResourceExhaustedError("too many unary calls to this process", retry_after_ms=50)
        if self._unary_calls_of[key] >= self._options.max_unary_calls_per_peer:
            raise errors.ResourceExhaustedError(
                "too many unary calls from this address, or of this principal", retry_after_ms=50
            )
        subject = subject_of(caller) if self._host.quotas.is_active else ""
        quota = self._host.quotas.admit(subject, method, size, _UNARY_PATIENCE_MS) if subject else None
        call = _UnaryCall(self._host.shares, key, caller.peer, size, quota)
        self._unary_calls += 1
        self._unary_calls_of[key] += 1
        return call

    async def _run_unary(
        self, spec: AnyMethod, handler: Handler, header: bytes, payload: Buffer, quota: Pass | None
    ) -> bytes | errors.OncelogError:
        if quota is not None and quota.delay_ms > 0:
            await asyncio.sleep(quota.delay_ms / 1000)
        deadline = asyncio.timeout(_UNARY_MAX_S)
        try:
            async with deadline:
                answer = join_bulk(spec, *await handler(header, payload))
            admission = ADMISSION.get()
            if admission is not None and len(answer) > admission.held_bytes + SMALL_BYTES:
                admission.take(len(answer) - admission.held_bytes)
            return answer
        except errors.OncelogError as error:
            return error
        except Exception as error:
            if deadline.expired():
                return errors.RequestTimedOutError("the call took too long", method=spec.name, limit_s=_UNARY_MAX_S)
            return unexpected(error, spec.name)

    def _unary_done(self, task: asyncio.Task[bytes | errors.OncelogError], call: _UnaryCall) -> None:
        answer = None if task.cancelled() else task.result()
        call.handled(len(answer) if isinstance(answer, bytes) else 0)
        self._unary_calls -= 1
        self._unary_calls_of[call.key] -= 1
        if not self._unary_calls_of[call.key]:
            del self._unary_calls_of[call.key]
        self._host.running.discard(task)


class _Arrivals(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Notices that a call begins, before its message has arrived; it serves no method itself."""

    def __init__(self, host: LinkHost) -> None:
        self._host = host

    def service(self, handler_call_details: object) -> None:
        """Called by gRPC first for each call."""
        if self._host.half_messages is not None:
            self._host.half_messages.something_new = True


class _UnaryCall:
    """The memory of a unary call: its request until the handler is done, its answer until that was sent as well."""

    __slots__ = (
        *("_connection", "_halves", "_reserved", "_share", "_shares", "admission", "key", "quota", "throttle_ms"),
    )

    def __init__(
        self, shares: Shares, key: tuple[str, str], connection: str, size: int, quota: Pass | None = None
    ) -> None:
        self.key = key
        self.quota = quota
        self.throttle_ms = 0
        self._shares, self._connection = shares, connection
        self._share = shares.enter(key[1], connection, is_internal=key[0] == listeners.INTERNAL)
        self._reserved = 0
        self._halves = 2
        self.admission = Admission(self._share.answers)
        if quota is not None:
            self.admission.answer_bytes_max = quota.answer_bytes_max
        try:
            if size > SMALL_BYTES:
                self._share.requests.reserve(size)
                self._reserved = size
        except errors.ResourceExhaustedError:
            if quota is not None:
                quota.close()
            self._leave()
            raise

    def handled(self, answer_bytes: int) -> None:
        """Called when the handler is done."""
        if self.quota is not None:
            self.throttle_ms = self.quota.answered(answer_bytes)
        self._share.requests.release(self._reserved)
        self.half_done()

    def half_done(self) -> None:
        """Called when the handler is done, and when the call is; the second of them releases everything."""
        self._halves -= 1
        if self._halves == 0:
            self.admission.close()
            self._leave()

    def _leave(self) -> None:
        self._shares.leave(self.key[1], self._connection, is_internal=self.key[0] == listeners.INTERNAL)


def _caller(context: ServerContext, listener: Listener) -> CallInfo:
    principals: tuple[str, ...] = ()
    if listener.credentials is not None:
        names = context.auth_context().get("x509_subject_alternative_name", ())
        principals = tuple(name.decode() for name in names)
    return CallInfo(context.peer(), principals, listener.name)


def split_bulk(spec: AnyMethod, data: bytes) -> tuple[bytes, bytes]:
    """Splits a whole request message into (message without its bulk field, bulk bytes). Raises `InvalidRequestError`."""
    if not spec.request_bulk:
        return data, b""
    try:
        request = spec.request.FromString(data)
    except DecodeError as error:
        raise errors.InvalidRequestError(f"the request of {spec.name} cannot be parsed") from error
    payload = bytes(getattr(request, spec.request_bulk))
    request.ClearField(spec.request_bulk)
    return request.SerializeToString(), payload


def join_bulk(spec: AnyMethod, header: bytes, payload: Buffer) -> bytes:
    """Joins (reply without its bulk field, bulk bytes) into the whole message: protobuf merges concatenated messages."""
    if not spec.reply_bulk or not payload:
        return header
    return header + bytes(spec.reply(**{spec.reply_bulk: bytes(payload)}).SerializeToString())


def explain_bind_failure(host: str, port: int, flag: str = "--listen-port") -> errors.OncelogError:
    """Finds out why gRPC could not bind, which it does not report: it tries again with a plain socket."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            probe.listen(1)
    except socket.gaierror:
        return errors.ConfigError(f"the listen host {host!r} cannot be resolved", host=host)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return AddressInUseError(
                f"port {port} of {host} is in use: stop the process that listens there, or choose another {flag}",
                host=host,
                port=port,
            )
        if error.errno == errno.EADDRNOTAVAIL:
            return errors.ConfigError(f"{host} is no address of this machine: see --listen-host", host=host)
        return errors.ConfigError(f"cannot listen on {host}:{port}: {error.strerror}", host=host, port=port)
    return errors.ConfigError(f"gRPC cannot listen on {host}:{port}", host=host, port=port)
