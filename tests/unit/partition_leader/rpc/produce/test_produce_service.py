"""A produce request is checked as a whole, each batch by itself; what is refused leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import (
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    NotLeaderError,
    OncelogError,
    ResourceExhaustedError,
    ShuttingDownError,
)
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog_partition_leader.core.appends.commands import Written
from oncelog_partition_leader.rpc.produce import produce_service as module
from oncelog_partition_leader.rpc.produce.payload_checks import PayloadChecks
from oncelog_partition_leader.rpc.produce.produce_service import ProduceService, _check_writer, cancel_all
from oncelog_runtime.metadata.cluster_keys import OFFSETS_TOPIC, SHARD_WRITER_BASE, TRANSACTION_TOPIC
from oncelog_runtime.process.tasks import TaskOwner

P0 = PartitionId("0" * 32, 0)
WRITTEN = Written(7, 1_000, 0, False)


def header(producer_id: int) -> Any:
    return cast(Any, SimpleNamespace(producer_id=producer_id, codec=0, uncompressed_length=5))


def test_each_topic_has_writers_of_its_kind() -> None:
    for topic in (TRANSACTION_TOPIC, OFFSETS_TOPIC):
        _check_writer(topic, header(SHARD_WRITER_BASE))
    _check_writer("orders", header(7))
    for topic, producer_id in ((TRANSACTION_TOPIC, 7), (TRANSACTION_TOPIC, -1), ("orders", SHARD_WRITER_BASE)):
        with pytest.raises(InvalidTopicError):
            _check_writer(topic, header(producer_id))


class Producing:
    """A broker that leads one partition. `refuses`: the leadership takes nothing; `leads`: it is the leader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, leads: bool = True, refuses: bool = False) -> None:
        self.leads = leads
        self.refuses = refuses
        self.commands: list[Any] = []
        log = SimpleNamespace(max_message_bytes=100, segment_bytes=100, is_compacted=False)
        self.partition = SimpleNamespace(
            topic="orders", id=P0, require_leadership=self._leadership, topic_config=SimpleNamespace(log=log)
        )
        replicas: Any = SimpleNamespace(find=lambda _: self.partition)
        clock: Any = SimpleNamespace(now_ms=lambda: 1, monotonic_ms=lambda: 1)
        config: Any = SimpleNamespace(request_timeout_max_ms=1_000)
        unused: Any = None
        self.checks = PayloadChecks(1_000, unused, unused, unused)
        self.service = ProduceService(config, clock, unused, replicas, unused, self.checks)
        monkeypatch.setattr(module, "read_client_batch", lambda *_: header(-1))
        monkeypatch.setattr(module, "check_payload", lambda *_, **__: None)

    def _leadership(self) -> Any:
        if not self.leads:
            raise NotLeaderError
        return self

    def submit(self, command: Any, _size: int = 0) -> None:
        """See `Leadership.submit`."""
        if self.refuses:
            raise ResourceExhaustedError("too much waits on this partition")
        self.commands.append(command)

    async def produce(self, *lengths: int, acks: int = -1, payload: bytes = b"batch") -> pb.ProduceReply:
        items = [pb.ProducePartition(partition=number, length=length) for number, length in enumerate(lengths)]
        asking = asyncio.ensure_future(
            self.service.produce(pb.ProduceRequest(acks=acks, partitions=items, timeout_ms=100), payload)
        )
        await asyncio.sleep(0)
        for command in self.commands:
            command.done.set_result(WRITTEN)
        return (await asking)[0]


@pytest.mark.parametrize(("leads", "refuses"), [(True, True), (False, False)])
def test_a_refusal_is_answered_and_nothing_is_queued(
    monkeypatch: pytest.MonkeyPatch, leads: bool, refuses: bool
) -> None:
    async def main() -> None:
        s = Producing(monkeypatch, leads=leads, refuses=refuses)
        reply = await s.produce(5)
        assert reply.partitions[0].HasField("error")
        assert s.commands == []

    asyncio.run(main())


def test_each_batch_has_its_own_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        s = Producing(monkeypatch)
        reply = await s.produce(2, 3)
        assert [(item.partition, item.base_offset) for item in reply.partitions] == [(0, 7), (1, 7)]
        assert [bytes(command.data) for command in s.commands] == [b"ba", b"tch"]

    asyncio.run(main())


@pytest.mark.parametrize("leads", [True, False])
def test_without_acks_only_a_refusal_is_answered(monkeypatch: pytest.MonkeyPatch, leads: bool) -> None:
    async def main() -> None:
        reply = await Producing(monkeypatch, leads=leads).produce(5, acks=0)
        assert len(reply.partitions) == (0 if leads else 1)

    asyncio.run(main())


