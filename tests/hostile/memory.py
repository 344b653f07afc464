"""`python -m tests.hostile.memory`: what four attacks on the memory of a real broker get.

A cluster of one broker is started; a stranger at its client listener, without a name, tries

    unread   one envelope of a few KB asks for 100 answers of 55 MiB, and reads none of them
    bomb     40 batches of 2 KB that unpack to 60 MiB each, and one FetchRecords over them
    half     60 streams on one connection, each with 64 MiB of a message that does not end
    links    4,200 links from one address

Printed: the RSS of the broker before, at its highest, and after, what the stranger was told, and the longest time for which a
client of the same broker waited for an answer meanwhile. Exit status 1 when a peak is above `--limit-mib`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from oncelog import link_codec, methods
from oncelog.client.grpc_transport import GrpcTransport
from oncelog.core.batch import encode_batch
from oncelog.errors import ErrorCode, OncelogError
from oncelog.link_codec import Frame
from oncelog.sync import Client
from oncelog.v1 import errors_pb2, link_pb2, types_pb2
from oncelog.v1 import partition_pb2 as pb
from oncelog_runtime.local import LocalCluster
from tests.hostile.half_messages import HalfMessages

MIB = 1 << 20
TOPIC = "victim"
HELLO = link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1))
CONNECT = "/oncelog.v1.PartitionLeader/Connect"


class Victim:
    """The broker: its memory, and a client that goes on asking it."""

    def __init__(self, pid: int, address: str, topic_id: str) -> None:
        self.pid = pid
        self.address = address
        self.topic_id = topic_id
        self.peak_mib = 0
        self.slowest_s = 0.0

    def rss_mib(self) -> int:
        """Now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // MIB

    async def watch(self) -> None:
        """Notes the highest memory, for ever."""
        while True:
            self.peak_mib = max(self.peak_mib, self.rss_mib())
            await asyncio.sleep(0.02)

    async def use(self) -> None:
        """A well-behaved client; its link was there before."""
        transport = GrpcTransport()
        try:
            while True:
                began = time.monotonic()
                with contextlib.suppress(OncelogError):
                    await methods.GET_METADATA.call(
                        transport, self.address, pb.GetMetadataRequest(topics=[TOPIC]), 30_000
                    )
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                await asyncio.sleep(0.05)
        finally:
            await transport.close()


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


# ---------------------------------------------------------------- the attacks


async def fill(victim: Victim) -> None:
    """60 MiB that can be read, in partition 0; 40 bombs in partition 1."""
    async with channel(victim.address) as link:
        produce = link.unary_unary("/oncelog.v1.PartitionLeader/Produce")
        large = encode_batch([None], [os.urandom(6 * MIB)], timestamps_ms=[1], topic_id=victim.topic_id, partition=0)
        bomb = encode_batch(
            [None], [bytes(60 * MIB)], timestamps_ms=[1], codec=2, topic_id=victim.topic_id, partition=1
        )
        for partition, data, count in ((0, large, 10), (1, bomb, 40)):
            item = pb.ProducePartition(topic_id=victim.topic_id, partition=partition, length=len(data))
            request = pb.ProduceRequest(acks=-1, timeout_ms=20_000, partitions=[item], batches=data).SerializeToString()
            for _ in range(count):
                reply = pb.ProduceReply.FromString(await produce(request, timeout=30))
                assert not reply.partitions[0].HasField("error"), reply


async def unread(victim: Victim) -> str:
    """100 large answers that nobody reads."""
    item = pb.FetchPartition(topic_id=victim.topic_id, partition=0, fetch_offset=0, leader_epoch=-1)
    fetch = pb.FetchRequest(isolation_level=types_pb2.READ_UNCOMMITTED, max_wait_ms=5_000, partitions=[item])
    header = fetch.SerializeToString()
    requests = [Frame(n, link_codec.REQUEST, "PartitionLeader.Fetch", 30_000, header=header) for n in range(1, 101)]
    async with channel(victim.address) as link:
        stream = link.stream_stream(CONNECT)()
        await stream.write(HELLO)
        await stream.read()
        await stream.write(link_codec.encode_envelope(requests))
        await asyncio.sleep(8)
        stream.cancel()
    return "read nothing for 8 s, then hung up"


