"""The bare limit: a grpc.aio stream pipeline of oncelog's shape, with no log and no logic.

client -> leader (crc32c, write to a file) -> two followers (crc32c, write, answer) -> answer, four processes, uvloop, the same
allocator settings as the services. What a real log reaches is quoted as a ratio to this, once with the services' poller of gRPC
(docs/decisions/0080) and once with gRPC as it comes, which is what one gets who builds upon it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import uvloop
from crc32c import crc32c
from google.protobuf.wrappers_pb2 import BytesValue

from oncelog.link.malloc import tune_malloc

OPTIONS = [
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.so_reuseport", 0),
]
ACK = BytesValue(value=b"ok")
METHOD = "/bare.Pipe/Run"


@dataclass(frozen=True, slots=True)
class BareResult:
    """`latencies_ms` of each message from write to answer, sorted; `seconds` of the whole run."""

    message_bytes: int
    messages: int
    seconds: float
    latencies_ms: tuple[float, ...]

    @property
    def mb_per_s(self) -> float:
        """Payload bytes a second, in 10^6."""
        return self.message_bytes * self.messages / self.seconds / 1e6

    @property
    def p50_ms(self) -> float:
        """Median time of one message."""
        return statistics.median(self.latencies_ms)

    @property
    def p99_ms(self) -> float:
        """99th percentile of one message."""
        return self.latencies_ms[int(len(self.latencies_ms) * 0.99)]


def _call(channel: Any) -> Any:
    """One stream to the peer."""
    method = channel.stream_stream(
        METHOD, request_serializer=BytesValue.SerializeToString, response_deserializer=BytesValue.FromString
    )
    return method()


def _server(handler: Callable[[AsyncIterator[BytesValue], Any], Any], port: int) -> Any:
    server = grpc.aio.server(options=OPTIONS)
    method = grpc.stream_stream_rpc_method_handler(
        handler, request_deserializer=BytesValue.FromString, response_serializer=BytesValue.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Pipe", {"Run": method}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    return server


def _store(file: int, message: BytesValue) -> None:
    crc32c(message.value)
    os.write(file, message.value)


async def _follower(port: int, path: str) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    async def run(_requests: AsyncIterator[BytesValue], context: Any) -> None:
        while (message := await context.read()) is not grpc.aio.EOF:
            _store(file, message)
            await context.write(ACK)

    server = _server(run, port)
    await server.start()
    await server.wait_for_termination()


async def _leader(port: int, path: str, followers: list[str]) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    channels = [grpc.aio.insecure_channel(address, options=OPTIONS) for address in followers]

    async def run(_requests: AsyncIterator[BytesValue], context: Any) -> None:
        calls = [_call(channel) for channel in channels]

        async def answer() -> None:
            while True:
                for call in calls:
                    if await call.read() is grpc.aio.EOF:
                        return
                await context.write(ACK)

        answers = asyncio.create_task(answer())
        while (message := await context.read()) is not grpc.aio.EOF:
            _store(file, message)
            for call in calls:
                await call.write(message)
        for call in calls:
            await call.done_writing()
        await answers

    server = _server(run, port)
    await server.start()
    await server.wait_for_termination()


async def _client(channel: Any, payload: bytes, messages: int, in_flight: int) -> BareResult:
    call = _call(channel)
    message = BytesValue(value=payload)
    started: deque[float] = deque()
    latencies: list[float] = []
    room = asyncio.Semaphore(in_flight)

    async def read() -> None:
        while len(latencies) < messages:
            await call.read()
            latencies.append((time.perf_counter() - started.popleft()) * 1e3)
            room.release()

    reader = asyncio.create_task(read())
    begin = time.perf_counter()
    for _ in range(messages):
        await room.acquire()
        started.append(time.perf_counter())
        await call.write(message)
    await reader
    seconds = time.perf_counter() - begin
    await call.done_writing()
    return BareResult(len(payload), messages, seconds, tuple(sorted(latencies)))


async def _measure(port: int, message_bytes: int, messages: int, in_flight: int) -> BareResult:
    payload = os.urandom(message_bytes)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        await _client(channel, payload, max(2, messages // 10), in_flight)
        return await _client(channel, payload, messages, in_flight)


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_listening(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"the bare pipeline did not listen on port {port}")


class BarePipeline:
    """The three server processes. `run` measures from a process of its own. `as_it_comes`: gRPC with its own poller."""

    def __init__(self, *, as_it_comes: bool = False) -> None:
        self._environment = {**os.environ, **({"GRPC_EXPERIMENTS": ""} if as_it_comes else {})}
        self._folder = tempfile.TemporaryDirectory()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = [free_port() for _ in range(3)]

    def __enter__(self) -> BarePipeline:
        followers = [f"127.0.0.1:{port}" for port in self._ports[1:]]
        for index, port in enumerate(self._ports[1:]):
            self._spawn("follower", port, f"follower-{index}")
            _wait_listening(port)
        self._spawn("leader", self._ports[0], "leader", *followers)
        _wait_listening(self._ports[0])
        return self

    def _spawn(self, role: str, port: int, name: str, *followers: str) -> None:
        path = os.path.join(self._folder.name, name)
        command = [sys.executable, "-m", "bench.bare", role, str(port), path, *followers]
        self._processes.append(subprocess.Popen(command, env=self._environment))

    def run(self, message_bytes: int, messages: int, in_flight: int) -> BareResult:
        """One measured run after a tenth of it as warm-up, from a fresh client process."""
        numbers = [str(self._ports[0]), "-", str(message_bytes), str(messages), str(in_flight)]
        command = [sys.executable, "-m", "bench.bare", "client", *numbers]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=self._environment).stdout
        found = json.loads(printed)
        return BareResult(message_bytes, messages, found["seconds"], tuple(found["latencies_ms"]))

    def __exit__(self, *_exc: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(10)
        self._folder.cleanup()


def main() -> None:
    """A server role (started by `BarePipeline`), or the whole table when called without arguments."""
    tune_malloc()
    parser = argparse.ArgumentParser()
    parser.add_argument("role", nargs="?", choices=("leader", "follower", "client"))
    parser.add_argument("port", nargs="?", type=int)
    parser.add_argument("path", nargs="?")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    if args.role == "follower":
        uvloop.run(_follower(args.port, args.path))
    elif args.role == "leader":
        uvloop.run(_leader(args.port, args.path, args.more))
    elif args.role == "client":
        result = uvloop.run(_measure(args.port, *(int(number) for number in args.more)))
        print(json.dumps({"seconds": result.seconds, "latencies_ms": result.latencies_ms}))
    else:
        with BarePipeline() as pipeline:
            for size, messages, in_flight in ((400, 2000, 1), (64 << 10, 3000, 16), (1 << 20, 600, 16)):
                r = pipeline.run(size, messages, in_flight)
                print(f"{size:>8} B: {r.mb_per_s:8.1f} MB/s  p50 {r.p50_ms:.2f} ms  p99 {r.p99_ms:.2f} ms")


if __name__ == "__main__":
    main()
