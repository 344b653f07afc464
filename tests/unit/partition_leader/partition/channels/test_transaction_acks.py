"""Acknowledgements in transactions: unknown outcomes, ends, and leaders that come and go."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from tests.unit.partition_leader.channel_world import ChannelWorld, channel, play, said, values_of

NAMED = co.TransactionName(transactional_id="t", txn_shard=0, txn_producer_id=7, txn_no=3, session_token=b"secret")
KEY = (7, 3)


async def _working(world: ChannelWorld, count: int = 2) -> None:
    await world.lead()
    world.put(channel())
    await world.send(*(b"%d" % n for n in range(count)))
    await world.values(max_wait_ms=100)


def test_the_token_goes_through_untouched() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        await world.settle("w1", said(0), transaction=NAMED)
        assert [request.name for request in world.coordinator.named("acks")] == [NAMED]

    play(scenario)


def test_an_unknown_outcome_is_repeated_with_the_same_content() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        world.coordinator.after = [errors.NetworkError(), errors.RequestTimedOutError()]
        await world.settle("w1", said(0), transaction=NAMED)
        calls = world.coordinator.named("acks")
        assert len(calls) == 3
        assert all(call == calls[0] for call in calls)

    play(scenario)


def test_a_refusal_after_an_unknown_outcome_is_asked_about() -> None:
    """The first copy counted and the transaction committed: the record is settled, although the last copy is refused."""

    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        world.coordinator.after = [errors.NetworkError()]
        world.coordinator.before = [None, errors.InvalidTxnStateError("it has ended")]
        settling = asyncio.create_task(world.settle("w1", said(0, 1), transaction=NAMED))
        await asyncio.sleep(0.01)
        assert world.coordinator.of().pending == {KEY: {0, 1}}
        world.coordinator.end(KEY, committed=True)
        with pytest.raises(errors.InvalidTxnStateError):
            await settling
        assert await world.values("w2", max_wait_ms=3_000) == []
        assert world.led.delivery.describe(world.led.now_ms()).in_transaction == 0

    play(scenario)


def test_nothing_is_concluded_while_a_call_is_on_its_way() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        world.coordinator.before = [errors.NetworkError() for _ in range(8)]
        settling = asyncio.create_task(world.settle("w1", said(0, 1), transaction=NAMED))
        assert await world.values("w2", max_wait_ms=1_500) == []
        await settling
        world.coordinator.end(KEY, committed=False)
        assert await world.values("w2", max_wait_ms=3_000) == [b"0", b"1"]

    play(scenario)


def test_a_new_leader_knows_of_open_transactions() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await _working(world, 3)
        await world.settle("w1", said(0, 1), transaction=NAMED)
        await world.lead(epoch=2)
        reply, payload = await world.receive("w2", max_wait_ms=1_000)
        assert values_of(reply, payload) == [b"2"]
        world.coordinator.end(KEY, committed=False)
        reply, payload = await world.receive("w2", max_wait_ms=3_000)
        assert values_of(reply, payload) == [b"0", b"1"]

    play(scenario)


def test_only_the_blocks_concerned_are_asked_for_and_questions_become_rare() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        before = len(world.coordinator.named("open"))
        await world.settle("w1", said(0, 1), transaction=NAMED)
        await asyncio.sleep(30)
        asked = world.coordinator.named("open")[before:]
        assert 25 <= len(asked) <= 40
        assert all(list(request.blocks) == [0] for request in asked)
        world.coordinator.end(KEY, committed=True)
        await asyncio.sleep(2)
        asked = len(world.coordinator.named("open"))
        await asyncio.sleep(30)
        assert len(world.coordinator.named("open")) == asked, "an idle channel asks nothing"

    play(scenario)


def test_a_repeated_call_of_the_same_transaction_is_fine() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        await world.settle("w1", said(0), transaction=NAMED)
        await world.settle("w1", said(0), said(1), transaction=NAMED)
        assert world.coordinator.of().pending == {KEY: {0, 1}}

    play(scenario)


def test_a_late_copy_that_is_refused_gives_nothing_back_that_another_copy_brought_into_the_transaction() -> None:
    """A worker repeats its call; the second one counts, the transaction commits, and then the first one is refused."""

    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        serve, first = world.coordinator._acks, asyncio.Event()

        async def call(request: co.SendChannelAcksRequest) -> None:
            if len(world.coordinator.named("acks")) > 1:
                serve(world.coordinator.of(), request)
                return
            world.coordinator.calls.append(("acks", request))
            await first.wait()
            raise errors.TxnEndedError("it has ended")

        world.around.coordinators.send_acks = call  # type: ignore[method-assign]
        one = asyncio.create_task(world.settle("w1", said(0, 1), transaction=NAMED))
        await asyncio.sleep(0.1)
        world.coordinator.calls.append(("acks", None))
        await world.settle("w1", said(0, 1), transaction=NAMED)
        world.coordinator.end(KEY, committed=True)
        first.set()
        with pytest.raises(errors.TxnEndedError):
            await one
        assert world.led.delivery.in_flight_of("w1") == 0
        assert await world.values("w2", max_wait_ms=60_000) == []
        assert world.led.delivery.describe(world.led.now_ms()).in_transaction == 0

    play(scenario)


def test_what_another_call_names_that_is_under_way_is_not_given_back() -> None:
    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        second = asyncio.Event()
        calls: list[co.SendChannelAcksRequest] = []

        async def call(request: co.SendChannelAcksRequest) -> None:
            calls.append(request)
            if len(calls) == 1:
                await asyncio.sleep(1)
                raise errors.InvalidTxnStateError("not yet")
            await second.wait()
            world.coordinator._acks(world.coordinator.of(), request)

        world.around.coordinators.send_acks = call  # type: ignore[method-assign]
        settling = []
        for _ in range(2):
            settling.append(asyncio.create_task(world.settle("w1", said(0, 1), transaction=NAMED)))
            await asyncio.sleep(0.1)
        with pytest.raises(errors.InvalidTxnStateError):
            await settling[0]
        assert world.led.delivery.in_flight_of("w1") == 0
        second.set()
        await settling[1]
        world.coordinator.end(KEY, committed=True)
        assert await world.values("w2", max_wait_ms=60_000) == []

    play(scenario)


def test_an_answer_to_a_question_of_before_a_seek_concludes_nothing() -> None:
    """It comes when the records are in the same transaction once more, which commits later."""

    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        ask = world.around.coordinators.open
        asked, sought, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slowly(request: co.OpenChannelPartitionRequest) -> co.OpenChannelPartitionReply:
            is_first = not asked.is_set()
            asked.set()
            await sought.wait()
            reply = await ask(request)
            if is_first:
                await go_on.wait()
            return reply

        world.around.coordinators.open = slowly  # type: ignore[method-assign]
        await world.settle("w1", said(0, 1), transaction=NAMED)
        await asked.wait()
        await _seek(world)
        sought.set()
        await asyncio.sleep(0.1)
        assert await world.values("w1", max_wait_ms=100) == [b"0", b"1"]
        await world.settle("w1", said(0, 1), transaction=NAMED)
        go_on.set()
        assert await world.values("w2", max_wait_ms=3_000) == []
        world.coordinator.end(KEY, committed=True)
        assert await world.values("w2", max_wait_ms=3_000) == []

    play(scenario)


def test_an_acknowledgement_after_a_seek_waits_until_the_seek_is_written() -> None:
    """The seek waits behind another write, and its records have been worked on before that ends."""

    async def scenario(world: ChannelWorld) -> None:
        await _working(world)
        write = world.around.coordinators.write

        async def slowly(request: co.WriteChannelStateRequest) -> None:
            await asyncio.sleep(0.2)
            await write(request)

        world.around.coordinators.write = slowly  # type: ignore[method-assign]
        settling = asyncio.create_task(world.settle("w1", said(1)))
        await asyncio.sleep(0.01)
        seeking = asyncio.create_task(_seek(world))
        await asyncio.sleep(0.01)
        assert await world.values("w2", max_wait_ms=100) == [b"0", b"1"]
        await world.settle("w2", said(0, 1), transaction=NAMED)
        await asyncio.gather(settling, seeking)
        world.coordinator.end(KEY, committed=True)
        assert await world.values("w2", max_wait_ms=3_000) == []

    play(scenario)


async def _seek(world: ChannelWorld) -> None:
    """To the beginning."""
    world.led.delivery.seek(0)
    world.led.changed()
    assert world.led.writer is not None
    await world.led.writer.wait(1_000)
