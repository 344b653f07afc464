"""The options of `Client.process`: what is set, what is refused, and how the transactions are named."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog.client.process.entry import Job, processor
from oncelog.client.process.processor import Processor
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


async def nothing(records: Any) -> Any:
    return []


def made(
    client: Client, reading: Any = None, writing: Any = None, topics: Any = TOPIC, group_id: str = "g", to: str = "out"
) -> Processor:
    job = Job(nothing, topics, to, group_id, None, reading, writing)
    return processor(client._context, client.consumer, client.producer, job)


def in_client(work: Any) -> None:
    cluster = FakeCluster()

    async def whole(_: FakeCluster) -> None:
        async with cluster.client() as client:
            work(client)

    cluster.run(whole)


def test_it_reads_from_the_beginning_what_is_committed_and_keeps_no_transaction_open_for_long() -> None:
    @in_client
    def _(client: Client) -> None:
        one = made(client)
        reading, writing = one._consumer.config, one._new_producer().config
        assert (reading.auto_offset_reset, reading.isolation_level, reading.group_id) == (
            "earliest", "read_committed", "g",
        )  # fmt: skip
        assert writing.transaction_timeout_ms == 10_000


def test_options_of_the_caller_win() -> None:
    @in_client
    def _(client: Client) -> None:
        one = made(client, {"auto.offset.reset": "latest"}, {"transaction_timeout_ms": 20_000, "linger_ms": 5})
        assert one._consumer.config.auto_offset_reset == "latest"
        writing = one._new_producer().config
        assert (writing.transaction_timeout_ms, writing.linger_ms) == (20_000, 5)


@pytest.mark.parametrize(
    ("reading", "writing", "named"),
    [
        ({"enable_auto_commit": True}, None, "enable_auto_commit"),
        ({"delivery": "at_most_once"}, None, "delivery"),
        ({"skip_lost_transactions": True}, None, "skip_lost_transactions"),
        ({"enable.auto.commit": False}, None, "enable_auto_commit"),
        ({"isolation_level": "read_uncommitted"}, None, "isolation_level"),
        ({"group_id": "other"}, None, "group_id"),
        (None, {"transactional_id": "billing-7"}, "transactional_id"),
        (None, {"enable_idempotence": False}, "enable_idempotence"),
        (None, {"acks": 1}, "acks"),
        (None, {"linger_mss": 1}, "linger_ms"),
    ],
)
def test_options_that_would_break_the_promise_are_refused_by_name(reading: Any, writing: Any, named: str) -> None:
    @in_client
    def _(client: Client) -> None:
        with pytest.raises(errors.ConfigError, match=named):
            made(client, reading, writing)
        assert not client._made, "nothing was made"


def test_without_a_group_or_a_topic_it_does_not_begin() -> None:
    @in_client
    def _(client: Client) -> None:
        with pytest.raises(errors.InvalidGroupIdError):
            made(client, group_id="")
        with pytest.raises(errors.ConfigError, match="name them"):
            made(client, topics=[])
        with pytest.raises(errors.ConfigError, match="name them"):
            made(client, to="")


def test_names_begin_with_the_group_and_are_new_but_for_a_static_member() -> None:
    @in_client
    def _(client: Client) -> None:
        first, second = (made(client)._new_producer().config.transactional_id for _ in range(2))
        assert first is not None
        assert first.startswith("g-process-")
        assert first != second
        static = [made(client, {"group_instance_id": "i"})._new_producer().config.transactional_id for _ in range(2)]
        assert static == ["g-process-i", "g-process-i"]
