"""Every `Transport` keeps the contract: gRPC on both event loops, gRPC with mutual TLS, and the simulated network.

To add an implementation, add a runner: it makes a world, runs one check of the suite in it, and cleans up.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from oncelog.link.tls_check import Use
from oncelog.link.tls_files import TlsFiles
from oncelog_runtime.sim import SimWorld
from tests.certificates import Authority
from tests.contracts import transport_suite
from tests.contracts.grpc_world import grpc_world
from tests.contracts.sim_transport_world import SimTransportWorld
from tests.contracts.transport_suite import Check

Runner = Callable[[Check], None]


async def _in_grpc_world(check: Check, files: TlsFiles | None = None) -> None:
    async with asyncio.timeout(30), grpc_world(files) as world:
        await check(world)


def _on_asyncio(check: Check) -> None:
    asyncio.run(_in_grpc_world(check))


def _on_uvloop(check: Check) -> None:
    uvloop.run(_in_grpc_world(check))


def _on_tls(check: Check) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = Authority(Path(folder)).issue("node", "127.0.0.1")
        uvloop.run(_in_grpc_world(check, TlsFiles(files, Use.PEER)))


def _on_sim(check: Check) -> None:
    with SimWorld(check.__name__) as world:

        async def run() -> None:
            await check(SimTransportWorld(world))

        world.run(run())


RUNNERS: dict[str, Runner] = {
    "grpc-asyncio": _on_asyncio,
    "grpc-uvloop": _on_uvloop,
    "grpc-tls": _on_tls,
    "sim": _on_sim,
}


@pytest.mark.parametrize("check", transport_suite.ALL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS.keys())
def test_transport(runner: Runner, check: Check) -> None:
    runner(check)
