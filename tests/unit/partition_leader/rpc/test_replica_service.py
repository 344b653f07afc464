"""Brokers ask each other for the ends of logs and for signs of life, and are answered under their own incarnation only."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.errors import LeaderNotAvailableError, NotControllerError, StaleBrokerEpochError, StorageError
from oncelog.types import BrokerRef, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_partition_leader.core.replication.replica_state import LogState, ReplicaState, Seal
from oncelog_partition_leader.rpc.replica_service import ReplicaService

ME = BrokerRef(1, 7)
STATE = ReplicaState(LogState(3, 9), 5, 6, 8, 4, Seal(7, 3, 9))


class Peer:
    """Broker 1, with one replica. `hears`: its opinion of any other broker."""

    def __init__(self) -> None:
        self.hears: bool | None = None
        self.suspects: list[BrokerRef] = []
        self.during: list[str] = []
        self.controller = SimpleNamespace(
            is_controller=True, suspect=self.suspects.append, signpost=SimpleNamespace(controller=lambda: "broker-2:1")
        )
        cluster: Any = SimpleNamespace(
            view=SimpleNamespace(
                controller=None, restored_at=lambda: 40, on_doubt=lambda: self.during.append("is in doubt")
            ),
            me=lambda: ME,
            contacts=SimpleNamespace(opinion=lambda _ref: self.hears),
        )
        leftovers = SimpleNamespace(kept=lambda broker_id: [PartitionId("b" * 32, 3 + broker_id)])
        replicas: Any = SimpleNamespace(status=self._status, leftovers=leftovers)
        clock: Any = SimpleNamespace(now_ms=lambda: 123)
        follower: Any = SimpleNamespace(replicate=self._replicate)
        guard: Any = SimpleNamespace(brokers_seen=frozenset({2, 1}))
        observer: Any = SimpleNamespace(follows=self._follows)
        controller: Any = self.controller
        self.service = ReplicaService(clock, cluster, replicas, follower, controller, observer, guard)

    def _status(self, partition: PartitionId) -> ReplicaState:
        if partition.partition:
            raise StorageError("the log is not open")
        return STATE

    async def _replicate(self, _request: Any, _payload: Any) -> pb.ReplicateReply:
        self.during.append("handled")
        return pb.ReplicateReply()

    @contextmanager
    def _follows(self, size_bytes: int, partitions: int) -> Any:
        self.during.append(f"begins {size_bytes} {partitions}")
        yield
        self.during.append("ends")


def test_a_status_tells_the_claims_of_each_log_and_the_errors_of_others() -> None:
    async def main() -> None:
        request = pb.ReplicaStatusRequest(
            broker=types_pb2.BrokerRef(broker_id=1, incarnation=7),
            partitions=[types_pb2.TopicPartition(partition=number) for number in (0, 1)],
        )
        reply, _ = await Peer().service.replica_status(request, b"")
        known, unknown = reply.partitions
        assert (known.last_epoch, known.log_end_offset, known.intact_since, known.known_since) == (3, 9, 5, 6)
        assert (known.high_watermark, known.known_epoch, known.seal.end_offset) == (8, 4, 9)
        assert unknown.error.code == StorageError.code

    asyncio.run(main())


def test_the_logs_that_etcd_does_not_know_are_told_when_they_are_asked_for() -> None:
    async def main() -> None:
        request = pb.ReplicaStatusRequest(broker=types_pb2.BrokerRef(broker_id=1, incarnation=7))
        reply, _ = await Peer().service.replica_status(request, b"")
        assert not reply.HasField("kept")
        request.kept_logs = True
        reply, _ = await Peer().service.replica_status(request, b"")
        assert [(one.topic_id, one.partition) for one in reply.kept.partitions] == [("b" * 32, 4)]
        assert list(reply.kept.brokers_seen) == [1, 2]

    asyncio.run(main())


@pytest.mark.parametrize("restored_at", [0, 41, 39])
def test_a_controller_that_knows_of_another_restore_is_told_nothing(restored_at: int) -> None:
    async def main() -> None:
        peer = Peer()
        request = pb.ReplicaStatusRequest(
            broker=types_pb2.BrokerRef(broker_id=1, incarnation=7), kept_logs=True, restored_at=restored_at
        )
        with pytest.raises(LeaderNotAvailableError):
            await peer.service.replica_status(request, b"")
        assert peer.during == ["is in doubt"]
        request.restored_at = 40
        reply, _ = await peer.service.replica_status(request, b"")
        assert reply.HasField("kept")

    asyncio.run(main())


def test_another_incarnation_is_told_nothing() -> None:
    async def main() -> None:
        request = pb.ReplicaStatusRequest(broker=types_pb2.BrokerRef(broker_id=1, incarnation=6))
        with pytest.raises(StaleBrokerEpochError):
            await Peer().service.replica_status(request, b"")

    asyncio.run(main())


@pytest.mark.parametrize("hears", [None, True, False])
def test_a_ping_tells_who_answers_and_an_opinion_when_there_is_one(hears: bool | None) -> None:
    async def main() -> None:
        peer = Peer()
        peer.hears = hears
        request = pb.PingRequest(suspect=types_pb2.BrokerRef(broker_id=2, incarnation=1))
        reply, _ = await peer.service.ping(request, b"")
        assert (reply.broker.broker_id, reply.broker.incarnation, reply.now_ms) == (1, 7, 123)
        assert reply.HasField("hears_suspect") is (hears is not None)
        assert reply.hears_suspect is bool(hears)

    asyncio.run(main())


def test_only_the_controller_takes_reports() -> None:
    async def main() -> None:
        peer = Peer()
        request = pb.ReportBrokerRequest(suspect=types_pb2.BrokerRef(broker_id=2, incarnation=1))
        await peer.service.report_broker(request, b"")
        peer.controller.is_controller = False
        with pytest.raises(NotControllerError):
            await peer.service.report_broker(request, b"")
        assert peer.suspects == [BrokerRef(2, 1)]

    asyncio.run(main())


def test_a_leaders_request_is_observed_while_it_is_handled() -> None:
    async def main() -> None:
        peer = Peer()
        await peer.service.replicate(pb.ReplicateRequest(partitions=[pb.ReplicatePartition()]), b"12345")
        assert peer.during == ["begins 5 1", "handled", "ends"]

    asyncio.run(main())
