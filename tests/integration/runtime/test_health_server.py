"""What a kubelet's gRPC probe sees."""

from __future__ import annotations

import asyncio
import threading

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from oncelog_runtime.adapters.grpc.health_server import HealthServer
from oncelog_runtime.observability import health

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def test_a_loop_that_hangs_answers_no_probe_and_one_that_goes_on_does() -> None:
    """That is all that the liveness probe looks for: the kubelet counts unanswered probes, and restarts the process."""
    state, loop = health.HealthState(), asyncio.new_event_loop()
    server = HealthServer(state, "127.0.0.1", 0)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    address = asyncio.run_coroutine_threadsafe(server.start(), loop).result(20)
    go_on = threading.Event()
    with grpc.insecure_channel(address) as channel:
        request, check = (
            health_pb2.HealthCheckRequest(service=health.LIVENESS),
            health_pb2_grpc.HealthStub(channel).Check,
        )
        assert check(request, timeout=20).status == SERVING
        loop.call_soon_threadsafe(go_on.wait)  # the loop stands
        with pytest.raises(grpc.RpcError) as caught:
            check(request, timeout=1)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        go_on.set()
        assert check(request, timeout=20).status == SERVING
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()
