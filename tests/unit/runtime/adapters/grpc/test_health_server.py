"""What a kubelet's gRPC probe is answered."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from oncelog_runtime.adapters.grpc.health_server import HealthServer
from oncelog_runtime.config.startup_error import AddressInUseError
from oncelog_runtime.observability import health

SERVING = health_pb2.HealthCheckResponse.SERVING


NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.asyncio
async def test_probes_follow_the_state() -> None:
    state = health.HealthState()
    server = HealthServer(state, "127.0.0.1", 0)
    address = await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        async def ask(name: str) -> int:
            return int((await stub.Check(health_pb2.HealthCheckRequest(service=name))).status)

        assert [await ask(name) for name in health.NAMES] == [NOT_SERVING, SERVING, NOT_SERVING]
        state.started()
        assert [await ask(name) for name in health.NAMES] == [SERVING, SERVING, SERVING]
        state.draining()
        assert [await ask(name) for name in ("liveness", "readiness", "")] == [SERVING, NOT_SERVING, NOT_SERVING]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask("livenes")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        with pytest.raises(AddressInUseError, match="--health-port"):
            await HealthServer(state, "127.0.0.1", int(address.rpartition(":")[2])).start()
    await server.stop()
    await server.stop()
