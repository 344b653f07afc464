"""Each request of a transaction names it whole."""

from __future__ import annotations

from typing import Any, cast

import pytest

from oncelog import errors
from oncelog.client.consume.offsets import GroupMetadata
from oncelog.client.produce.transactions.transaction_calls import TransactionCalls
from oncelog.client.produce.transactions.txn_names import name_of
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.core.batch.identity import Identity
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from tests.unit.sdk.client.fake_cluster import FakeCluster

WHO = Identity(7, 2, txn_producer_id=7, txn_no=3, txn_shard=1, transactional_id="t", session_token=b"secret")
P0, P1 = PartitionId("id", 0), PartitionId("gone", 1)


class Coordinator:
    """Takes every call down, and answers it; also in place of the metadata."""

    def __init__(self, reply: object = None, error: errors.OncelogError | None = None) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self._reply = reply
        self._error = error

    async def _answer(self, who: str, method: Any, request: Any) -> Any:
        self.calls.append((who, method.name, request))
        if self._error is not None:
            raise self._error
        return self._reply

    to_txn_coordinator = end_at_txn_coordinator = to_group_coordinator = _answer

    def topic_name(self, topic_id: str) -> str | None:
        return "orders" if topic_id == "id" else None


def made(coordinator: Coordinator) -> TransactionCalls:
    return TransactionCalls(cast("Caller", coordinator), cast("Metadata", coordinator), WHO)


def test_every_request_names_the_transaction() -> None:
    coordinator = Coordinator(co.EndTransactionReply(visible=True))
    calls = made(coordinator)

    async def work(_: FakeCluster) -> None:
        await calls.enrol([P0, P1])
        await calls.send_offsets(GroupMetadata("g"), 5, [])
        await calls.commit({P0: 2, P1: 0}, co.END_WAIT_DECIDED)
        await calls.abort()
        assert await calls.wait_visible()

    FakeCluster().run(work)
    assert [who for who, _, _ in coordinator.calls] == ["t", "g", "t", "t", "t"]
    enrol, offsets, commit, abort, visible = [request for _, _, request in coordinator.calls]
    for request in (enrol, offsets, commit, abort, visible):
        assert request.name == name_of(WHO)
    assert [(p.topic, p.topic_id, p.partition) for p in enrol.partitions] == [("orders", "id", 0), ("", "gone", 1)]
    assert (offsets.commit_sequence, offsets.member.group_id) == (5, "g")
    assert [(c.topic_id, c.partition, c.records) for c in commit.counts] == [("id", 0, 2), ("gone", 1, 0)]
    committed, aborted = types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED
    assert [(r.outcome, r.wait) for r in (commit, abort, visible)] == [
        (committed, co.END_WAIT_DECIDED),
        (aborted, co.END_WAIT_DECIDED),
        (committed, co.END_WAIT_VISIBLE),
    ]


def test_who_waits_in_vain_for_the_markers_knows_that_it_is_committed() -> None:
    lost = errors.RequestTimedOutError("no answer", broker="b0")

    async def work(_: FakeCluster) -> None:
        with pytest.raises(
            errors.RequestTimedOutError, match=r"is committed, but .* markers are in: no answer"
        ) as told:
            await made(Coordinator(error=lost)).wait_visible()
        assert (told.value.context, told.value.__cause__) == (lost.context, lost)

    FakeCluster().run(work)
