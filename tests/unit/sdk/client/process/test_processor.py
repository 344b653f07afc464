"""The loop behind `Client.process`: each input is in the output once, whatever fails, and an error of the work ends it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.consume.fetched_records import ConsumerRecord, Records
from oncelog.client.produce.transactions.transaction import Transaction
from oncelog.client.produce.writer import Message
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster, Lost
from tests.unit.sdk.client.process.processing import OUTPUT, READING, Transactions, process_until, processing, scene
from tests.unit.sdk.client.reading import append

ALL = [b"%d" % number for number in range(6)]
PLACE = (TOPIC_ID, 0)
HOW = pytest.mark.parametrize("how", ["process", "process_batches"])


def copied(record: ConsumerRecord) -> Message:
    return Message(record.value, record.key, partition=OUTPUT)


@HOW
def test_outputs_and_offsets_are_committed_together_in_the_name_of_the_member(how: str) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        done = await process_until(
            cluster, client, lambda: cluster.offsets.get(PLACE) == 6, copied, how, reading={"max_poll_records": 4}
        )
        assert txns.committed() == ALL
        assert (done.records, done.outputs, done.transactions, done.failures) == (6, 6, 2, 0)
        assert set(txns.members) == {(group.member_id, group.epoch)}
        assert [id_ for id_, _ in group.leaves()] == [group.member_id], "it leaves the group in the end"

    scene(work)


@HOW
def test_a_fenced_member_commits_nothing_and_its_next_life_does_the_work(how: str) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        calls: list[bytes] = []

        async def fn(record: ConsumerRecord) -> Message:
            calls.append(record.value)
            if len(calls) == 3:
                await group.fence()
            return copied(record)

        done = await process_until(cluster, client, lambda: cluster.offsets.get(PLACE) == 6, fn, how)
        assert txns.committed() == ALL
        assert len(calls) == 12, "the batch was worked on again"
        assert done.failures == 1
        assert [member in group.spent for member, _ in txns.members] == [True, True], "the second has left by now"
        assert len({*txns.members}) == 2

    scene(work)


@HOW
def test_a_commit_whose_answer_is_lost_is_not_repeated(how: str) -> None:
    """The outcome is unknown until the deadline; the committed offset says what it was."""

    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        cluster.fail("EndTransaction", *[Lost()] * 60)
        calls: list[bytes] = []

        def fn(record: ConsumerRecord) -> Message:
            calls.append(record.value)
            return copied(record)

        await process_until(cluster, client, lambda: cluster.count("InitProducerId") > 1, fn, how)
        assert cluster.offsets[PLACE] == 6
        assert txns.committed() == ALL
        assert calls == ALL, "nothing is worked on twice"

    scene(work)


@pytest.mark.parametrize("method", ["SendOffsets", "EndTransaction", "InitProducerId"])
@HOW
def test_a_refusal_that_passes_is_tried_again(how: str, method: str) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        cluster.fail(method, errors.InvalidProducerEpochError("not now"), errors.InvalidProducerEpochError("nor now"))
        await process_until(cluster, client, lambda: cluster.offsets.get(PLACE) == 6, copied, how)
        assert txns.committed() == ALL
        assert len({*txns.members}) == 1, "the same membership goes back and reads again"

    scene(work)


def test_every_producer_of_a_process_has_the_same_transactional_id() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        cluster.fail("SendOffsets", errors.StaleMemberEpochError())
        await process_until(cluster, client, lambda: cluster.offsets.get(PLACE) == 6, copied)
        names = [request.transactional_id for request in cluster.requests("InitProducerId")]
        assert len(names) == 2
        assert len({*names}) == 1
        assert names[0].startswith("g-process-")

    scene(work)


def test_a_static_member_keeps_its_name_and_gives_way_to_its_next_life() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        cluster.fail("SendOffsets", errors.ProducerFencedError("a newer session"))
        with pytest.raises(ExceptionGroup) as raised:
            await process_until(cluster, client, lambda: False, copied, reading={"group_instance_id": "billing-0"})
        assert raised.group_contains(errors.ProducerFencedError)
        assert [r.transactional_id for r in cluster.requests("InitProducerId")] == ["g-process-billing-0"]
        assert txns.committed() == []

    scene(work)


def test_an_error_of_the_work_names_the_record_and_nothing_of_its_batch_is_committed() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        def fn(record: ConsumerRecord) -> Message:
            if record.value == b"4":
                raise ValueError("no such customer")
            return copied(record)

        with pytest.raises(errors.ProcessingError, match="ValueError: no such customer") as raised:
            await client.process(TOPIC, TOPIC, fn, group_id="g", reading=READING)
        assert raised.value.context == {"offset": "4", "partition": "0", "topic": TOPIC}
        assert isinstance(raised.value.__cause__, ValueError)
        assert PLACE not in cluster.offsets
        assert txns.committed() == []
        assert group.leaves()

    scene(work)


def test_a_function_of_batches_gets_all_records_of_a_read_and_may_return_fewer_or_more() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        sizes: list[int] = []

        def total(records: Records) -> list[Message]:
            sizes.append(len(records))
            values = [int(record.value) for record in records]
            records.clear()  # it is a copy: the offsets of the batch are committed all the same
            return [Message(b"%d" % sum(values), b"sum", partition=OUTPUT)]

        stop = asyncio.Event()

        def until_all(records: Records) -> list[Message]:
            if records[-1].offset == 5:
                stop.set()
            return total(records)

        reading: Any = {**READING, "max_poll_records": 4}
        done = await client.process_batches(TOPIC, TOPIC, until_all, group_id="g", stop=stop, reading=reading)
        assert (sizes, txns.committed()) == ([4, 2], [b"6", b"9"])
        assert (done.records, done.outputs, cluster.offsets[PLACE]) == (6, 2, 6)

    scene(work)


def test_an_error_of_a_function_of_batches_names_where_the_batch_begins_and_nothing_of_it_is_committed() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        def fn(records: Records) -> list[Message]:
            if records[0].offset == 4:
                raise ValueError("no such customer")
            return [copied(record) for record in records]

        reading: Any = {**READING, "max_poll_records": 4}
        with pytest.raises(
            errors.ProcessingError, match="batch of 2 records failed with ValueError: no such"
        ) as raised:
            await client.process_batches(TOPIC, TOPIC, fn, group_id="g", reading=reading)
        assert raised.value.context == {"offset": "4", "partition": "0", "topic": TOPIC, "records": "2"}
        assert (cluster.offsets[PLACE], txns.committed()) == (4, ALL[:4])
        assert group.leaves()

    scene(work)


def test_on_error_says_what_is_written_instead() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        def fn(record: ConsumerRecord) -> Message:
            if record.value in (b"1", b"4"):
                raise ValueError(record.value)
            return copied(record)

        def on_error(record: ConsumerRecord, error: Exception) -> Message | None:
            return Message(b"bad", partition=OUTPUT) if record.value == b"1" else None

        await process_until(cluster, client, lambda: cluster.offsets.get(PLACE) == 6, fn, on_error=on_error)
        assert txns.committed() == [b"0", b"bad", b"2", b"3", b"5"]

    scene(work)


def test_an_output_that_cannot_be_sent_names_its_record() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        with pytest.raises(errors.ProcessingError, match="InvalidRecordError") as raised:
            await client.process(TOPIC, TOPIC, lambda record: 42, group_id="g", reading=READING)
        assert raised.value.context["offset"] == "0"
        assert PLACE not in cluster.offsets

    scene(work)


def test_a_topic_that_is_not_there_is_the_callers_mistake() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        with pytest.raises(errors.UnknownTopicError):
            await client.process(TOPIC, "nowhere", lambda record: b"x", group_id="g", reading=READING)
        assert PLACE not in cluster.offsets

    scene(work)


@HOW
def test_a_cancellation_aborts_and_leaves_the_group(how: str) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        begun = asyncio.Event()

        async def fn(record: ConsumerRecord) -> Any:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(processing(client, how, fn, reading=READING))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert PLACE not in cluster.offsets
        assert group.leaves()

    scene(work)


@HOW
def test_partitions_change_hands_between_batches_when_nothing_is_open(how: str) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        seen: list[tuple[int, int]] = []

        async def fn(record: ConsumerRecord) -> Message:
            if not seen:
                await group.assign()  # it is told of this while it works
                await asyncio.sleep(1)
            seen.append((record.offset, group.applied))
            return copied(record)

        await process_until(cluster, client, lambda: cluster.offsets.get(PLACE) == 6 and group.applied == 2, fn, how)
        assert {applied for _, applied in seen} == {1}, "the partition is let go after the commit"
        assert txns.committed() == ALL

    scene(work)


@HOW
def test_more_inputs_come_while_it_runs(how: str) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async def fn(record: ConsumerRecord) -> Message:
            if record.offset == 5:
                append(cluster, [b"6"])
            return copied(record)

        await process_until(cluster, client, lambda: cluster.offsets.get(PLACE) == 7, fn, how)
        assert txns.committed() == [*ALL, b"6"]

    scene(work)


async def _committed(txn: Transaction[Any, Any], records: Records) -> None:
    async with txn:
        await txn.send(TOPIC, b"zombie", partition=OUTPUT)
        await txn.send_offsets(records)


def test_by_hand_offsets_are_committed_in_the_name_of_the_membership_of_the_poll() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        options = {"group_id": "g", "auto_offset_reset": "earliest", **READING}
        async with client.consumer(**options) as consumer, client.producer(transactional_id="t") as producer:
            consumer.subscribe(TOPIC)
            records = await consumer.getmany()
            told = (group.member_id, group.epoch)
            await group.fence()
            while consumer._group.membership.member_id == told[0]:  # type: ignore[union-attr]
                await cluster.pause()
            txn = producer.transaction()
            with pytest.raises(errors.UnknownMemberError):
                await _committed(txn, records)
            assert txn.outcome == "aborted"
            assert txns.members == [told], "not in the name of the next life, which may own the partition"
            await consumer.rewind(records)
            again = await consumer.getmany()
            async with producer.transaction() as txn:
                await txn.send_offsets(again)
            assert [record.value for record in again] == ALL
        assert cluster.offsets[PLACE] == 6
        assert txns.committed() == []

    scene(work)
