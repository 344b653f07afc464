"""Positions that are committed by reads: when, which, and what happens to a failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from oncelog import errors
from oncelog.client.client import Client
from tests.unit.sdk.client.consume.group.test_group_reading import all_of, in_group
from tests.unit.sdk.client.consume.grouped import group_of
from tests.unit.sdk.client.consume.scripted_group import ScriptedGroup
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, append

ON = {**EARLIEST, "group_id": "g", "enable_auto_commit": True, "auto_commit_interval_ms": 1_000}


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(partitions=1)
    append(made, [b"0", b"1", b"2"])
    return made


def test_a_read_commits_what_earlier_reads_returned_and_not_what_it_returns_itself(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            await consumer.getmany(max_records=2)
            await asyncio.sleep(2)
            assert cluster.offsets == {}, "nobody has read since"
            await consumer.getmany(max_records=1)
            await cluster.pause()
            assert cluster.offsets == {(TOPIC_ID, 0): 2}

    cluster.run(work)


def test_commits_are_an_interval_apart_and_only_of_what_has_moved(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            for _ in range(10):
                await consumer.getmany(timeout_ms=300)
            assert cluster.count("CommitOffsets") == 1
            append(cluster, [b"3"])
            await consumer.getmany(timeout_ms=300)
        assert cluster.count("CommitOffsets") == 2, "closing commits"
        assert cluster.offsets == {(TOPIC_ID, 0): 4}

    cluster.run(work)


def test_a_failed_commit_is_logged_and_the_next_one_says_more(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(_: FakeCluster) -> None:
        cluster.fail("CommitOffsets", errors.GroupAuthorizationError("no READ on the group"))
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            for _ in range(10):
                await consumer.getmany(timeout_ms=300)
        assert cluster.offsets == {(TOPIC_ID, 0): 3}

    with caplog.at_level(logging.WARNING):
        cluster.run(work)
    assert "auto-commit failed: no READ on the group" in caplog.text


def test_what_is_revoked_is_committed_before_it_is_let_go(cluster: FakeCluster) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(**{**ON, "auto_commit_interval_ms": 10**6}) as consumer:
            seen: list[dict[tuple[str, int], int]] = []
            consumer.subscribe(TOPIC, on_revoked=lambda given: seen.append(dict(cluster.offsets)))
            await all_of(consumer)
            await group.assign()
            await consumer.getmany(timeout_ms=500)
            assert seen == [{(TOPIC_ID, 0): 3}]


def test_without_the_option_nothing_is_committed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        options = {**ON, "enable_auto_commit": False}
        async with cluster.client() as client, group_of(client, **options) as consumer:
            for _ in range(10):
                await consumer.getmany(timeout_ms=300)
        assert cluster.offsets == {}

    cluster.run(work)


def test_it_needs_a_group(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with pytest.raises(errors.ConfigError, match="give a group_id"):
                client.consumer(TOPIC, enable_auto_commit=True)

    cluster.run(work)


AT_LEAST_ONCE = {**EARLIEST, "group_id": "g", "delivery": "at_least_once"}


def test_at_least_once_the_end_leaves_out_what_the_last_read_returned(cluster: FakeCluster) -> None:
    """Regression: an error in the caller's block committed the records on which it had failed."""

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            with contextlib.suppress(ZeroDivisionError):
                async with group_of(client, **AT_LEAST_ONCE) as consumer:
                    await consumer.getmany(max_records=2)
                    await consumer.getmany(max_records=1)
                    _ = 1 / 0
            assert cluster.offsets == {(TOPIC_ID, 0): 2}
            async with group_of(client, **AT_LEAST_ONCE) as consumer:
                assert (await anext(consumer)).value == b"2"
                await consumer.commit()
            assert cluster.offsets == {(TOPIC_ID, 0): 3}, "the caller says that it is processed"

    cluster.run(work)


def test_at_least_once_what_was_sought_back_to_is_committed(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **AT_LEAST_ONCE) as consumer:
            await consumer.getmany(max_records=2)
            await consumer.getmany(max_records=1)
            consumer.seek((TOPIC, 0), 1)
        assert cluster.offsets == {(TOPIC_ID, 0): 1}

    cluster.run(work)


def test_at_least_once_leaving_the_group_leaves_the_last_read_out_and_a_revocation_does_not(
    cluster: FakeCluster,
) -> None:
    @in_group(cluster, 0)
    async def _(group: ScriptedGroup, client: Client) -> None:
        async with client.consumer(**AT_LEAST_ONCE) as consumer:
            consumer.subscribe(TOPIC)
            await consumer.getmany(max_records=1)
            await consumer.getmany(max_records=1)
            await consumer.unsubscribe()
            assert cluster.offsets == {(TOPIC_ID, 0): 1}
            consumer.subscribe(TOPIC)
            await consumer.getmany(max_records=1)
            await group.assign()
            while consumer.assignment():
                await consumer.getmany(timeout_ms=100)
            assert cluster.offsets == {(TOPIC_ID, 0): 3}


def test_what_the_caller_moved_back_is_committed_again(cluster: FakeCluster) -> None:
    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, group_of(client, **ON) as consumer:
            for _ in range(10):
                await consumer.getmany(timeout_ms=300)
            assert cluster.offsets == {(TOPIC_ID, 0): 3}
            consumer.seek((TOPIC, 0), 1)
            await consumer.commit()
            assert cluster.offsets == {(TOPIC_ID, 0): 1}
            await all_of(consumer)
        assert cluster.offsets == {(TOPIC_ID, 0): 3}

    cluster.run(work)
