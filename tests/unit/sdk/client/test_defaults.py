"""The real ports of a client: they cost nothing until they are used, and belong to one process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from oncelog import errors
from oncelog.client import defaults
from oncelog.client.defaults import LazyGrpcTransport, SystemClock, system_random
from oncelog.config import ClientConfig


def test_a_transport_that_was_closed_connects_to_nobody() -> None:
    async def work() -> None:
        transport = LazyGrpcTransport("test")
        await transport.close()
        with pytest.raises(errors.IllegalStateError, match="this transport is closed"):
            await transport.call("127.0.0.1:1", "Partition.GetMetadata", b"", b"", 100)

    asyncio.run(work())


def test_a_client_that_was_made_and_not_used_has_loaded_no_grpc() -> None:
    code = (
        "import sys; from oncelog.client.defaults import LazyGrpcTransport; LazyGrpcTransport('test');"
        "sys.exit('grpc' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_transport_of_another_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = LazyGrpcTransport("test")
    parent = os.getpid()
    monkeypatch.setattr(defaults.os, "getpid", lambda: parent + 1)
    with pytest.raises(errors.ForkedClientError, match="make it in the child"):
        asyncio.run(transport.call("127.0.0.1:1", "PartitionLeader.GetMetadata", b"", b"", 100))


def test_certificates_that_cannot_work_are_told_at_the_first_call() -> None:
    transport = LazyGrpcTransport("test", config=ClientConfig(security_protocol="SSL", ssl_cafile="/nowhere/ca.crt"))
    with pytest.raises(errors.ConfigError, match=r"ssl_cafile /nowhere/ca\.crt cannot be read"):
        asyncio.run(transport.call("127.0.0.1:1", "PartitionLeader.GetMetadata", b"", b"", 100))


def test_no_two_processes_draw_the_same() -> None:
    assert system_random().getrandbits(128) != system_random().getrandbits(128)


def test_the_clock_counts_milliseconds() -> None:
    clock = SystemClock()
    assert 1_700_000_000_000 < clock.now_ms() < 10_000_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()
