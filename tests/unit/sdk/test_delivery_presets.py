"""Delivery presets: what they set, what they leave to the caller, and that a contradiction is refused by its name."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.config import ConsumerConfig, ProducerConfig, load
from oncelog.delivery_presets import OF_CONSUMERS, OF_PRODUCERS, PRESETS, completed
from oncelog.errors import ConfigError, IllegalStateError
from oncelog.sync.client import Client as SyncClient
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.reading import P0

NEEDED: dict[type[Any], dict[str, str]] = {ProducerConfig: {"transactional_id": "t"}, ConsumerConfig: {"group_id": "g"}}


def producer(delivery: str, **options: Any) -> ProducerConfig:
    return load(ProducerConfig, {"delivery": delivery, **options})


def consumer(delivery: str, **options: Any) -> ConsumerConfig:
    return load(ConsumerConfig, {"delivery": delivery, "group_id": "g", **options})


def test_a_preset_sets_a_producers_options() -> None:
    careless, careful = producer("at_most_once"), producer("at_least_once")
    exact = producer("exactly_once", transactional_id="t")
    assert (careless.acks_number, careless.enable_idempotence) == (0, False)
    assert (careful.acks_number, careful.enable_idempotence) == (-1, True)
    assert (exact.acks_number, exact.enable_idempotence) == (-1, True)


def test_a_preset_sets_a_consumers_options() -> None:
    assert consumer("at_most_once").enable_auto_commit
    assert consumer("at_least_once").enable_auto_commit
    exact = consumer("exactly_once")
    assert (exact.enable_auto_commit, exact.isolation_level) == (False, "read_committed")


def test_without_a_preset_everything_is_as_before() -> None:
    assert (load(ProducerConfig, {}), load(ConsumerConfig, {})) == (ProducerConfig(), ConsumerConfig())
    assert completed(OF_PRODUCERS, {"acks": 1}) == {"acks": 1}


def test_what_agrees_with_a_preset_may_be_said_in_any_spelling() -> None:
    assert producer("at_most_once", acks="0", **{"enable.idempotence": "false"}).acks_number == 0
    assert producer("at_least_once", acks=-1, enable_idempotence=False, retries=3).acks_number == -1
    assert consumer("exactly_once", isolation_level="read_committed", enable_auto_commit="false").group_id == "g"
    assert consumer("at_least_once", isolation_level="read_uncommitted").isolation_level == "read_uncommitted"


@pytest.mark.parametrize(
    ("delivery", "given", "says"),
    [
        ("at_most_once", {"acks": "all"}, "'at_most_once' means acks=0; leave acks out, or choose another delivery"),
        ("at_most_once", {"acks": 1}, "means acks=0"),
        ("at_most_once", {"enable_idempotence": True}, "means enable_idempotence=False; leave enable_idempotence out"),
        ("at_most_once", {"transactional_id": "t"}, "refuses transactional_id: .* take delivery='exactly_once'"),
        ("at_least_once", {"acks": 0}, "'at_least_once' means acks='all'"),
        ("at_least_once", {"acks": 1}, "'at_least_once' means acks='all'"),
        ("at_least_once", {"retries": 0}, "`retries` is 0, and must be at least 1"),
        ("at_least_once", {"transactional_id": "t"}, "refuses transactional_id"),
        ("exactly_once", {}, "needs a transactional_id: .* stays the same"),
        ("exactly_once", {"transactional_id": "t", "acks": 1}, "'exactly_once' means acks='all'"),
        ("exactly_once", {"transactional_id": "t", "enable_idempotence": False}, "means enable_idempotence=True"),
        ("at_least_twice", {}, "`delivery` is 'at_least_twice', and must be one of at_most_once, at_least_once"),
    ],
)
def test_a_producers_contradiction_is_refused(delivery: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        producer(delivery, **given)


@pytest.mark.parametrize(
    ("delivery", "given", "says"),
    [
        ("at_most_once", {"enable_auto_commit": False}, "'at_most_once' means enable_auto_commit=True"),
        ("at_most_once", {"group_id": None}, "'at_most_once' needs a group_id: .* give the consumer a group_id"),
        ("at_least_once", {"enable_auto_commit": False}, "'at_least_once' means enable_auto_commit=True"),
        ("at_least_once", {"group_id": None}, "'at_least_once' needs a group_id"),
        ("at_least_once", {"skip_lost_transactions": True}, "means skip_lost_transactions=False"),
        ("exactly_once", {"enable_auto_commit": True}, "'exactly_once' means enable_auto_commit=False"),
        ("exactly_once", {"isolation_level": "read_uncommitted"}, "means isolation_level='read_committed'"),
        ("exactly_once", {"skip_lost_transactions": True}, "means skip_lost_transactions=False"),
        ("exactly_once", {"group_id": None}, "'exactly_once' needs a group_id"),
        (7, {}, "`delivery` is 7, and must be one of at_most_once, at_least_once, exactly_once"),
    ],
)
def test_a_consumers_contradiction_is_refused(delivery: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        consumer(delivery, **given)


@pytest.mark.parametrize(("kind", "presets"), [(ProducerConfig, OF_PRODUCERS), (ConsumerConfig, OF_CONSUMERS)])
def test_every_preset_is_known_of_both_and_each_of_its_options_exists(kind: type[Any], presets: Any) -> None:
    assert tuple(presets) == PRESETS
    for name, preset in presets.items():
        assert {*preset.sets, *preset.needs, *preset.refuses} <= set(kind.__dataclass_fields__)
        needed = {option: NEEDED[kind][option] for option in preset.needs}
        assert load(kind, {"delivery": name, **needed}).delivery == name


def test_a_refused_preset_connects_to_nothing() -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        client = cluster.client()
        with pytest.raises(ConfigError, match="means acks=0"):
            client.producer(delivery="at_most_once", acks="all")
        with pytest.raises(ConfigError, match="needs a group_id"):
            client.consumer(TOPIC, delivery="at_least_once")
        with pytest.raises(ConfigError, match="leave delivery out"):
            await client.join_transaction(SharedBatch("t", "r", "a", 1), delivery="exactly_once")  # type: ignore[typeddict-item]
        await client.close()

    cluster.run(work)
    assert cluster.calls == []


def test_the_client_without_an_event_loop_has_them_too() -> None:
    with contextlib.closing(SyncClient("localhost:1")) as client:
        with pytest.raises(ConfigError, match="means acks='all'"):
            client.producer(delivery="at_least_once", acks=0)
        consumer = client.consumer(group_id="g", delivery="exactly_once")
        with pytest.raises(IllegalStateError, match=r"txn\.send_offsets"):
            consumer.commit()


def test_exactly_once_leaves_the_offsets_to_transactions() -> None:
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            consumer = client.consumer(TOPIC, group_id="g", delivery="exactly_once")
            for offsets in (None, {P0: 3}):
                with pytest.raises(IllegalStateError, match=r"await txn\.send_offsets\(records\)"):
                    await consumer.commit(offsets)

    cluster.run(work)
    assert cluster.count("CommitOffsets") == 0
