"""What tests of `Client.process` share: a cluster with a scripted group, whose committed offsets follow its transactions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.consume.fetched_records import Records
from oncelog.client.process.processor import Processed
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import append

OUTPUT = 1
"""The scripted cluster has one topic: partition 0 is read, and outputs go to this one."""
READING: Any = {"fetch_max_wait_ms": 50}


class Transactions:
    """Moves the group's committed offsets when a transaction commits, as a coordinator does, and refuses stale members."""

    def __init__(self, cluster: FakeCluster, group: ScriptedGroup) -> None:
        self._cluster = cluster
        self._group = group
        self._end = cluster._EndTransaction
        self._pending: dict[int, list[co.OffsetEntry]] = {}
        self.members: list[tuple[str, int]] = []
        self._init = cluster._InitProducerId
        cluster._InitProducerId = self._begun  # type: ignore[method-assign, assignment]
        cluster._SendOffsets = self._send_offsets  # type: ignore[method-assign]
        cluster._EndTransaction = self._ended  # type: ignore[method-assign, assignment]

    async def _send_offsets(self, address: str, request: co.SendOffsetsRequest, _: bytes) -> tuple[Any, bytes]:
        self.members.append((request.member.member_id, request.member.member_epoch))
        if request.member.member_id in self._group.spent:
            raise errors.UnknownMemberError("the session has ended")
        self._pending.setdefault(request.name.txn_no, []).extend(request.offsets)
        return co.SendOffsetsReply(), b""

    async def _begun(self, address: str, request: co.InitProducerIdRequest, payload: bytes) -> tuple[Any, bytes]:
        """A new session: what is open is aborted."""
        no = self._cluster.next_txn_no
        if self._cluster.ended.setdefault(no, types_pb2.TRANSACTION_OUTCOME_ABORTED):
            self._cluster.next_txn_no += 1
        return await self._init(address, request, payload)

    async def _ended(self, address: str, request: co.EndTransactionRequest, payload: bytes) -> tuple[Any, bytes]:
        reply = await self._end(address, request, payload)
        if request.outcome == types_pb2.TRANSACTION_OUTCOME_COMMITTED:
            for entry in self._pending.pop(request.name.txn_no, []):
                self._cluster.take_offset(entry)
        return reply

    def committed(self) -> list[bytes | None]:
        """Values in the output that a read_committed reader sees."""
        is_committed = types_pb2.TRANSACTION_OUTCOME_COMMITTED
        records = self._cluster.logs[PartitionId(TOPIC_ID, OUTPUT)].records
        return [record.value for header, record in records if self._cluster.ended.get(header.txn_no) == is_committed]


Scene = Callable[[FakeCluster, Client, ScriptedGroup, Transactions], Any]


def scene(work: Scene, inputs: int = 6) -> Any:
    """Runs a test's work with so many inputs, and a group that assigns the partition that has them."""
    cluster = FakeCluster()
    append(cluster, [b"%d" % number for number in range(inputs)], keys=[b"k"] * inputs)

    async def whole(_: FakeCluster) -> Any:
        async with cluster.client(default_api_timeout_ms=10_000, request_timeout_ms=500) as client:
            group = ScriptedGroup(cluster, 0)
            return await work(cluster, client, group, Transactions(cluster, group))

    return cluster.run(whole)


def as_batches(fn: Any) -> Callable[[Records[Any, Any]], Awaitable[list[Any]]]:
    """The same work as a function of whole batches."""

    async def work(records: Records[Any, Any]) -> list[Any]:
        made = [fn(record) for record in records] if not inspect.iscoroutinefunction(fn) else []
        return made or [await fn(record) for record in records]

    return work


def processing(client: Client, how: str, fn: Any, **options: Any) -> Coroutine[Any, Any, Processed]:
    """The method of the client that the test is about, "process" or "process_batches", with the same work."""
    if how == "process":
        return client.process(TOPIC, TOPIC, fn, group_id="g", **options)
    return client.process_batches(TOPIC, TOPIC, as_batches(fn), group_id="g", **options)


async def process_until(
    cluster: FakeCluster, client: Client, is_done: Callable[[], bool], fn: Any, how: str = "process", **options: Any
) -> Processed:
    """Processes until it is so, then stops it."""
    stop = asyncio.Event()

    async def watch() -> None:
        async with asyncio.timeout(120):
            while not is_done():
                await cluster.pause()
        stop.set()

    reading: Any = {**READING, **options.pop("reading", {})}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch())
        running = processing(client, how, fn, stop=stop, reading=reading, **options)
        done = tasks.create_task(running)
    return done.result()
