"""A collector of traces that takes everything and keeps nothing, in a process of its own: `python -m bench.collector`.

Prints its port, then runs until it is terminated. It decodes nothing, so that it measures the senders and not itself.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import grpc.aio


async def _take(_request: bytes, _context: Any) -> bytes:
    return b""


async def _serve() -> None:
    server = grpc.aio.server()
    export = grpc.unary_unary_rpc_method_handler(_take)
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": export}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve()))
