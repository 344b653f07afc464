"""Leaders read and write the state of channels at the owner of the shard; acknowledgements count with their transaction."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.core.names import channel_group_id
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from tests.unit.coordinator.channel_driver import CHANNEL, TOPIC
from tests.unit.coordinator.rpc.test_offset_service import Enrolments, elsewhere
from tests.unit.coordinator.serving import COORDINATOR, Serving, serve

GROUP = channel_group_id(CHANNEL)
NAMED: dict[str, Any] = {"channel_id": CHANNEL, "topic_id": TOPIC, "leader_epoch": 1}


def span(first: int, last: int) -> co.OffsetRange:
    return co.OffsetRange(first_offset=first, last_offset=last)


async def opened(here: Serving, **more: Any) -> co.OpenChannelPartitionReply:
    return await here.channels.open_channel_partition(co.OpenChannelPartitionRequest(**{**NAMED, **more}))


async def begun(here: Serving) -> None:
    """A leader has opened the channel, and written that it begins at 0."""
    assert not (await opened(here)).known
    await here.channels.write_channel_state(co.WriteChannelStateRequest(**NAMED, write_no=1))


def acks(name: co.TransactionName, *ranges: co.OffsetRange, **more: Any) -> co.SendChannelAcksRequest:
    return co.SendChannelAcksRequest(name=name, acknowledged=ranges, **{**NAMED, **more})


def marker(name: co.TransactionName, *, commit: bool = True) -> co.WriteGroupMarkersRequest:
    outcome = types_pb2.TRANSACTION_OUTCOME_COMMITTED if commit else types_pb2.TRANSACTION_OUTCOME_ABORTED
    return co.WriteGroupMarkersRequest(
        txn_shard=name.txn_shard,
        coordinator_epoch=9,
        group_id=GROUP,
        txn_producer_id=name.txn_producer_id,
        txn_no=name.txn_no,
        outcome=outcome,
    )


def test_what_was_written_is_told_to_the_next_leader_in_the_next_life_too() -> None:
    async def scenario(here: Serving) -> None:
        await begun(here)
        request = co.WriteChannelStateRequest(
            **NAMED,
            write_no=2,
            settled_before=4,
            settled=[span(6, 7)],
            retried=[co.RetriedRecord(offset=5, deliveries=2, not_before_ms=9)],
        )
        reply = await here.channels.write_channel_state(request)
        assert reply.coordinator_epoch == 1
        shard = here.shards.group_shard(GROUP).number
        await here.lose(KIND_GROUP, shard)
        await here.own(KIND_GROUP, shard, epoch=2)
        state = await opened(here, leader_epoch=2)
        assert (state.known, state.settled_before, state.write_no, state.coordinator_epoch) == (True, 4, 2, 2)
        (block,) = state.blocks
        assert (block.first_offset, block.settled) == (0, b"\xc0")
        assert list(block.retried) == [co.RetriedRecord(offset=5, deliveries=2, not_before_ms=9)]
        with pytest.raises(errors.FencedLeaderEpochError):
            await here.channels.write_channel_state(co.WriteChannelStateRequest(**NAMED, write_no=3))

    serve(scenario)


def test_a_channel_of_another_process_is_there() -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        await here.lose(KIND_GROUP, here.shards.group_shard(GROUP).number, to_another=True)
        for asked in (
            opened(here),
            here.channels.write_channel_state(co.WriteChannelStateRequest(**NAMED, write_no=1)),
            here.channels.send_channel_acks(acks(name, span(0, 0))),
        ):
            with pytest.raises(errors.NotCoordinatorError) as refusal:
                await asked
            assert refusal.value.go_to == COORDINATOR

    serve(scenario)


@pytest.mark.case("hole 14")
def test_the_group_is_enrolled_once_before_its_acknowledgements_are_taken() -> None:
    async def scenario(here: Serving) -> None:
        await begun(here)
        name = await elsewhere(here)
        other = Enrolments(here)
        for ranges in ((span(0, 1),), (span(3, 3),)):
            await here.channels.send_channel_acks(acks(name, *ranges))
        assert [(list(item.groups), item.name.txn_no) for item in other.seen] == [([GROUP], name.txn_no)]
        (pending,) = (await opened(here)).pending
        assert (pending.txn_no, list(pending.acknowledged)) == (name.txn_no, [span(0, 1), span(3, 3)])
        await here.offsets.write_group_markers(marker(name))
        state = await opened(here)
        assert (state.settled_before, [block.settled for block in state.blocks]) == (2, [b"\x08"])
        assert not state.pending
        with pytest.raises(errors.TxnEndedError):
            await here.channels.send_channel_acks(acks(name, span(5, 5)))

    serve(scenario)


def test_an_aborted_transaction_settles_nothing() -> None:
    async def scenario(here: Serving) -> None:
        await begun(here)
        name = await elsewhere(here)
        Enrolments(here)
        await here.channels.send_channel_acks(acks(name, span(0, 1)))
        await here.offsets.write_group_markers(marker(name, commit=False))
        state = await opened(here)
        assert (state.settled_before, list(state.blocks), list(state.pending)) == (0, [], [])

    serve(scenario)


@pytest.mark.case("hole 14")
def test_acknowledgements_are_not_taken_when_the_group_is_not_enrolled() -> None:
    async def scenario(here: Serving) -> None:
        await begun(here)
        name = await elsewhere(here)
        Enrolments(here).fail = [errors.TxnEndedError()]
        with pytest.raises(errors.TxnEndedError):
            await here.channels.send_channel_acks(acks(name, span(0, 1)))
        assert not (await opened(here)).pending

    serve(scenario)


def test_the_session_token_is_asked_for() -> None:
    async def scenario(here: Serving) -> None:
        await begun(here)
        name = await here.begin("t")
        name.session_token = b"x" * len(name.session_token)
        with pytest.raises(errors.TransactionalIdAuthorizationError):
            await here.channels.send_channel_acks(acks(name, span(0, 1)))

    serve(scenario, tokens=True)