async def bomb(victim: Victim) -> str:
    """One FetchRecords over all bombs."""
    request = pb.FetchRecordsRequest(
        topic=TOPIC, partition=1, offset=0, isolation_level=types_pb2.READ_COMMITTED, max_bytes=50 * MIB
    )
    async with channel(victim.address) as link:
        fetch = link.unary_unary("/oncelog.v1.PartitionLeader/FetchRecords")
        try:
            answer = await fetch(request.SerializeToString(), timeout=60)
        except grpc.aio.AioRpcError as error:
            return told(error.code().name, error.trailing_metadata())
        return f"{len(answer)} bytes"


async def half(victim: Victim) -> str:
    """60 messages that do not end."""
    connection = await HalfMessages.connect(victim.address)
    sent = await connection.send(streams=60, size=64 * MIB)
    await asyncio.sleep(1)
    connection.close()
    return f"{sent // MIB} MiB got through, connection ended: {'yes' if connection.is_over else 'no'}"


async def links(victim: Victim) -> str:
    """4,200 links, on as many connections as that takes."""
    outcomes: Counter[str] = Counter()
    async with contextlib.AsyncExitStack() as stack:
        streams = []
        for _ in range(70):
            connection = await stack.enter_async_context(channel(victim.address))
            streams += [connection.stream_stream(CONNECT)() for _ in range(60)]

        async def greet(stream: Any) -> str:
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

        outcomes.update(await asyncio.gather(*(greet(stream) for stream in streams)))
        for stream in streams:
            stream.cancel()
    return ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))


ATTACKS: dict[str, Callable[[Victim], Awaitable[str]]] = {"unread": unread, "bomb": bomb, "half": half, "links": links}


# ---------------------------------------------------------------- the story


async def attack(victim: Victim, names: list[str]) -> int:
    """Runs the attacks; returns the highest memory of all."""
    await fill(victim)
    print(f"{'attack':8} {'before':>7} {'peak':>7} {'after':>7} MiB  slowest  what it got")
    highest = 0
    watching = [asyncio.ensure_future(victim.watch()), asyncio.ensure_future(victim.use())]
    try:
        for name in names:
            await asyncio.sleep(1)
            before = victim.peak_mib = victim.rss_mib()
            victim.slowest_s = 0.0
            got = await ATTACKS[name](victim)
            await asyncio.sleep(5)
            after = victim.rss_mib()
            highest = max(highest, victim.peak_mib)
            print(f"{name:8} {before:7} {victim.peak_mib:7} {after:7}     {victim.slowest_s:5.2f} s  {got}", flush=True)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    return highest


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", default=list(ATTACKS), help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--limit-mib", type=int, default=1_500, help="highest memory that is allowed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder), 1, 1, doors=True)
        cluster.processes["broker-0"].command += ["--transaction-shards=2", "--group-shards=2"]  # it starts sooner
        highest = story(cluster, given.attacks)
    print(f"highest: {highest} MiB")
    return int(highest > given.limit_mib)


def story(cluster: LocalCluster, attacks: list[str]) -> int:
    """Starts the cluster, fills it, attacks it; returns the highest memory."""
    with cluster:
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(TOPIC, partitions=2, replication_factor=1)
            topic_id = client.admin.describe_topic(TOPIC).topic_id
        broker = cluster.processes["broker-0"]
        assert broker.popen is not None
        address = broker.doors["client"]
        return asyncio.run(attack(Victim(broker.popen.pid, address, topic_id), attacks))


if __name__ == "__main__":
    sys.exit(main())
