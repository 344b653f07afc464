"""A marker must name a transaction; each marker and each question is answered by the partition's leader."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.core.batch.header import NO_SHARD
from oncelog.errors import InvalidRequestError, InvalidTopicError, NotLeaderError, OncelogError, ResourceExhaustedError
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_partition_leader.core.appends.commands import SettleCommand, Settled, Written
from oncelog_partition_leader.rpc.transaction_service import TransactionService
from oncelog_runtime.metadata.cluster_keys import TRANSACTION_TOPIC

P0 = PartitionId("0" * 32, 0)
COMMITTED = types_pb2.TRANSACTION_OUTCOME_COMMITTED


class Deciding:
    """A broker that leads one partition of `topic`. `refuses`: the leadership takes nothing."""

    def __init__(self, topic: str = "orders", *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.commands: list[Any] = []
        self.heard: list[tuple[int, int]] = []
        self.unsynced: OncelogError | None = None
        self.confirmed: list[int] = []
        self.tokens_asked: list[int] = []
        partition = SimpleNamespace(topic=topic, id=P0, require_leadership=lambda: self)
        replicas: Any = SimpleNamespace(find=lambda _: partition)
        tokens = SimpleNamespace(require_producer=lambda producer_id, _token: self.tokens_asked.append(producer_id))
        coordinators: Any = SimpleNamespace(heard=lambda *told: self.heard.append(told), tokens=tokens)
        clock: Any = SimpleNamespace(monotonic_ms=lambda: 1)
        config: Any = SimpleNamespace(coordinator_timeout_ms=100)
        disks: Any = SimpleNamespace(confirm=self._confirm)
        self.service = TransactionService(config, clock, replicas, coordinators, disks)

    async def _confirm(self, _partition: Any, end: int) -> None:
        self.confirmed.append(end)
        if self.unsynced is not None:
            raise self.unsynced

    def submit(self, command: Any) -> None:
        """See `Leadership.submit`."""
        if self.refuses:
            raise ResourceExhaustedError("too much waits on this partition")
        self.commands.append(command)
        if isinstance(command, SettleCommand):
            command.settled = Settled(True, True, 7, 1, 2)
        command.done.set_result(Written(9, -1, 0, False))

    async def mark(self, *, shard: int = 3, on_disk: bool = False, **marker: Any) -> pb.TxnMarkerReply:
        item = pb.TxnMarker(**{"outcome": COMMITTED, "txn_producer_id": 5, "txn_no": 1, **marker})
        request = pb.WriteTxnMarkersRequest(txn_shard=shard, coordinator_epoch=4, markers=[item], on_disk=on_disk)
        return (await self.service.write_txn_markers(request, b""))[0].markers[0]


def test_a_marker_is_queued_and_answered() -> None:
    async def main() -> None:
        s = Deciding()
        answer = await s.mark(winners=[1], has_winners=True, expected_records=8)
        assert (answer.marker_offset, answer.HasField("error")) == (9, False)
        (command,) = s.commands
        assert (command.marker.winners, command.marker.expected_records, command.txn_shard) == ((1,), 8, 3)
        assert (s.heard, s.confirmed) == ([(3, 4)], [])

    asyncio.run(main())


def test_an_abort_has_neither_winners_nor_expected_records() -> None:
    async def main() -> None:
        s = Deciding()
        aborted = types_pb2.TRANSACTION_OUTCOME_ABORTED
        await s.mark(outcome=aborted, winners=[1], has_winners=True, expected_records=8)
        assert (s.commands[0].marker.winners, s.commands[0].marker.expected_records) == (None, -1)

    asyncio.run(main())


def test_a_marker_waits_for_less_than_its_coordinator_does() -> None:
    async def main() -> None:
        s = Deciding()
        await s.mark()
        assert s.commands[0].deadline_ms == 1 + 100 // 3, "one that stands still keeps back no answer about others"

    asyncio.run(main())


def test_a_marker_that_is_refused_is_answered_so() -> None:
    async def main() -> None:
        s = Deciding(refuses=True)
        assert (await s.mark()).HasField("error")
        assert s.commands == []

    asyncio.run(main())


@pytest.mark.parametrize(
    "bad", [{"outcome": 0}, {"txn_producer_id": -1}, {"txn_no": 0}, {"shard": NO_SHARD}, {"shard": -1}]
)
def test_a_marker_that_no_transaction_can_have_is_refused(bad: dict[str, int]) -> None:
    async def main() -> None:
        s = Deciding()
        assert (await s.mark(**bad)).error.code == InvalidRequestError.code  # type: ignore[arg-type]
        assert s.commands == []

    asyncio.run(main())


def test_a_marker_on_disk_is_confirmed_first() -> None:
    async def main() -> None:
        s = Deciding()
        assert not (await s.mark(on_disk=True)).HasField("error")
        assert s.confirmed == [10], "the end after the marker"
        s.unsynced = NotLeaderError()
        assert (await s.mark(on_disk=True)).error.code == NotLeaderError.code

    asyncio.run(main())


@pytest.mark.parametrize("settle", [True, False])
def test_a_question_about_a_batch_is_settled_only_by_its_owner(settle: bool) -> None:
    async def main() -> None:
        s = Deciding()
        request = pb.GetProducerStateRequest(producer_id=6, settle=settle)
        reply, _ = await s.service.get_producer_state(request, b"")
        assert (reply.known, reply.written, reply.base_offset, reply.last_sequence) == (True, True, 7, 2)
        assert s.tokens_asked == ([6] if settle else [])
        assert s.commands[0].settle is settle

    asyncio.run(main())


def test_the_clusters_own_topics_settle_nothing() -> None:
    async def main() -> None:
        s = Deciding(TRANSACTION_TOPIC)
        with pytest.raises(InvalidTopicError):
            await s.service.get_producer_state(pb.GetProducerStateRequest(producer_id=6), b"")
        assert s.commands == []

    asyncio.run(main())
