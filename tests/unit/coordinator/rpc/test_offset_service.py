"""Offsets are taken by the shard of their group; those of a transaction only after its own shard has enrolled the group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import Buffer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_coordinator.core.limits import Limits
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from tests.unit.coordinator.fake_cluster import USER_TOPIC_ID
from tests.unit.coordinator.serving import COORDINATOR, HERE, Serving, serve

COMMITTED = types_pb2.TRANSACTION_OUTCOME_COMMITTED
GROUP = co.GroupMember(group_id="g")


def entry(offset: int, partition: int = 0, metadata: str = "") -> co.OffsetEntry:
    return co.OffsetEntry(
        topic_id=USER_TOPIC_ID, topic="user", partition=partition, offset=offset, leader_epoch=-1, metadata=metadata
    )


def call(nonce: str = "", term: int = 1) -> types_pb2.CallIdentity:
    return types_pb2.CallIdentity(nonce=nonce, term=term)


async def committed(here: Serving, *, stable: bool = False) -> dict[int, int]:
    reply = await here.offsets.fetch_offsets(co.FetchOffsetsRequest(group_id="g", require_stable=stable))
    return {item.partition: item.offset for item in reply.offsets}


def shard_of_g(here: Serving) -> int:
    return here.shards.group_shard("g").number


# ---------------------------------------------------------------- plain commits


def test_what_was_committed_is_fetched() -> None:
    async def scenario(here: Serving) -> None:
        request = co.CommitOffsetsRequest(member=GROUP, offsets=[entry(5), entry(7, 1, "note")])
        assert not (await here.offsets.commit_offsets(request)).errors
        assert await committed(here) == {0: 5, 1: 7}
        wanted = [types_pb2.TopicPartition(topic_id=USER_TOPIC_ID, partition=1)]
        reply = await here.offsets.fetch_offsets(co.FetchOffsetsRequest(group_id="g", partitions=wanted))
        assert list(reply.offsets) == [entry(7, 1, "note")]

    serve(scenario)


def test_one_bad_offset_is_named_and_the_others_are_committed() -> None:
    async def scenario(here: Serving) -> None:
        request = co.CommitOffsetsRequest(member=GROUP, offsets=[entry(5), entry(7, 1, "x" * 5_000)])
        (failed,) = (await here.offsets.commit_offsets(request)).errors
        assert (failed.partition.partition, failed.partition.topic) == (1, "user")
        assert failed.error.code
        assert await committed(here) == {0: 5}

    serve(scenario)


def test_a_named_commit_is_executed_once_and_is_all_or_nothing() -> None:
    async def scenario(here: Serving) -> None:
        request = co.CommitOffsetsRequest(member=GROUP, offsets=[entry(5)], call=call("a"))
        await here.offsets.commit_offsets(request)
        later = co.CommitOffsetsRequest(member=GROUP, offsets=[entry(9)], call=call("b"))
        await here.offsets.commit_offsets(later)
        await here.offsets.commit_offsets(request)
        assert await committed(here) == {0: 9}, "a copy of the first one changes nothing"
        bad = co.CommitOffsetsRequest(member=GROUP, offsets=[entry(10), entry(7, 1, "x" * 5_000)], call=call("c"))
        with pytest.raises(errors.OncelogError):
            await here.offsets.commit_offsets(bad)
        assert await committed(here) == {0: 9}

    serve(scenario)


def test_a_named_call_of_another_epoch_is_refused() -> None:
    async def scenario(here: Serving) -> None:
        request = co.CommitOffsetsRequest(member=GROUP, offsets=[entry(5)], call=call("a", term=2))
        with pytest.raises(errors.NotCoordinatorError, match="another epoch"):
            await here.offsets.commit_offsets(request)

    serve(scenario)


def test_a_group_of_another_process_is_there() -> None:
    async def scenario(here: Serving) -> None:
        await here.lose(KIND_GROUP, shard_of_g(here), to_another=True)
        for asked in (
            here.offsets.commit_offsets(co.CommitOffsetsRequest(member=GROUP, offsets=[entry(5)])),
            here.offsets.fetch_offsets(co.FetchOffsetsRequest(group_id="g")),
            here.offsets.describe_group(co.DescribeGroupRequest(group_id="g")),
            here.offsets.delete_offsets(co.DeleteOffsetsRequest(group_id="g", all=True)),
        ):
            with pytest.raises(errors.NotCoordinatorError) as refusal:
                await asked
            assert refusal.value.go_to == COORDINATOR

    serve(scenario)


# ---------------------------------------------------------------- offsets of a transaction


class Enrolments:
    """The coordinator of the transaction's shard, which may be another process."""

    def __init__(self, here: Serving, epoch: int = 9) -> None:
        self.seen: list[Any] = []
        self.epoch = epoch
        self.fail: list[errors.OncelogError] = []
        here.transport.serve(COORDINATOR, methods.ENROL_PARTITIONS, self.enrol)

    async def enrol(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        self.seen.append(request)
        if self.fail:
            raise self.fail.pop(0)
        return co.EnrolPartitionsReply(coordinator_epoch=self.epoch), b""


def send(name: co.TransactionName, *offsets: co.OffsetEntry, sequence: int = 1) -> co.SendOffsetsRequest:
    return co.SendOffsetsRequest(name=name, member=GROUP, commit_sequence=sequence, offsets=offsets)


def marker(name: co.TransactionName, epoch: int = 9) -> co.WriteGroupMarkersRequest:
    return co.WriteGroupMarkersRequest(
        txn_shard=name.txn_shard,
        coordinator_epoch=epoch,
        group_id="g",
        txn_producer_id=name.txn_producer_id,
        txn_no=name.txn_no,
        outcome=COMMITTED,
    )


async def elsewhere(here: Serving) -> co.TransactionName:
    """A transaction whose shard another process owns by now, in epoch 9."""
    name = await here.begin("t")
    await here.lose(KIND_TXN, name.txn_shard, to_another=True)
    return name


@pytest.mark.case("hole 14")
def test_the_group_is_enrolled_once_before_its_offsets_are_taken() -> None:
    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        other = Enrolments(here)
        for sequence, offset in ((1, 5), (2, 6)):
            await here.offsets.send_offsets(send(name, entry(offset), sequence=sequence))
        assert [(list(item.groups), item.name.txn_no) for item in other.seen] == [(["g"], name.txn_no)]
        assert await committed(here) == {}
        await here.offsets.write_group_markers(marker(name))
        assert await committed(here) == {0: 6}

    serve(scenario)


@pytest.mark.parametrize("failure", ["refused", "older owner", "nobody"])
@pytest.mark.case("hole 14")
def test_offsets_are_not_taken_when_the_group_is_not_enrolled(failure: str) -> None:
    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        if failure != "nobody":
            other = Enrolments(here, epoch=8 if failure == "older owner" else 9)
            other.fail = [errors.TxnEndedError()] if failure == "refused" else []
        with pytest.raises(errors.OncelogError):
            await here.offsets.send_offsets(send(name, entry(5)))
        group = await here.offsets.describe_group(co.DescribeGroupRequest(group_id="g"))
        assert not group.pending

    serve(scenario)


@pytest.mark.case("hole 12")
def test_an_enrolment_that_was_answered_late_brings_no_offsets_into_an_ended_transaction() -> None:
    """While the answer was under way the transaction ended, and the group forgot that it had."""

    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        shard = here.owned[KIND_GROUP, shard_of_g(here)]
        other = co.TransactionName(txn_shard=name.txn_shard, txn_producer_id=name.txn_producer_id + 1, txn_no=1)

        async def enrol(_request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            await here.offsets.write_group_markers(marker(name))
            await here.offsets.write_group_markers(marker(other))
            await asyncio.sleep(Limits().ended_retention_ms / 1000 + 1)
            shard.look_at_clock()
            await asyncio.sleep(1)
            return co.EnrolPartitionsReply(coordinator_epoch=9), b""

        here.transport.serve(COORDINATOR, methods.ENROL_PARTITIONS, enrol)
        with pytest.raises(errors.CoordinatorNotAvailableError, match="forgotten"):
            await here.offsets.send_offsets(send(name, entry(5)))
        assert not (await here.offsets.describe_group(co.DescribeGroupRequest(group_id="g"))).pending

    serve(scenario)


def test_an_enrolment_counts_for_the_life_that_asked_for_it() -> None:
    """Another life of the shard may have forgotten what came in between, and counts from the beginning."""

    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        number = shard_of_g(here)

        async def enrol(_request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
            await here.lose(KIND_GROUP, number)
            await here.own(KIND_GROUP, number, epoch=2)
            return co.EnrolPartitionsReply(coordinator_epoch=9), b""

        here.transport.serve(COORDINATOR, methods.ENROL_PARTITIONS, enrol)
        with pytest.raises(errors.NotCoordinatorError):
            await here.offsets.send_offsets(send(name, entry(5)))
        assert not (await here.offsets.describe_group(co.DescribeGroupRequest(group_id="g"))).pending

    serve(scenario)


@pytest.mark.case("hole 6")
def test_a_marker_of_an_older_coordinator_is_refused() -> None:
    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        Enrolments(here)
        await here.offsets.send_offsets(send(name, entry(5)))
        await here.offsets.write_group_markers(marker(name))
        with pytest.raises(errors.OncelogError):
            await here.offsets.write_group_markers(marker(name, epoch=8))

    serve(scenario)


def test_offsets_of_a_transaction_need_a_name_an_offset_and_the_sessions_token() -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        with pytest.raises(errors.InvalidRequestError, match="no offsets"):
            await here.offsets.send_offsets(send(name))
        name.session_token = b""
        with pytest.raises(errors.TransactionalIdAuthorizationError):
            await here.offsets.send_offsets(send(name, entry(5)))
        name.transactional_id = ""
        with pytest.raises(errors.OncelogError):
            await here.offsets.send_offsets(send(name, entry(5)))

    serve(scenario, tokens=True)


# ---------------------------------------------------------------- operators


def test_operators_see_what_is_committed_and_what_waits() -> None:
    async def scenario(here: Serving) -> None:
        name = await elsewhere(here)
        Enrolments(here)
        await here.offsets.commit_offsets(co.CommitOffsetsRequest(member=GROUP, offsets=[entry(5)]))
        await here.offsets.send_offsets(send(name, entry(7, 1)))
        described = await here.offsets.describe_group(co.DescribeGroupRequest(group_id="g"))
        assert (described.group.coordinator, described.group.group_shard) == (HERE, shard_of_g(here))
        assert [item.offset for item in described.offsets] == [entry(5)]
        assert [list(item.offsets) for item in described.pending] == [[entry(7, 1)]]
        listed = await here.offsets.list_groups(co.ListGroupsRequest())
        assert [(item.group_id, item.offsets, item.open_transactions) for item in listed.groups] == [("g", 1, 1)]
        assert [item.shard for item in listed.answered] == [0, 1, 2]

    serve(scenario)


def test_a_group_that_nobody_used_is_empty() -> None:
    async def scenario(here: Serving) -> None:
        reply = await here.offsets.describe_group(co.DescribeGroupRequest(group_id="new"))
        assert (reply.group.group_id, len(reply.offsets), len(reply.pending)) == ("new", 0, 0)

    serve(scenario)


def test_named_offsets_or_all_of_them_are_deleted_once() -> None:
    async def scenario(here: Serving) -> None:
        await here.offsets.commit_offsets(co.CommitOffsetsRequest(member=GROUP, offsets=[entry(5), entry(7, 1)]))
        first = [types_pb2.TopicPartition(topic_id=USER_TOPIC_ID, partition=0)]
        request = co.DeleteOffsetsRequest(group_id="g", partitions=first, call=call("a"))
        assert [(await here.offsets.delete_offsets(request)).deleted for _ in range(2)] == [1, 1], (
            "the copy hears it too"
        )
        assert await committed(here) == {1: 7}
        everything = co.DeleteOffsetsRequest(group_id="g", all=True)
        assert [(await here.offsets.delete_offsets(everything)).deleted for _ in range(2)] == [1, 0]
        for unclear in (co.DeleteOffsetsRequest(group_id="g"), co.DeleteOffsetsRequest(all=True, partitions=first)):
            with pytest.raises(errors.InvalidRequestError, match="name partitions, or all"):
                await here.offsets.delete_offsets(unclear)

    serve(scenario)
