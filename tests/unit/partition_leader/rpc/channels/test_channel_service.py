"""Work on channels, through the handlers: who gets which record, and what becomes of it."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.error_codes import ErrorCode
from oncelog.v1 import channel_pb2 as pb
from oncelog.v1 import coordinator_pb2 as co
from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_partition_leader.partition.channels.answering import Answer, Given
from oncelog_partition_leader.partition.channels.led_channel import LedChannel
from oncelog_partition_leader.partition.channels.shared_channel import Standing
from oncelog_runtime.metadata.cluster_view import ClusterView
from tests.unit.partition_leader.channel_world import (
    CHANNEL_ID,
    TOPIC_ID,
    ChannelWorld,
    channel,
    play,
    records_of,
    said,
    values_of,
)


def test_records_go_to_a_worker_and_are_done_when_it_says_so() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b", b"c")
        reply, payload = await world.receive(max_wait_ms=1_000)
        assert records_of(reply, payload) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert [(item.delivery, item.ack_wait_ms) for item in reply.records] == [(1, 30_000)]
        assert not (await world.settle("w1", said(0, 1))).errors
        kept = world.coordinator.of()
        assert [kept.is_settled(offset) for offset in range(3)] == [True, True, False]
        assert await world.values(max_wait_ms=100) == [], "the third one is with the worker"

    play(scenario)


def test_a_waiting_worker_gets_a_record_when_it_becomes_visible() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        waiting = asyncio.create_task(world.values(max_wait_ms=60_000))
        await asyncio.sleep(5)
        assert not waiting.done()
        before_ms = world.clock.monotonic_ms()
        await world.send(b"a")
        assert await waiting == [b"a"]
        assert world.clock.monotonic_ms() - before_ms < 5

    play(scenario)


def test_waiting_workers_share_what_comes() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        waiting = [asyncio.create_task(world.values(f"w{n}", max_wait_ms=60_000)) for n in range(3)]
        await asyncio.sleep(1)
        await world.send(*(b"%d" % n for n in range(9)))
        assert [len(found) for found in await asyncio.gather(*waiting)] == [3, 3, 3]

    play(scenario)


def test_a_worker_never_holds_more_than_it_has_room_for() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(*(b"%d" % n for n in range(9)))
        assert len(await world.values(max_in_flight=4, max_wait_ms=100)) == 4
        waiting = asyncio.create_task(world.values(max_in_flight=4, max_wait_ms=60_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await world.settle("w1", said(0, 1))
        assert await waiting == [b"4", b"5"]

    play(scenario)


def test_what_nobody_acknowledges_comes_again() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=1_000))
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        reply, payload = await world.receive("w2", max_wait_ms=5_000)
        assert values_of(reply, payload) == [b"a"]
        assert reply.records[0].delivery == 2
        late = await world.settle("w1", said(0))
        assert [(item.settled, item.error.code) for item in late.errors] == [(False, int(ErrorCode.NOT_OWNER))]
        assert not (await world.settle("w2", said(0, delivery=2))).errors
        again = await world.settle("w1", said(0))
        assert [item.settled for item in again.errors] == [True]

    play(scenario)


def test_a_worker_that_leaves_gives_its_records_back_at_once() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        waiting = asyncio.create_task(world.receive("w2", max_wait_ms=5_000))
        await asyncio.sleep(0.1)
        await world.settle("w1", leaves=True)
        reply, payload = await waiting
        assert values_of(reply, payload) == [b"a"]
        assert reply.records[0].delivery == 1, "a delivery that was released does not count"

    play(scenario)


def test_what_a_worker_gives_back_as_it_leaves_does_not_go_to_its_own_request() -> None:
    """The request that it has left standing is older than its last word."""

    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        own = asyncio.create_task(world.receive("w1", max_wait_ms=5_000))
        await asyncio.sleep(0.1)
        other = asyncio.create_task(world.receive("w2", max_wait_ms=5_000))
        await asyncio.sleep(0.1)
        begun = said(0)
        begun.verdict, begun.delay_ms = pb.VERDICT_NACK, 0
        assert not (await world.settle("w1", begun, leaves=True)).errors
        reply, _ = await own
        assert not reply.records
        reply, payload = await other
        assert (values_of(reply, payload), reply.records[0].delivery) == ([b"a"], 2)

    play(scenario)


def test_a_worker_that_is_not_heard_of_has_left() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel(ack_wait_ms=3_600_000))
        await world.send(b"a")
        assert await world.values("w1", max_wait_ms=100) == [b"a"]
        assert await world.values("w2", max_wait_ms=9_000) == []
        assert await world.values("w2", max_wait_ms=9_000) == [b"a"]
        assert [worker.worker_id for worker in world.host.shared[CHANNEL_ID].workers.all()] == ["w2"]

    play(scenario)


def test_a_newer_request_of_a_worker_answers_the_older_one() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        older = asyncio.create_task(world.values(max_wait_ms=60_000))
        await asyncio.sleep(1)
        newer = asyncio.create_task(world.values(max_wait_ms=60_000))
        assert await older == []
        await world.send(b"a")
        assert await newer == [b"a"]

    play(scenario)


def test_a_request_that_allows_nothing_and_does_not_wait_ends_the_one_that_stands() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        older = asyncio.create_task(world.values(max_wait_ms=60_000))
        await asyncio.sleep(1)
        assert await world.values(max_in_flight=0, max_wait_ms=0) == []
        assert await older == []
        await world.send(b"a")
        assert await world.values(max_wait_ms=1_000) == [b"a"]

    play(scenario)


def test_records_of_a_broken_request_go_to_the_next_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        waiting = asyncio.create_task(world.values("w1", max_wait_ms=60_000))
        await asyncio.sleep(1)

        def give_and_break(standing: Standing, given: list[Given]) -> None:
            standing.answer.set_result(given)
            waiting.cancel()  # its caller goes before it sees what was given

        with monkeypatch.context() as broken:
            broken.setattr(Standing, "give", give_and_break)
            await world.send(b"a")
            await asyncio.sleep(1)
        assert waiting.cancelled()
        reply, payload = await world.receive("w2", max_wait_ms=100)
        assert values_of(reply, payload) == [b"a"]
        assert reply.records[0].delivery == 1

    play(scenario)


def test_an_answer_keeps_within_its_bytes_and_releases_the_rest() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        for n in range(5):
            await world.send(b"%d" % n * 1_000)
        assert len(await world.values("w1", max_bytes=3_500, max_wait_ms=100)) == 2
        assert len(await world.values("w2", max_bytes=10, max_wait_ms=100)) == 1, "the first one always comes"
        assert len(await world.values("w3", max_wait_ms=100)) == 2

    play(scenario)


def test_few_records_of_a_large_batch_come_without_the_others() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(*(b"%03d" % n * 100 for n in range(100)))
        whole = world.partitions[next(iter(world.partitions))].log.size_bytes
        reply, payload = await world.receive("w1", max_in_flight=3, max_wait_ms=100)
        assert records_of(reply, payload) == [(n, b"%03d" % n * 100) for n in range(3)]
        assert len(payload) < whole / 10
        reply, payload = await world.receive("w2", max_in_flight=90, max_wait_ms=100)
        assert [offset for offset, _ in records_of(reply, payload)] == list(range(3, 93))
        assert len(payload) > whole / 2, "much of it comes as it is"

    play(scenario)


def test_a_settlement_waits_until_it_is_durable() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(*(b"%d" % n for n in range(10)))
        await world.values(max_wait_ms=100)
        world.coordinator.gate.clear()
        world.coordinator.calls.clear()
        settling = [asyncio.create_task(world.settle("w1", said(n))) for n in range(10)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in settling)
        world.coordinator.gate.set()
        assert all(not reply.errors for reply in await asyncio.gather(*settling))
        assert len(world.coordinator.named("write")) <= 2, "those that come meanwhile share one call"

    play(scenario)


def test_a_touch_waits_for_no_coordinator_unless_the_record_is_settled() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        world.coordinator.gate.clear()
        settling = asyncio.ensure_future(world.settle("w1", said(0)))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(0.1):
            assert not (await world.settle("w1", said(1, verdict=pb.VERDICT_TOUCH))).errors
        touching = asyncio.ensure_future(world.settle("w1", said(0, 1, verdict=pb.VERDICT_TOUCH)))
        await asyncio.sleep(1)
        assert not settling.done()
        assert not touching.done(), "it tells of what is settled, which has to be durable"
        world.coordinator.gate.set()
        assert [error.settled for error in (await touching).errors] == [True]
        assert not (await settling).errors

    play(scenario)


def test_a_settlement_times_out_and_becomes_durable_all_the_same() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        world.coordinator.gate.clear()
        reply = await world.settle("w1", said(0))
        assert [item.error.code for item in reply.errors] == [int(ErrorCode.REQUEST_TIMED_OUT)]
        world.coordinator.gate.set()
        assert not (await world.settle("w1", said(0))).errors, "a copy is answered when the first one counts"
        assert world.coordinator.of().is_settled(0)

    play(scenario)


NAMED = co.TransactionName(transactional_id="t", txn_shard=0, txn_producer_id=7, txn_no=3)


@pytest.mark.parametrize("committed", [True, False])
def test_an_acknowledgement_in_a_transaction_counts_when_it_commits(committed: bool) -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b")
        await world.values(max_wait_ms=100)
        await world.settle("w1", said(0, 1), transaction=NAMED)
        assert world.coordinator.of().pending == {(7, 3): {0, 1}}
        assert await world.values("w2", max_wait_ms=3_000) == []
        world.coordinator.end((7, 3), committed=committed)
        reply, payload = await world.receive("w2", max_wait_ms=3_000)
        assert values_of(reply, payload) == ([] if committed else [b"a", b"b"])
        assert [item.delivery for item in reply.records] == ([] if committed else [2])

    play(scenario)


def test_a_transaction_takes_all_or_nothing() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        await world.lead(1)
        world.put(channel())
        await world.send(b"a")
        await world.send(b"b", partition=1)
        await asyncio.sleep(0.1)
        await world.values(partitions=[0, 1], max_wait_ms=100)
        mine, others = said(0), said(5)
        others.partition = 1
        with pytest.raises(errors.NotOwnerError):
            await world.settle("w1", mine, others, transaction=NAMED)
        assert world.coordinator.of().pending == {}
        assert not (await world.settle("w1", mine)).errors, "it is the worker's as before"

    play(scenario)


def test_a_refused_transaction_leaves_the_records_with_their_worker() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        world.coordinator.before = [errors.InvalidTxnStateError("it has ended")]
        with pytest.raises(errors.InvalidTxnStateError):
            await world.settle("w1", said(0), transaction=NAMED)
        assert not (await world.settle("w1", said(0))).errors

    play(scenario)


def test_a_worker_claims_records_of_another_one() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a", b"b", b"c")
        await world.values("w1", max_wait_ms=100)
        request = pb.ClaimRequest(topic_id=TOPIC_ID, channel="billing", worker_id="w2", offsets=[1, 2])
        reply, payload = await world.service.claim(request)
        assert not reply.records, "w1 may hand them out without asking"
        await asyncio.sleep(1)
        reply, payload = await world.service.claim(request)
        assert values_of(reply, bytes(payload)) == [b"b", b"c"]
        request = pb.ClaimRequest(topic_id=TOPIC_ID, channel="billing", worker_id="w3", offsets=[1], names_only=True)
        await asyncio.sleep(1)
        reply, payload = await world.service.claim(request)
        assert [(item.first_offset, item.delivery, item.length) for item in reply.records] == [(1, 3, 0)]
        assert payload == b""
        refused = await world.settle("w1", said(0, 2))
        assert [(item.first_offset, item.last_offset) for item in refused.errors] == [(1, 2)]

    play(scenario)


def test_what_has_no_room_in_the_answer_to_a_claim_stays_with_its_owner() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        for value in b"abc":
            await world.send(bytes([value]) * (600 << 10))
        for _ in range(3):
            await world.receive("w1", max_wait_ms=100)
        await asyncio.sleep(1)
        request = pb.ClaimRequest(topic_id=TOPIC_ID, channel="billing", worker_id="w2")
        reply, payload = await world.service.claim(request)
        assert [value[:1] for value in values_of(reply, bytes(payload))] == [b"a"]
        led = await world.opened()
        assert [led.delivery.in_flight_of(worker) for worker in ("w1", "w2")] == [2, 1]
        assert not (await world.settle("w1", said(1, 2))).errors
        assert not (await world.settle("w2", said(0, delivery=2))).errors

    play(scenario)


def test_what_is_acknowledged_while_a_claim_is_being_answered_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.send(b"b", b"c")
        for _ in range(3):
            await world.receive("w1", max_wait_ms=100)
        await asyncio.sleep(1)
        prepare = Answer.prepare

        async def slow(answer: Answer, led: LedChannel, wanted: list[OffsetRange]) -> list[int]:
            found = await prepare(answer, led, wanted)
            assert not (await world.settle("w1", said(0, 1))).errors
            return found

        monkeypatch.setattr(Answer, "prepare", slow)
        request = pb.ClaimRequest(topic_id=TOPIC_ID, channel="billing", worker_id="w2")
        reply, payload = await world.service.claim(request)
        assert records_of(reply, bytes(payload)) == [(2, b"c")]

    play(scenario)


def test_bad_input_gets_a_named_error() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.opened()
        with pytest.raises(errors.UnknownChannelError):
            await world.receive(channel="other")
        with pytest.raises(errors.UnknownChannelError):
            await world.receive(channel_id="d" * 32)
        with pytest.raises(errors.InvalidRequestError, match="channel names"):
            await world.receive(channel="..")
        with pytest.raises(errors.UnknownTopicError):
            await world.service.claim(pb.ClaimRequest(topic_id="9" * 32, channel="billing", worker_id="w1"))
        reply, _ = await world.receive(partitions=[0, 1], max_wait_ms=60_000)
        assert [(item.partition.partition, item.error.code) for item in reply.errors] == [
            (1, int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        ]
        failed = await world.settle("w1", pb.Settlement(partition=1, verdict=pb.VERDICT_ACK, delivery=1))
        assert [item.error.code for item in failed.errors] == [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    play(scenario)


def test_a_broker_that_has_not_read_etcd_yet_does_not_say_that_a_topic_is_not_there() -> None:
    async def scenario(world: ChannelWorld) -> None:
        world.service._view = ClusterView()
        for call in (world.settle("w1", said(0)), world.values()):
            with pytest.raises(errors.LeaderNotAvailableError):
                await call

    play(scenario)


def test_a_request_for_a_channel_that_was_made_just_now_waits_for_etcd() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        await world.send(b"a")
        waiting = asyncio.create_task(world.values(max_wait_ms=1_000))
        await asyncio.sleep(0.5)
        world.put(channel())
        assert await waiting == [b"a"]

    play(scenario)


def test_a_request_ends_when_the_leadership_does() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        waiting = asyncio.create_task(world.receive(max_wait_ms=60_000))
        await asyncio.sleep(1)
        world.stop_leading()
        reply, _ = await waiting
        assert [item.error.code for item in reply.errors] == [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    play(scenario)


def test_what_an_earlier_leader_delivered_is_not_settled_by_a_late_word_about_it() -> None:
    """Two leaders may count the same deliveries of a record to the same worker (seed 103 of the simulation)."""

    async def scenario(world: ChannelWorld) -> None:
        await world.lead(epoch=1)
        world.put(channel())
        await world.send(b"a")
        await world.values(max_wait_ms=100)
        world.stop_leading()
        await world.lead(epoch=2)
        assert await world.values(max_wait_ms=1_000)
        reply = await world.settle("w1", said(0, leader_epoch=1))
        assert [item.settled for item in reply.errors] == [False]
        assert not (await world.settle("w1", said(0, leader_epoch=2))).errors
        reply = await world.settle("w1", said(0, leader_epoch=1))
        assert [item.settled for item in reply.errors] == [True], "a repeated word learns that the record is settled"

    play(scenario)


def test_a_log_that_cannot_be_read_is_told_to_its_workers() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await world.lead()
        world.put(channel())
        await world.send(b"a")
        await world.opened()
        world.led.fill()

        def fails(*_args: object) -> bytes:
            raise errors.StorageError("cannot be read", reason="io")

        world.led_partition().log.read = fails  # type: ignore[method-assign]
        reply, _ = await world.receive(max_wait_ms=60_000)
        assert [item.error.code for item in reply.errors] == [int(errors.StorageError.code)]
        assert world.led.delivery.in_flight_of("w1") == 0

    play(scenario)