def test_without_acks_the_failure_of_a_queued_batch_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been written: a caller that hears of it would send it again."""

    async def main() -> None:
        s = Producing(monkeypatch)
        monkeypatch.setattr(s, "submit", lambda command, _size: command.done.set_exception(NotLeaderError()))
        request = pb.ProduceRequest(acks=0, partitions=[pb.ProducePartition(length=5)], timeout_ms=100)
        reply, _ = await s.service.produce(request, b"batch")
        assert not reply.partitions

    asyncio.run(main())


@pytest.mark.parametrize("acks", [-1, 0])
@pytest.mark.parametrize("leads", [True, False])
def test_a_batch_that_takes_long_to_check_is_queued_then_or_refused(
    monkeypatch: pytest.MonkeyPatch, acks: int, leads: bool
) -> None:
    """Without acks its request is answered then, too: until then its bytes count for its caller."""

    async def main() -> None:
        s = Producing(monkeypatch)
        checked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run(check: Callable[[], object]) -> object:
            await checked
            return check()

        threads: Any = SimpleNamespace(run=run)
        unused: Any = None
        s.service._checks = PayloadChecks(4, threads, TaskOwner(lambda error: pytest.fail(repr(error))), unused)
        long = SimpleNamespace(producer_id=-1, codec=1, uncompressed_length=5)
        monkeypatch.setattr(module, "read_client_batch", lambda *_: long)
        request = pb.ProduceRequest(acks=acks, partitions=[pb.ProducePartition(length=5)], timeout_ms=100)
        asking = asyncio.ensure_future(s.service.produce(request, b"batch"))
        await asyncio.sleep(0.01)
        assert (len(s.commands), asking.done()) == (0, False)
        s.leads = leads  # it may have lost the leadership meanwhile
        checked.set_result(None)
        await asyncio.sleep(0.01)
        assert asking.done() == (not leads or not acks), "without acks nobody waits for what is queued"
        for command in s.commands:
            command.done.set_result(WRITTEN)
        reply, _ = await asking
        assert len(s.commands) == leads
        assert [item.HasField("error") for item in reply.partitions] == ([not leads] if acks or not leads else [])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("lengths", "acks", "error"),
    [((5,), 2, InvalidRequiredAcksError), ((4,), -1, InvalidRequestError), ((6, -1), -1, InvalidRequestError)],
)
def test_a_request_of_bad_form_is_refused_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...], acks: int, error: type[OncelogError]
) -> None:
    async def main() -> None:
        s = Producing(monkeypatch)
        with pytest.raises(error):
            await s.produce(*lengths, acks=acks)
        assert s.commands == []

    asyncio.run(main())


def test_one_partition_twice_and_a_process_that_ends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        s = Producing(monkeypatch)
        twice = pb.ProduceRequest(acks=-1, partitions=[pb.ProducePartition(), pb.ProducePartition()])
        with pytest.raises(InvalidRequestError, match="stands twice"):
            await s.service.produce(twice, b"")
        s.service.draining = True
        with pytest.raises(ShuttingDownError):
            await s.produce(5)

    asyncio.run(main())


def test_a_caller_that_is_gone_cancels_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        s = Producing(monkeypatch)
        request = pb.ProduceRequest(acks=-1, partitions=[pb.ProducePartition(length=5)], timeout_ms=100)
        asking = asyncio.ensure_future(s.service.produce(request, b"batch"))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert s.commands[0].done.cancelled()
        cancel_all([NotLeaderError()])

    asyncio.run(main())


@pytest.mark.parametrize(("policy", "refused"), [("compact", True), ("delete", False), ("", True)])
def test_a_record_without_a_key_does_not_wait_for_a_compacted_topic(
    monkeypatch: pytest.MonkeyPatch, policy: str, refused: bool
) -> None:
    """The empty policy is the default of the broker."""

    async def main() -> None:
        s = Producing(monkeypatch)
        s.partition.topic = "__delayed.orders"
        config = {"cleanup_policy": policy} if policy else {}
        view: Any = SimpleNamespace(topics={"orders": SimpleNamespace(value=SimpleNamespace(config=config))})
        replicas: Any = SimpleNamespace(
            find=lambda _: s.partition, defaults=SimpleNamespace(log=SimpleNamespace(cleanup_policy="compact,delete"))
        )
        s.service._view, s.service._replicas = view, replicas

        def check(*_: Any, is_compacted: bool) -> None:
            if is_compacted:
                raise InvalidRecordError

        monkeypatch.setattr(module, "check_payload", check)
        reply = await s.produce(5)
        assert reply.partitions[0].HasField("error") is refused

    asyncio.run(main())
