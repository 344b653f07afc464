"""What a process may say of the cluster before, and after, it has read everything once."""

from __future__ import annotations

import pytest

from oncelog.errors import LeaderNotAvailableError, UnknownTopicError
from oncelog.types import PartitionId
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import Broker, broker_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import KeyValue, Listing

OWN_KEY = KeyValue(broker_key(0), Broker("broker-0:1", "broker-0:1", "nonce").encode(), 5)
PARTITION = PartitionId("0" * 32, 0)


def test_a_process_that_knows_its_own_registration_alone_says_of_no_topic_that_it_does_not_exist() -> None:
    view = ClusterView()
    view.learn([OWN_KEY])  # as a broker does that has just registered
    with pytest.raises(LeaderNotAvailableError) as error:
        view.require_leader(PARTITION)
    assert error.value.retriable
    with pytest.raises(LeaderNotAvailableError):
        view.topic("work")


def test_after_the_first_listing_an_absent_topic_is_unknown() -> None:
    view = ClusterView()
    view.listed(Listing((OWN_KEY,), 6))
    with pytest.raises(UnknownTopicError):
        view.require_leader(PARTITION)
    with pytest.raises(UnknownTopicError):
        view.topic("work")


ENDLESS = b'{"topic":"t","replicas":[1e400],"leader":null,"leader_epoch":0,"isr":[]}'


@pytest.mark.parametrize(
    "value",
    [b"[" * 100_000, ENDLESS, b"[]", b"7", b'"x"', b"null", b"\xff"],
    ids=["deep", "endless", "list", "number", "text", "null", "no text"],
)
def test_a_value_that_nobody_can_read_does_not_count_and_the_watch_goes_on(value: bytes) -> None:
    view = ClusterView()
    for key in (
        cluster_keys.partition_key("f" * 32, 0),
        cluster_keys.topic_key("t"),
        cluster_keys.broker_key(1),
        cluster_keys.CONTROLLER_KEY,
    ):
        view.learn([KeyValue(key, value, 5)])
    view.learn([KeyValue(cluster_keys.topic_key("good"), cluster_keys.Topic("good", "f" * 32, 1, 1).encode(), 6)])
    assert (list(view.topics), list(view.partitions), list(view.brokers), view.controller) == (["good"], [], [], None)
