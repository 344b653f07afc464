"""`oncelog produce` sends keys where it is told to."""

from __future__ import annotations

import io
import sys

import pytest

from oncelog.client import defaults
from oncelog.core.batch.hashing import partition_for_key
from oncelog.types import PartitionId
from oncelog_cli.main import main
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster


@pytest.mark.parametrize("more", [(), ("--partitioner", "murmur2")])
def test_a_key_goes_by_the_hash_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]) -> None:
    cluster = FakeCluster()
    monkeypatch.setattr(defaults, "LazyGrpcTransport", lambda *_: cluster)
    monkeypatch.setenv("ONCELOG_BOOTSTRAP_SERVERS", ",".join(BROKERS))
    keys = [f"key-{n}" for n in range(20)]
    typed = "".join(f"{key}=v\n" for key in keys).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    assert main(["produce", TOPIC, "--key-separator", "=", *more]) == 0
    for partition in range(2):
        records = [record for _, record in cluster.logs[PartitionId(TOPIC_ID, partition)].records]
        expected = [k.encode() for k in keys if partition_for_key(k.encode(), 2, *more[1:]) == partition]
        assert [record.key for record in records] == expected
