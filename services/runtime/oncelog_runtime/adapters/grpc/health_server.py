"""gRPC health checking (`grpc.health.v1`) of a `HealthState`, on a plaintext port of its own.

Rule 1: its own port, because the kubelet speaks no TLS before Kubernetes 1.37 and shows no client certificate after.
Rule 2: it runs on the process's one event loop, so a loop that hangs fails its liveness probe.
The empty service name answers as `readiness`. `Watch` is not served (probes poll): UNIMPLEMENTED, which callers of
`Watch` must treat as "poll instead".
"""

from __future__ import annotations

from typing import Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from oncelog_runtime.adapters.grpc.grpc_server import explain_bind_failure
from oncelog_runtime.adapters.grpc.server_context import ServerContext
from oncelog_runtime.observability import health

_MAX_CHECKS: Final = 64


class _Servicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    def __init__(self, state: health.HealthState) -> None:
        self._state = state

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: ServerContext
    ) -> health_pb2.HealthCheckResponse:
        name = request.service or health.READINESS
        if name not in health.NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the services are startup, liveness, readiness")
        return _answer(self._state.serving(name))


def _answer(serving: bool) -> health_pb2.HealthCheckResponse:
    statuses = health_pb2.HealthCheckResponse
    return statuses(status=statuses.SERVING if serving else statuses.NOT_SERVING)


class HealthServer:
    """Serves a `HealthState`. `port` 0 = any free one."""

    def __init__(self, state: health.HealthState, host: str, port: int) -> None:
        self._state = state
        self._listen_host = host
        self._port = port
        self._server: grpc.aio.Server | None = None

    async def start(self) -> str:
        """Listens; returns host:port. Raises `AddressInUseError`."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)], maximum_concurrent_rpcs=_MAX_CHECKS)
        health_pb2_grpc.add_HealthServicer_to_server(_Servicer(self._state), server)
        host = f"[{self._listen_host}]" if ":" in self._listen_host else self._listen_host
        try:
            port = server.add_insecure_port(f"{host}:{self._port}")
        except RuntimeError:
            port = 0
        if port == 0:
            raise explain_bind_failure(self._listen_host, self._port, "--health-port")
        await server.start()
        self._server = server
        return f"{host}:{port}"

    async def stop(self) -> None:
        """Stops at once. May be called repeatedly."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0)
