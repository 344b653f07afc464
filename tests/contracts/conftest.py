"""What the contract suites share: a runner for each world, and one etcd for the whole session."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_runtime.adapters.etcd.etcd_process import EtcdProcess, find_etcd
from oncelog_runtime.sim import SimWorld


class RealRunner:
    """Runs a test's coroutine on an ordinary event loop."""

    def run(self, coro: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(coro, 20))


class SimRunner:
    """Runs a test's coroutine in a simulated world."""

    def __init__(self) -> None:
        self.world = SimWorld("contract")

    def run(self, coro: Coroutine[Any, Any, None]) -> None:
        self.world.run(coro)


@pytest.fixture(scope="session")
def etcd_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of an etcd that lives as long as the test session."""
    try:
        find_etcd()
    except MetadataUnavailableError as error:
        pytest.skip(error.message)
    data_dir: Path = tmp_path_factory.mktemp("etcd")
    etcd = EtcdProcess(data_dir, fsync=False)
    etcd.start_blocking()
    yield etcd.endpoint
    etcd.stop_blocking()
