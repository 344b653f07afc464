"""Waits until a new topic can be used: every leader serves its partitions, every broker knows the name.

Rule: this is a convenience, not a guarantee. The wait is bounded, and a broker that does not answer in time is ignored.
"""

from __future__ import annotations

import asyncio

from oncelog.errors import OncelogError
from oncelog.ports import Transport
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_runtime.metadata.cluster_keys import Topic
from oncelog_runtime.metadata.cluster_view import ClusterView

_BOUND_S = 2.0
_AGAIN_S = 0.02
_AGAIN_MAX_S = 0.16
"""A broker that opens a thousand logs is asked less and less often: each answer takes time from that."""
_CALL_TIMEOUT_MS = 1_000


async def wait_until_usable(view: ClusterView, transport: Transport, topic: Topic) -> None:
    """Returns when the topic is usable everywhere, or after two seconds."""
    led: dict[int, list[int]] = {broker_id: [] for broker_id in view.live()}
    for number in range(topic.partitions):
        try:
            leader = view.require_leader(PartitionId(topic.topic_id, number))
        except OncelogError:  # it lost its leader again: clients will refresh
            continue
        led.setdefault(leader.broker_id, []).append(number)
    tasks = [
        asyncio.create_task(_wait_for_broker(view, transport, topic, broker_id, numbers))
        for broker_id, numbers in sorted(led.items())
    ]
    if tasks:
        await _all_or_bound(tasks)


async def wait_until_known(view: ClusterView, transport: Transport, revision: int) -> None:
    """Returns when every live broker has seen this revision of the metadata, or after two seconds."""
    tasks = [
        asyncio.create_task(_wait_for_revision(view, transport, broker_id, revision))
        for broker_id in sorted(view.live())
    ]
    if tasks:
        await _all_or_bound(tasks)


async def _wait_for_revision(view: ClusterView, transport: Transport, broker_id: int, revision: int) -> None:
    TRACEPARENT.set("")  # as below
    while (address := view.address_of(broker_id)) is not None:
        try:
            known, _ = await methods.GET_METADATA.call(transport, address, pb.GetMetadataRequest(), _CALL_TIMEOUT_MS)
            if known.revision >= revision:
                return
        except OncelogError:
            pass  # it is busy, or gone: asked again until the bound
        await asyncio.sleep(_AGAIN_S)


async def _all_or_bound(tasks: list[asyncio.Task[None]]) -> None:
    try:
        await asyncio.wait(tasks, timeout=_BOUND_S)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_broker(
    view: ClusterView, transport: Transport, topic: Topic, broker_id: int, numbers: list[int]
) -> None:
    TRACEPARENT.set("")  # the repeated calls would only clutter a trace
    pause_s = _AGAIN_S
    while True:
        address = view.address_of(broker_id)
        if address is None:
            return
        try:
            if await _is_ready(transport, address, topic, numbers):
                return
        except OncelogError:
            pass  # it is busy, or gone: asked again until the bound
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _AGAIN_MAX_S)


async def _is_ready(transport: Transport, address: str, topic: Topic, numbers: list[int]) -> bool:
    known, _ = await methods.GET_METADATA.call(
        transport, address, pb.GetMetadataRequest(topics=[topic.name]), _CALL_TIMEOUT_MS
    )
    if not known.topics or known.topics[0].topic_id != topic.topic_id:
        return False
    items = [pb.ListOffsetsPartition(topic_id=topic.topic_id, partition=n, timestamp_ms=-2) for n in numbers]
    request = pb.ListOffsetsRequest(isolation_level=types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED, partitions=items)
    listed, _ = await methods.LIST_OFFSETS.call(transport, address, request, _CALL_TIMEOUT_MS)
    return not any(item.HasField("error") for item in listed.partitions)
