"""Metadata that cannot be is refused: a client connects to host:port alone, and a topic has each of its partitions once."""

from __future__ import annotations

import pytest

from oncelog.core import told_metadata
from oncelog.core.told_metadata import SHARDS_MAX, check_address, check_partitions, check_shards
from oncelog.errors import InvalidResponseError


@pytest.mark.parametrize(
    "address", ["b0:1", "broker-0.svc.cluster.local:65535", "10.0.0.1:9092", "[::1]:9092", "[fe80::1%eth0]:9092", ""]
)
def test_host_and_port_are_an_address(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "unix:/run/docker.sock",
        "dns://10.0.0.1/broker:9092",
        "b0",
        "b0:",
        ":9092",
        "b0:0",
        "b0:65536",
        "b0:1x",
        "b0:1\n",
        "b 0:1",
        "::1:9092",
        "\x1b[2J:1",
        "h" * 300 + ":1",
    ],
    ids=ascii,
)
def test_what_a_resolver_would_take_beyond_that_is_refused(address: str) -> None:
    with pytest.raises(InvalidResponseError, match="no host:port") as caught:
        check_address(address)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("numbers", [[], [0], [1, 0], range(100)])
def test_each_partition_is_there_once(numbers: list[int]) -> None:
    check_partitions("orders", numbers)


@pytest.mark.parametrize("numbers", [[1], [0, 2], [-1, 1], [0, 0], [0, 1, 1], [-1, 0], [0, 0, 2]])
def test_a_partition_that_is_missing_or_there_twice_is_refused(numbers: list[int]) -> None:
    with pytest.raises(InvalidResponseError, match="each partition of a topic once"):
        check_partitions("orders", numbers)


def test_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_metadata, "PARTITIONS_MAX", 3)
    check_partitions("orders", range(3))
    with pytest.raises(InvalidResponseError, match="more partitions than a topic may have"):
        check_partitions("orders", range(4))


@pytest.mark.parametrize(
    ("known", "count", "shards"),
    [(0, 0, []), (0, 3, [0, 2]), (3, 3, []), (3, 0, [2]), (0, SHARDS_MAX, [SHARDS_MAX - 1])],
)
def test_shards_lie_within_their_count(known: int, count: int, shards: list[int]) -> None:
    check_shards("group", known, count, shards)


@pytest.mark.parametrize(
    ("known", "count", "shards", "words"),
    [
        (3, 4, [], "another number of group shards"),
        (0, -1, [], "another number of group shards"),
        (0, SHARDS_MAX + 1, [], "another number of group shards"),
        (0, 3, [3], "group shards that cannot be"),
        (3, 0, [3], "group shards that cannot be"),
        (0, 3, [-1], "group shards that cannot be"),
        (0, 3, [1, 1], "group shards that cannot be"),
    ],
)
def test_a_number_of_shards_never_changes_and_bounds_them(
    known: int, count: int, shards: list[int], words: str
) -> None:
    with pytest.raises(InvalidResponseError, match=words):
        check_shards("group", known, count, shards)
