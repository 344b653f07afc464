"""The simulated network for the transport contract. Each server is a node of its own, so that it can crash."""

from __future__ import annotations

import itertools

from oncelog.ports import Handler, Transport
from oncelog_runtime.sim import SimNode, SimWorld


class SimTransportWorld:
    """Implements `TransportWorld`."""

    def __init__(self, world: SimWorld) -> None:
        self.transport: Transport = world.client("caller")
        self._world = world
        self._names = itertools.count()
        self._nodes: dict[str, SimNode] = {}

    async def serve(self, handlers: dict[str, Handler]) -> str:
        return (await self._serve(handlers, {}))["internal"]

    async def serve_doors(self, handlers: dict[str, Handler]) -> dict[str, str]:
        return await self._serve(handlers, {"client": 9192, "external": 9292})

    async def _serve(self, handlers: dict[str, Handler], more: dict[str, int]) -> dict[str, str]:
        node = self._world.node(f"server-{next(self._names)}", more=more)
        for method, handler in handlers.items():
            node.ports.server.register(method, handler)
        self._nodes[await node.ports.server.start()] = node
        return dict(node.ports.server.listening)

    async def stop(self, address: str, grace_ms: int) -> None:
        await self._nodes[address].ports.server.stop(grace_ms)

    async def crash(self, address: str) -> None:
        self._nodes[address].kill()

    def deaf_address(self) -> str:
        return "nobody:1"
