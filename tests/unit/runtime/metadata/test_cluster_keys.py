"""What stands in etcd: what is written is read, by this version, the one before and the next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog.types import BrokerRef
from oncelog_runtime.core.listeners import EXTERNAL, NAMES, Addresses
from oncelog_runtime.metadata.cluster_keys import (
    PRODUCER_IDS_START_MS,
    SHARD_WRITER_BASE,
    Broker,
    Cluster,
    Coordinator,
    DeletedTopic,
    Drain,
    Partition,
    Reassignment,
    SessionKey,
    ShardOwner,
    ShardTrouble,
    Topic,
    broker_key,
    decode_ref,
    decommission_key,
    deleted_topic_key,
    encode_ref,
    partition_key,
    producer_id_ceiling,
    producer_id_floor,
    reassignment_key,
    shard_epoch_key,
    shard_owner_key,
    shard_trouble_key,
    shard_writer_id,
    topic_key,
)

EVERYWHERE = Addresses("b0:9093", "b0:9092", "outside:30000")


BROKER = Broker("b0:9093", "b0:9092", "nonce", "rack-a", "outside:30000")


OWNER = ShardOwner("c0:9093", "nonce", 3, "c0:9092", "outside:30001")


def test_this_version_reads_what_it_writes() -> None:
    assert Broker.decode(BROKER.encode()) == BROKER
    assert BROKER.addresses == EVERYWHERE
    assert ShardOwner.decode(OWNER.encode()) == OWNER
    assert OWNER.addresses == Addresses("c0:9093", "c0:9092", "outside:30001")


def test_values_of_an_older_peer_mean_its_internal_address() -> None:
    old_broker = b'{"address":"b0:1","client_address":"b0:1","nonce":"n","rack":"","version":1}'
    assert Broker.decode(old_broker).addresses.on(EXTERNAL) == "b0:1"
    old_owner = b'{"address":"c0:1","epoch":4,"nonce":"n","version":1}'
    assert [ShardOwner.decode(old_owner).addresses.on(name) for name in NAMES] == ["c0:1"] * 3


def test_an_older_peer_finds_every_key_that_it_knows() -> None:
    known = json.loads(BROKER.encode())
    assert {name: known[name] for name in ("address", "client_address", "nonce", "rack")} == {
        "address": "b0:9093",
        "client_address": "b0:9092",
        "nonce": "nonce",
        "rack": "rack-a",
    }
    owner = json.loads(OWNER.encode())
    assert (owner["address"], owner["nonce"], owner["epoch"]) == ("c0:9093", "nonce", 3)
    assert json.loads(Coordinator("nonce", "c0:9092").encode())["nonce"] == "nonce"


def test_keys_of_a_newer_peer_are_ignored() -> None:
    newer = json.dumps({**json.loads(BROKER.encode()), "moon_address": "m:1"}).encode()
    assert Broker.decode(newer) == BROKER


MOVE = Reassignment((1, 2, 3), (4, 2, 3))


def test_what_is_written_is_read() -> None:
    drain = Drain("2", 7, 99)
    assert Drain.decode(drain.encode()) == drain
    assert drain.broker == BrokerRef(2, 7)
    assert Reassignment.decode(MOVE.encode()) == MOVE
    assert MOVE.adding == (4,)


def test_a_partition_of_the_version_before_is_read_and_has_the_same_fields() -> None:
    before = {
        "version": 1, "topic": "t", "replicas": [1, 2, 3], "leader": [1, 5], "leader_epoch": 4, "isr": [[1, 5], [2, 6]],
        "last_known_leader": None,
    }  # fmt: skip
    state = Partition.decode(json.dumps(before).encode())
    assert (state.replicas, state.leader_epoch) == ((1, 2, 3), 4)
    assert json.loads(state.encode()) == before, "whoever writes it back loses nothing"


NAMES_OF_KEYS = [
    (broker_key(7), "/oncelog/brokers/7"),
    (topic_key("shop.orders"), "/oncelog/topics/shop.orders"),
    (deleted_topic_key("f" * 32), f"/oncelog/deleted_topics/{'f' * 32}"),
    (partition_key("f" * 32, 3), f"/oncelog/partitions/{'f' * 32}/3"),
    (reassignment_key("f" * 32, 3), f"/oncelog/reassignments/{'f' * 32}/3"),
    (decommission_key(7), "/oncelog/decommissions/7"),
    (shard_epoch_key("txn", 4), "/oncelog/shards/txn/4/epoch"),
    (shard_owner_key("group", 4), "/oncelog/shards/group/4/owner"),
    (shard_trouble_key("txn", 4), "/oncelog/shard_troubles/txn/4"),
]


@pytest.mark.parametrize(("key", "name"), NAMES_OF_KEYS)
def test_a_key_is_where_every_version_looks_for_it(key: str, name: str) -> None:
    assert key == name


VALUES = [
    Cluster("c1", 3, 5),
    Topic("orders", "f" * 32, 3, 2, {"retention_ms": "5"}),
    DeletedTopic("orders", 99),
    Partition("orders", (1, 2), BrokerRef(1, 5), 4, (BrokerRef(1, 5),), BrokerRef(2, 6), (BrokerRef(2, 6),)),
    ShardTrouble("c0:9093", "the log cannot be read"),
    SessionKey(bytes(range(32))),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_survives_its_stored_form(value: Any) -> None:
    assert type(value).decode(value.encode()) == value
    stored = json.loads(value.encode())
    assert stored["version"] == 1
    assert list(stored) == sorted(stored)


@pytest.mark.parametrize("value", VALUES[:4], ids=lambda value: type(value).__name__)
def test_whoever_rewrites_a_value_of_a_newer_version_loses_nothing_of_it(value: Any) -> None:
    newer = {**json.loads(value.encode()), "version": 2, "colour": ["red"]}
    again = type(value).decode(json.dumps(newer).encode())
    assert again.unknown == {"version": 2, "colour": ["red"]}
    assert json.loads(again.encode()) == newer


def test_eligible_replicas_count_for_the_isr_that_they_were_written_with() -> None:
    """An older version changes the ISR and keeps what it does not know."""
    state = Partition("orders", (1, 2), BrokerRef(1, 5), 4, (BrokerRef(1, 5),), eligible=(BrokerRef(2, 6),))
    stored = json.loads(state.encode())
    changed = {**stored, "isr": [[1, 5], [2, 6]]}
    assert Partition.decode(json.dumps(stored).encode()).eligible == (BrokerRef(2, 6),)
    assert Partition.decode(json.dumps(changed).encode()).eligible == ()


@pytest.mark.parametrize(("size", "fine"), [(15, False), (16, True), (64, True), (65, False)])
def test_a_session_key_that_protects_nothing_is_refused(size: int, fine: bool) -> None:
    stored = SessionKey(bytes(size)).encode()
    if fine:
        assert SessionKey.decode(stored) == SessionKey(bytes(size))
        return
    with pytest.raises(ValueError, match="16 to 64 bytes"):
        SessionKey.decode(stored)


def test_a_session_key_is_not_shown() -> None:
    assert "aa" not in repr(SessionKey(b"\xaa" * 32))


def test_a_reference_to_a_broker_survives_its_stored_form() -> None:
    assert decode_ref(encode_ref(BrokerRef(3, 17))) == BrokerRef(3, 17)


def test_a_coordinators_drain_is_no_brokers() -> None:
    with pytest.raises(ValueError):
        _ = Drain("host:1", 0, 5).broker


def test_every_shard_writes_under_an_id_of_its_own_that_nobody_is_given() -> None:
    ids = {shard_writer_id(kind, shard) for kind in ("txn", "group") for shard in (0, 1, 49, (1 << 32) - 1)}
    assert len(ids) == 8
    assert min(ids) == SHARD_WRITER_BASE
    assert max(ids) < 1 << 63
    in_the_year_3000 = 32_503_680_000_000
    assert producer_id_floor(in_the_year_3000) < SHARD_WRITER_BASE


def test_the_floor_of_producer_ids_grows_with_the_clock_and_the_ceiling_is_a_day_above() -> None:
    assert [producer_id_floor(PRODUCER_IDS_START_MS + ms) for ms in (-5, 0, 1_000)] == [0, 0, 1 << 20]
    day = 24 * 3600 << 20
    assert producer_id_ceiling(PRODUCER_IDS_START_MS + 1_000, -1) == day + (1 << 20)
    assert producer_id_ceiling(PRODUCER_IDS_START_MS + 1_000, 5 << 20) == day + (5 << 20)
