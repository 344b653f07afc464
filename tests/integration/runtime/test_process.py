"""A service process from its first line to its exit code."""

from __future__ import annotations

import asyncio
import fcntl
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from oncelog.errors import NetworkError, OncelogError
from oncelog.link.grpc_transport import GrpcTransport

TOY = Path(__file__).with_name("toy_service.py")
DEAD_ETCD = "--etcd-endpoints=127.0.0.1:1"


@contextmanager
def toy(*flags: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(TOY), DEAD_ETCD, "--etcd-connect-timeout-ms=0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


def ping(address: str, header: bytes) -> bytes:
    async def call() -> bytes:
        transport = GrpcTransport()
        try:
            return (await transport.call(address, "PartitionLeader.Ping", header, b"", 10_000))[0]
        finally:
            await transport.close()

    return asyncio.run(call())


def test_sigterm_lets_running_requests_finish() -> None:
    with toy() as process:
        address = line(process.stdout)

        async def scenario() -> bytes:
            transport = GrpcTransport()
            running = asyncio.create_task(transport.call(address, "PartitionLeader.Ping", b"slow", b"", 10_000))
            assert await asyncio.to_thread(line, process.stdout) == "slow"
            process.send_signal(signal.SIGTERM)
            header, _ = await running
            await transport.close()
            return header

        assert asyncio.run(scenario()) == b"slow"
        assert process.wait(10) == 0
        assert line(process.stdout) == "stopped"
        assert process.stderr is not None
        logged = [json.loads(text) for text in process.stderr.read().splitlines() if text.startswith("{")]
        messages = [entry["message"] for entry in logged]
        assert [m for m in messages if m in ("starting", "ready", "draining", "stopped")] == [
            "starting",
            "ready",
            "draining",
            "stopped",
        ]
        assert logged[0]["config"]["listen_host"] == "127.0.0.1"


def test_the_garbage_collector_leaves_out_what_was_loaded() -> None:
    """A full collection went through all modules, for some 20 ms in which nobody was served."""
    with toy() as process:
        frozen, seen = map(int, ping(line(process.stdout), b"collected").split())
        assert frozen > 20_000 > seen


def test_a_second_signal_ends_at_once() -> None:
    with toy("--shutdown-grace-ms=60000") as process:
        address = line(process.stdout)

        async def scenario() -> None:
            transport = GrpcTransport()
            running = asyncio.create_task(transport.call(address, "PartitionLeader.Ping", b"forever", b"", 10_000))
            assert await asyncio.to_thread(line, process.stdout) == "forever"
            process.send_signal(signal.SIGINT)
            for text in iter(process.stderr.readline, ""):  # type: ignore[union-attr]
                if "draining" in text:
                    break
            process.send_signal(signal.SIGTERM)
            with pytest.raises(NetworkError):
                await running
            await transport.close()

        asyncio.run(scenario())
        assert process.wait(10) == 128 + signal.SIGTERM


def test_a_broken_invariant_in_a_handler_refuses_that_request_alone() -> None:
    with toy() as process:
        address = line(process.stdout)
        with pytest.raises(OncelogError):
            ping(address, b"break")
        ping(address, b"hello")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert "a handler failed" in process.stderr.read()


def one_sentence(process: subprocess.Popen[str]) -> str:
    assert process.wait(10) == 1
    assert process.stderr is not None
    [sentence] = [text for text in process.stderr.read().splitlines() if text.startswith("oncelog toy:")]
    return sentence


def test_what_hinders_the_start_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with toy(f"--listen-port={port}") as process:
            assert f"port {port} of 127.0.0.1 is in use" in one_sentence(process)
    with toy("--fault=etcd") as process:
        assert "etcd does not answer at 127.0.0.1:1: start it" in one_sentence(process)
    with toy("--fault=bug") as process:
        assert "an unexpected failure, see the log" in one_sentence(process)
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with toy("--fault=disk", f"--data-dir={tmp_path}") as process:
            assert f"the data directory {tmp_path} is in use" in one_sentence(process)
    with toy("--falt=x") as process:
        assert "did you mean --fault?" in one_sentence(process)


def wait_for_log(process: subprocess.Popen[str], message: str) -> None:
    for text in iter(process.stderr.readline, ""):  # type: ignore[union-attr]
        if message in text:
            return
    raise AssertionError(f"the process never said {message!r}")


def test_the_end_of_the_process_before_is_waited_for(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with toy("--fault=files", f"--data-dir={tmp_path}") as process:
            wait_for_log(process, "waiting for its end")
            fcntl.flock(lock, fcntl.LOCK_UN)
            wait_for_log(process, '"ready"')


def test_a_signal_ends_the_waiting_for_a_data_directory(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with toy("--fault=files", f"--data-dir={tmp_path}") as process:
            wait_for_log(process, "waiting for its end")
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0
            assert process.stdout is not None
            assert process.stdout.read() == "", "it never served"
