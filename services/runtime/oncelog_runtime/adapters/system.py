"""The real clock, and the function that gives a process its real ports."""

from __future__ import annotations

import asyncio
import socket
import time
from random import SystemRandom
from typing import Any, Final, cast

import grpc

from oncelog.link.client_link import GrpcOptions
from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.trace.tracing import Tracer
from oncelog_runtime.adapters import process_metrics
from oncelog_runtime.adapters.etcd.metadata_store import EtcdMetadata
from oncelog_runtime.adapters.files.descriptors import raise_limit
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.adapters.grpc.grpc_server import GrpcServer, Listener, ServerOptions
from oncelog_runtime.adapters.grpc.tls import SERVICE_HINTS, ProcessTls, server_credentials
from oncelog_runtime.adapters.helper_processes import HelperProcesses
from oncelog_runtime.adapters.loop_threads import LoopThreads
from oncelog_runtime.adapters.security import build_security
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import NodeConfig
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL
from oncelog_runtime.metadata.cluster_keys import CLUSTER_KEY, Cluster
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.ports import Change, Disk, Listing
from oncelog_runtime.serving.quotas import Quotas

_TRACES_MS: Final = 1_500
"""How long the end of a process waits for the trace collector."""


class SystemClock:
    """Implements `oncelog.ports.WallClock`."""

    def now_ms(self) -> int:
        """Returns milliseconds since 1970; may step back."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Returns milliseconds since an arbitrary start; never steps back."""
        return time.monotonic_ns() // 1_000_000


class _LazyDisk:
    """Creates an `OsDisk` at its first use: a process that keeps no files makes and locks no directory."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._disk: OsDisk | None = None

    def open_root(self) -> OsDisk:
        """Creates and locks the directory. Raises `StorageError` (reason locked, or the file system's own)."""
        if self._disk is None:
            self._disk = OsDisk(self._root)
        return self._disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.open_root(), name)

    def close(self) -> None:
        """Unlocks the directory."""
        if self._disk is not None:
            self._disk.close()


def build_ports(config: NodeConfig, component: str, tls: ProcessTls | None = None) -> NodePorts:
    """Builds the ports of a service process, all plaintext without `tls`. Call it on the running event loop;
    `close_ports` ends them.
    """
    tls = tls or ProcessTls()
    software = f"oncelog-{component}"
    tracer = _tracer(config, software)
    metrics = NodeMetrics(time.perf_counter)
    clock = SystemClock()
    quotas = Quotas(metrics if isinstance(config, ServingConfig) else None)  # the others serve no clients
    security, authentication = build_security(config, clock, metrics, quotas)
    credentials = server_credentials(tls.internal, require_certificate=True) if tls.internal else None
    server = GrpcServer(
        Listener.internal(config.listen_host, config.listen_port, credentials),
        *_client_listeners(config, tls),
        options=_server_options(config, software),
        tracer=tracer,
        metrics=metrics,
        authentication=authentication,
        quotas=quotas,
        reflects=config.reflection,
    )
    ports = NodePorts(
        transport=GrpcTransport(
            options=GrpcOptions(max_message_bytes=config.max_message_bytes, software=software, tls_hints=SERVICE_HINTS),
            tls=ClientTls(tls.internal) if tls.internal else None,
            tracer=tracer,
        ),
        server=server,
        disk=cast(Disk, _LazyDisk(config.data_dir)),
        metadata=EtcdMetadata(config.etcd_endpoints, tls=tls.etcd),
        clock=clock,
        random=SystemRandom(),
        helpers=HelperProcesses(config.data_dir),
        threads=LoopThreads(),
        tracer=tracer,
        metrics=metrics,
        security=security,
        quotas=quotas,
        descriptors=raise_limit(),
    )
    certificates = [files for files in (tls.internal, tls.clients, tls.etcd) if files is not None]
    process_metrics.collect_all(metrics, component, ports.health, server, certificates)
    return ports


def _server_options(config: NodeConfig, software: str) -> ServerOptions:
    return ServerOptions(
        max_message_bytes=config.max_message_bytes,
        max_links=config.links_max,
        max_links_per_peer=config.links_per_peer_max,
        request_bytes=config.request_memory_bytes,
        answer_bytes=config.answer_memory_bytes,
        arriving_bytes=config.arriving_memory_bytes,
        message_timeout_ms=config.message_timeout_ms,
        software=software,
    )


def _tracer(config: NodeConfig, software: str) -> Tracer | None:
    if not config.otlp_endpoint:
        return None
    from oncelog.trace.otlp import otlp_tracer  # late: without tracing it costs neither time nor memory

    instance = f"{socket.gethostname()}-{config.node_id}"
    service = software.replace("_", "-")
    ratio = config.trace_sampler_arg
    return otlp_tracer(
        config.otlp_endpoint, service, instance, sampler=config.trace_sampler, ratio=ratio, ambient=False
    )


def _client_listeners(config: NodeConfig, tls: ProcessTls) -> list[Listener]:
    """Returns the listeners for clients, beside the internal one."""
    if not isinstance(config, ServingConfig):
        return []
    ports = {CLIENT: config.client_listen_port, EXTERNAL: config.external_listen_port}
    return [
        Listener(name, config.listen_host, port, _client_credentials(config, tls), f"--{name}-listen-port")
        for name, port in ports.items()
        if port != 0
    ]


def _client_credentials(config: ServingConfig, tls: ProcessTls) -> grpc.ServerCredentials | None:
    if tls.clients is None:
        return None
    return server_credentials(tls.clients, require_certificate=config.client_tls_require_certificate)


def lock_disk(ports: NodePorts) -> None:
    """Locks the data directory now instead of at its first use. Raises `StorageError` (reason locked)."""
    if isinstance(ports.disk, _LazyDisk):
        ports.disk.open_root()


async def close_ports(ports: NodePorts) -> None:
    """Closes links, listeners and watches, in the order of their dependencies."""
    await ports.server.stop(0)
    await ports.transport.close()
    await ports.metadata.close()
    if isinstance(ports.disk, _LazyDisk):
        ports.disk.close()
    if ports.tracer is not None:
        await asyncio.to_thread(ports.tracer.close, _TRACES_MS)


async def learn_cluster_id(ports: NodePorts) -> None:
    """Waits until the cluster id is in etcd, then requires it of every link, incoming and outgoing."""
    async for event in ports.metadata.watch(CLUSTER_KEY):
        value = _cluster_value(event)
        if value is None:
            continue
        cluster_id = Cluster.decode(value).cluster_id
        if isinstance(ports.transport, GrpcTransport):
            ports.transport.cluster_id = cluster_id
        if isinstance(ports.server, GrpcServer):
            ports.server.cluster_id = cluster_id
        return


def _cluster_value(event: Listing | Change) -> bytes | None:
    if isinstance(event, Change):
        return event.value if event.key == CLUSTER_KEY else None
    return next((item.value for item in event.items if item.key == CLUSTER_KEY), None)
