"""A service with nothing but a life, for test_process.py. Run as a script."""

from __future__ import annotations

import asyncio
import gc
import sys
from dataclasses import dataclass

from oncelog.errors import MetadataUnavailableError
from oncelog.types import Buffer
from oncelog.wire import methods
from oncelog_runtime.config.settings import NodeConfig, setting
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.process.process import run_service


@dataclass(frozen=True, kw_only=True)
class ToyConfig(NodeConfig):
    fault: str = setting("", "what goes wrong")


class Toy:
    def __init__(self, config: ToyConfig, ports: NodePorts) -> None:
        self._config = config
        self._ports = ports
        ports.server.register(methods.PING.name, self._ping)

    async def start(self) -> None:
        if self._config.fault == "etcd":
            raise MetadataUnavailableError("no answer in 3000 ms")
        if self._config.fault == "disk":
            self._ports.disk.exists("x")
        if self._config.fault == "bug":
            raise KeyError("a bug")
        sys.stdout.write(f"{await self._ports.server.start()}\n")
        sys.stdout.flush()

    async def _ping(self, header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        if header == b"break":
            raise AssertionError("two and two")
        if header == b"collected":
            return b"%d %d" % (gc.get_freeze_count(), len(gc.get_objects())), payload
        if header == b"slow":
            sys.stdout.write("slow\n")
            sys.stdout.flush()
            await asyncio.sleep(0.3)
        if header == b"forever":
            sys.stdout.write("forever\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        return header, payload

    async def stop(self, grace_ms: int) -> None:
        await self._ports.server.stop(grace_ms)
        sys.stdout.write("stopped\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run_service("toy", ToyConfig, Toy, keeps_files="--fault=files" in sys.argv))
