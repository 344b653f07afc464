"""What a stranger does to a broker's client listener, without a name: `tests.hostile.memory` measures what he gets.

python -m tests.hostile.attacks ATTACK ADDRESS TOPIC_ID       for each line of input, one attack, and a line that says what
                                                              the stranger was told
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import grpc
import grpc.aio

from oncelog.core.batch.batch import encode_batch
from oncelog.errors import ErrorCode
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.v1 import errors_pb2, link_pb2, types_pb2
from oncelog.v1 import partition_pb2 as pb
from tests.hostile.half_messages import HalfMessages

MIB = 1 << 20
TOPIC = "victim"
HELLO = link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1))
CONNECT = "/oncelog.v1.PartitionLeader/Connect"
CONNECTIONS, AT_ONCE = 10_000, 500
BOMBS = 200
HALF_CONNECTIONS, HALF_STREAMS, HALF_BYTES = 200, 50, 64 << 10
_RESET = struct.pack("ii", 1, 0)
_TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)


class Target(NamedTuple):
    """Whom to attack."""

    address: str
    topic_id: str


def channel(address: str) -> grpc.aio.Channel:
    """A connection of its own."""
    options = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
    )
    return grpc.aio.insecure_channel(address, options=options)


def told(status: str, trailing: Any) -> str:
    """The name of an error of a unary call."""
    for name, value in trailing or ():
        if name == "oncelog-error-bin":
            return ErrorCode(errors_pb2.ErrorDetail.FromString(value).code).name
    return status


async def fill(target: Target) -> str:
    """No attack: 60 MiB that can be read, in partition 0; 40 bombs in partition 1."""
    async with channel(target.address) as link:
        produce = link.unary_unary("/oncelog.v1.PartitionLeader/Produce")
        large = encode_batch([None], [os.urandom(6 * MIB)], timestamps_ms=[1], topic_id=target.topic_id, partition=0)
        bomb = encode_batch(
            [None], [bytes(60 * MIB)], timestamps_ms=[1], codec=2, topic_id=target.topic_id, partition=1
        )
        for partition, data, count in ((0, large, 10), (1, bomb, 40)):
            item = pb.ProducePartition(topic_id=target.topic_id, partition=partition, length=len(data))
            request = pb.ProduceRequest(acks=-1, timeout_ms=20_000, partitions=[item], batches=data).SerializeToString()
            for _ in range(count):
                reply = pb.ProduceReply.FromString(await produce(request, timeout=30))
                assert not reply.partitions[0].HasField("error"), reply
    return "filled"


async def unread(target: Target) -> str:
    """100 large answers that nobody reads."""
    item = pb.FetchPartition(topic_id=target.topic_id, partition=0, fetch_offset=0, leader_epoch=-1)
    fetch = pb.FetchRequest(
        isolation_level=types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED, max_wait_ms=5_000, partitions=[item]
    )
    header = fetch.SerializeToString()
    requests = [Frame(n, link_codec.REQUEST, "PartitionLeader.Fetch", 30_000, header=header) for n in range(1, 101)]
    async with channel(target.address) as link:
        stream = link.stream_stream(CONNECT)()
        await stream.write(HELLO)
        await stream.read()
        await stream.write(link_codec.encode_envelope(requests))
        await asyncio.sleep(8)
        stream.cancel()
    return "read nothing for 8 s, then hung up"


async def bomb(target: Target) -> str:
    """FetchRecords over all bombs, 200 times."""
    request = pb.FetchRecordsRequest(
        topic=TOPIC, partition=1, offset=0, isolation_level=types_pb2.ISOLATION_LEVEL_READ_COMMITTED, max_bytes=50 * MIB
    )
    async with channel(target.address) as link:
        fetch = link.unary_unary("/oncelog.v1.PartitionLeader/FetchRecords")
        outcomes = Counter([await _answer(fetch(request.SerializeToString(), timeout=60)) for _ in range(BOMBS)])
    return ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))


async def _answer(call: Any) -> str:
    try:
        return f"{len(await call)} bytes"
    except grpc.aio.AioRpcError as error:
        return told(error.code().name, error.trailing_metadata())


async def half(target: Target) -> str:
    """60 large messages that do not end, on one connection."""
    connection = await HalfMessages.connect(target.address)
    sent = await connection.send(streams=60, size=64 * MIB)
    await asyncio.sleep(1)
    connection.close()
    return f"{sent // MIB} MiB got through, connection ended: {'yes' if connection.is_over else 'no'}"


async def halves(target: Target) -> str:
    """10,000 small messages that do not end, on 200 connections."""
    connections = [await HalfMessages.connect(target.address) for _ in range(HALF_CONNECTIONS)]
    sent = await asyncio.gather(*(one.send(HALF_STREAMS, HALF_BYTES) for one in connections))
    await asyncio.sleep(1)
    ended = sum(one.is_over for one in connections)
    for one in connections:
        one.close()
    return f"{sum(sent) // MIB} MiB got through, connections ended: {ended} of {len(connections)}"


async def links(target: Target) -> str:
    """4,200 links, on as many connections as that takes."""
    async with contextlib.AsyncExitStack() as stack:
        streams = []
        for _ in range(70):
            connection = await stack.enter_async_context(channel(target.address))
            streams += [connection.stream_stream(CONNECT)() for _ in range(60)]
        outcomes = Counter(await asyncio.gather(*(_greet(stream) for stream in streams)))
        for stream in streams:
            stream.cancel()
    return ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))


async def _greet(stream: Any) -> str:
    try:
        await stream.write(HELLO)
        data = await stream.read()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return f"{(await stream.code()).name} {await stream.details()}"
    if data is grpc.aio.EOF:
        return str((await stream.code()).name)
    [frame] = link_codec.decode_envelope(data)
    if frame.hello is not None:
        return "let in"
    return ErrorCode(errors_pb2.ErrorDetail.FromString(frame.header).code).name


async def connections(target: Target) -> str:
    """10,000 connections, 500 at once, that say nothing, or something else than gRPC, or begin well and are cut off."""
    host, _, port = target.address.rpartition(":")
    noise = Random(1)
    opened = 0
    for _ in range(CONNECTIONS // AT_ONCE):
        writers = []
        for number in range(AT_ONCE):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write((b"", noise.randbytes(1024), _TLS_HELLO, _HTTP2, _HTTP2 + noise.randbytes(64))[number % 5])
            writers.append(writer)
        opened += len(writers)
        await asyncio.sleep(0.2)
        for number, writer in enumerate(writers):
            if number % 2:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort() if number % 2 else writer.close()
    return f"{opened} connections opened"


ATTACKS: dict[str, Callable[[Target], Awaitable[str]]] = {
    "unread": unread,
    "bomb": bomb,
    "half": half,
    "halves": halves,
    "links": links,
    "connections": connections,
}


def give_way() -> None:
    """This process gets the time that no other one wants: the stranger has a machine of his own elsewhere.

    Linux may weigh whole sessions against each other (autogroup). There neither niceness nor SCHED_IDLE says anything to
    the processes of another session, so this one gets a session of its own with the least weight. And it has one core: what
    the kernel does for it (on the loopback it receives in the sender's time) waits for nobody, whatever its weight.
    """
    with contextlib.suppress(OSError):  # who starts this from a shell has a session of its own already
        os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> int:
    """Attacks until its input ends."""
    give_way()
    name, address, topic_id = sys.argv[1:]
    attack = {**ATTACKS, "fill": fill}[name]
    for _ in sys.stdin:
        print(asyncio.run(attack(Target(address, topic_id))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
