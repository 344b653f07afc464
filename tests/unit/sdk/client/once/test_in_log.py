"""The loop of `Client.once` passes over no record, and commits what a work sends with the record's offset or not at all.

Records with ids, killed and frozen workers: tests/simulation/test_once_in_log.py, on real coordinators.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.once.in_log import OnceInLog
from oncelog.client.once.log_work import LogWork
from oncelog.client.once.refusals import WorkFencedError
from oncelog.core.once.holding import fencing_of
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster, Lost
from tests.unit.sdk.client.process.processing import OUTPUT, READING, Transactions, scene

PLACE = (TOPIC_ID, 0)
ALL = [b"%d" % number for number in range(6)]


def once_of(client: Client, **options: Any) -> OnceInLog:
    return client.once(TOPIC, group_id="g", reading={**READING, **options.pop("reading", {})}, **options)


async def copied(work: LogWork) -> bytes:
    async with work:
        work.send(TOPIC, work.record.value, work.record.key, OUTPUT)
    return work.record.value


async def copy_all(once: OnceInLog) -> list[bytes]:
    """Copies up to the last record; returns what was handed out."""
    seen = []
    async for work in once.each():
        seen.append(await copied(work))
        if seen[-1] == ALL[-1]:
            break
    return seen


def test_each_record_is_committed_with_its_offset_in_the_name_of_the_member() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async with once_of(client) as once:
            assert await copy_all(once) == ALL
        assert txns.committed() == ALL
        assert cluster.offsets[PLACE] == 6
        assert set(txns.members) == {(group.member_id, group.epoch)}
        sent = [entry for request in cluster.requests("SendOffsets") for entry in request.offsets]
        assert [entry.offset for entry in sent] == [0, *range(1, 7)], "a claim, and six works"
        assert {entry.topic_id for entry in sent} == {TOPIC_ID}
        assert len({fencing_of(entry.metadata) for entry in sent} - {0}) == 1
        assert group.leaves()

    scene(work)


@pytest.mark.parametrize("is_new", [False, True])
def test_what_took_the_places_of_lost_records_is_worked_on(is_new: bool) -> None:
    """The group has done all six; the log lost those from offset 3 on, and has others there."""

    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async with contextlib.AsyncExitStack() as stack:
            once = await stack.enter_async_context(once_of(client))
            assert await copy_all(once) == ALL
            if is_new:
                await once.close()
            cluster.loses_from(3)
            if is_new:
                once = await stack.enter_async_context(once_of(client))
            assert await copy_all(once) == ALL[3:]
        assert cluster.offsets[PLACE] == 6
        assert cluster.offset_epochs[PLACE] == 1

    scene(work)


def test_a_record_whose_work_failed_comes_again_before_the_next() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        seen: list[bytes] = []
        async with once_of(client) as once:
            async for each in once.each():
                seen.append(each.record.value)
                try:
                    async with each:
                        each.send(TOPIC, each.record.value, partition=OUTPUT)
                        if seen.count(b"2") == 1 and seen[-1] == b"2":
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    continue
                if seen[-1] == ALL[-1]:
                    break
        assert seen == [*ALL[:3], *ALL[2:]]
        assert txns.committed() == ALL

    scene(work)


def test_a_work_that_was_not_entered_is_an_error_and_its_record_comes_in_the_next_loop() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async with once_of(client) as once:
            works = once.each()
            assert (await anext(works)).record.value == b"0"
            with pytest.raises(errors.IllegalStateError, match="enter each work"):
                await anext(works)
            async for each in once.each():
                assert each.record.value == b"0"
                break
            assert await copy_all(once) == ALL
        assert txns.committed() == ALL

    scene(work)


def test_a_work_that_the_loop_has_given_up_commits_nothing() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async with once_of(client) as once:
            async for each in once.each():
                left = each
                break
            assert await copy_all(once) == ALL
            with pytest.raises(errors.IllegalStateError, match="the loop has gone on"):
                await copied(left)
        assert txns.committed() == ALL
        assert cluster.offsets[PLACE] == 6

    scene(work)


def test_a_cancelled_claim_passes_over_nothing() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        cluster.fail("SendOffsets", lambda *_: task.cancel() and None)
        async with once_of(client) as once:
            task = asyncio.ensure_future(anext(once.each()))  # type: ignore[arg-type]
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await copy_all(once) == ALL
        assert txns.committed() == ALL

    scene(work)


def test_a_commit_whose_answer_is_lost_is_not_repeated() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async with once_of(client) as once:
            async for each in once.each():
                cluster.fail("EndTransaction", *[Lost()] * 60)
                with pytest.raises(errors.CommitOutcomeUnknownError):
                    await copied(each)
                assert not each.is_committed
                cluster.fail("EndTransaction")
                break
            assert await copy_all(once) == ALL[1:], "it was committed after all"
        assert txns.committed() == ALL

    scene(work)


@pytest.mark.parametrize(
    "error", [errors.UnknownMemberError, errors.FencedMemberEpochError, errors.StaleMemberEpochError]
)
def test_a_fenced_work_says_so_and_the_record_comes_again(error: type[errors.OncelogError]) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async with once_of(client) as once:
            async for each in once.each():
                cluster.fail("SendOffsets", error("another member has it"))
                with pytest.raises(WorkFencedError, match="nothing of this work was committed") as raised:
                    await copied(each)
                assert raised.value.context["offset"] == "0"
                break
            assert txns.committed() == []
            assert await copy_all(once) == ALL
        assert txns.committed() == ALL

    scene(work)


@pytest.mark.parametrize("method", ["SendOffsets", "EndTransaction", "InitProducerId", "FetchOffsets"])
def test_a_claim_that_is_refused_for_a_while_is_tried_again(method: str) -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        cluster.fail(method, errors.InvalidProducerEpochError("not now"), errors.InvalidProducerEpochError("nor now"))
        async with once_of(client) as once:
            assert await copy_all(once) == ALL
        assert txns.committed() == ALL

    scene(work)


def test_a_static_member_whose_name_is_another_process_gives_way() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        cluster.fail("SendOffsets", errors.ProducerFencedError("a newer session"))
        async with once_of(client, reading={"group_instance_id": "billing-0"}) as once:
            with pytest.raises(errors.ProducerFencedError):
                await copy_all(once)
        assert [r.transactional_id for r in cluster.requests("InitProducerId")] == ["g-once-billing-0"]

    scene(work)


def test_a_record_without_its_id_is_refused_by_name() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        async with once_of(client, id_header="event-id") as once:
            for _ in range(2):
                with pytest.raises(errors.ConfigError, match="no header event-id") as raised:
                    await copy_all(once)
                assert raised.value.context["offset"] == "0"
        assert PLACE not in cluster.offsets

    scene(work)


def test_a_close_ends_the_loop() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        once = once_of(client)
        async for each in once.each():
            await copied(each)
            if each.record.value == b"3":
                await once.close()
        assert txns.committed() == ALL[:4]
        await once.close()

    scene(work)


@pytest.mark.parametrize("method", ["InitProducerId", "FetchOffsets", "SendOffsets", "EndTransaction"])
def test_a_close_while_a_record_is_claimed_ends_the_loop(method: str) -> None:
    """Regression: it handed out one more work, which could not be committed."""

    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        reached = asyncio.Event()

        def is_late(name: str, after_s: float) -> None:
            answer = getattr(cluster, f"_{name}")

            async def late(*call: Any) -> Any:
                if name == method:
                    reached.set()
                await asyncio.sleep(after_s)
                return await answer(*call)

            setattr(cluster, f"_{name}", late)

        is_late("EndTransaction", 0.4)  # so does the abort that the close waits for
        if method != "EndTransaction":
            is_late(method, 0.1)
        once = once_of(client)
        loop = asyncio.ensure_future(copy_all(once))
        await reached.wait()
        await once.close()
        assert await loop == []
        assert cluster.count("InitProducerId") <= 1, "nothing begins anew"

    scene(work)


def test_a_work_that_is_open_at_the_close_commits_nothing() -> None:
    async def work(cluster: FakeCluster, client: Client, group: ScriptedGroup, txns: Transactions) -> None:
        once = once_of(client)
        async for each in once.each():
            with pytest.raises(errors.IllegalStateError, match="was closed"):
                async with each:
                    await once.close()
        assert txns.committed() == []
        assert cluster.count("InitProducerId") == 1

    scene(work)
