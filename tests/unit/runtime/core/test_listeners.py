"""One way in leads everywhere: addresses by listener, in registrations of this version, an older and a newer one."""

from __future__ import annotations

import json

import pytest

from oncelog.errors import ClusterAuthorizationError
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL, INTERNAL, NAMES, Addresses
from oncelog_runtime.metadata.cluster_keys import Broker, Coordinator, ShardOwner
from oncelog_runtime.serving.audience import refusal
from oncelog_runtime.serving.call_context import CALL, CallInfo, asked_on

EVERYWHERE = Addresses("b0:9093", "b0:9092", "outside:30000")


def test_each_listener_is_answered_with_its_own_addresses() -> None:
    assert [EVERYWHERE.on(name) for name in NAMES] == ["b0:9093", "b0:9092", "outside:30000"]


def test_what_is_not_announced_is_the_next_door() -> None:
    assert [Addresses("b0:9093").on(name) for name in NAMES] == ["b0:9093"] * 3
    assert Addresses("b0:9093", client="b0:9092").on(EXTERNAL) == "b0:9092"


@pytest.mark.parametrize(
    ("listener", "client_listener", "answer"),
    [(INTERNAL, False, CLIENT), (INTERNAL, True, INTERNAL), (CLIENT, True, CLIENT), (EXTERNAL, False, EXTERNAL)],
)
def test_clients_of_a_process_with_one_door_come_to_the_internal_one(
    listener: str, client_listener: bool, answer: str
) -> None:
    token = CALL.set(CallInfo("somebody", listener=listener))
    try:
        assert asked_on(client_listener=client_listener) == answer
    finally:
        CALL.reset(token)


def test_methods_of_services_are_refused_to_clients_by_name() -> None:
    assert refusal(INTERNAL, "PartitionLeader.Replicate") is None
    assert refusal(CLIENT, "PartitionLeader.Produce") is None
    for listener in (CLIENT, EXTERNAL):
        refused = refusal(listener, "PartitionLeader.Replicate")
        assert isinstance(refused, ClusterAuthorizationError)
        assert "PartitionLeader.Replicate" in refused.message
        assert listener in refused.message
    assert refusal(CLIENT, "PartitionLeader.NobodyKnows") is not None


# ---------------------------------------------------------------- N and N-1

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
