"""Who may write where."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import InvalidTopicError, NotLeaderError, ResourceExhaustedError
from oncelog.trace.trace_context import TRACEPARENT
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_partition_leader.rpc import service as module
from oncelog_partition_leader.rpc.service import BrokerService, _check_writer
from oncelog_runtime.metadata.cluster_keys import OFFSETS_TOPIC, SHARD_WRITER_BASE, TRANSACTION_TOPIC
from tests.spans import recording_tracer

P0 = PartitionId("0" * 32, 0)


def header(producer_id: int) -> Any:
    return cast(Any, SimpleNamespace(producer_id=producer_id))


def test_each_topic_has_writers_of_its_kind() -> None:
    for topic in (TRANSACTION_TOPIC, OFFSETS_TOPIC):
        _check_writer(topic, header(SHARD_WRITER_BASE))
    _check_writer("orders", header(7))
    for topic, producer_id in ((TRANSACTION_TOPIC, 7), (TRANSACTION_TOPIC, -1), ("orders", SHARD_WRITER_BASE)):
        with pytest.raises(InvalidTopicError):
            _check_writer(topic, header(producer_id))


class Full:
    """A leadership that takes nothing."""

    def submit(self, _command: Any, _size: int = 0) -> None:
        raise ResourceExhaustedError("too much waits on this partition")


@pytest.mark.parametrize("leads", [True, False])
def test_what_is_refused_before_it_is_queued_leaves_no_span_open(monkeypatch: pytest.MonkeyPatch, leads: bool) -> None:
    def require_leadership() -> Full:
        if not leads:
            raise NotLeaderError
        return Full()

    config = SimpleNamespace(log=SimpleNamespace(max_message_bytes=1, segment_bytes=1))
    partition = SimpleNamespace(topic="orders", id=P0, require_leadership=require_leadership, topic_config=config)
    tracer, spans = recording_tracer()
    unused: Any = SimpleNamespace(find=lambda _: partition)
    parts: Any = SimpleNamespace(view=None, me=None, contacts=SimpleNamespace(opinion=None), tokens=None)
    ports: Any = SimpleNamespace(clock=None, transport=None, tracer=tracer)
    service = BrokerService(parts, ports, parts, unused, parts, parts, parts, parts)
    monkeypatch.setattr(module, "read_client_batch", lambda *_: header(-1))
    monkeypatch.setattr(module, "check_payload", lambda *_: None)

    async def main() -> None:
        TRACEPARENT.set("00-" + "a" * 32 + "-" + "b" * 16 + "-01")
        refused = (ResourceExhaustedError, NotLeaderError)
        with pytest.raises(refused):
            service._submit_marker(
                pb.WriteTxnMarkersRequest(), pb.TxnMarker(outcome=types_pb2.TRANSACTION_OUTCOME_ABORTED, txn_no=1), 0
            )
        with pytest.raises(refused):
            service.submit_batch(pb.ProducePartition(), b"", -1, 0, 0)

    asyncio.run(main())
    assert spans.open == {}
