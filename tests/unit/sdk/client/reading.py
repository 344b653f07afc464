"""What tests of consumers share: the partitions of the scripted cluster's topic, and records in them."""

from __future__ import annotations

from typing import Any

from oncelog.client.consume.fetched_records import Records
from oncelog.core.batch.batch import encode_batch
from oncelog.types import PartitionId, TopicPartition
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID, FakeCluster

P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
EARLIEST: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}


def append(
    cluster: FakeCluster,
    values: list[bytes],
    partition: int = 0,
    keys: list[bytes | None] | None = None,
    **header: Any,
) -> None:
    batch = encode_batch(
        keys or [None] * len(values),
        values,
        timestamps_ms=[5] * len(values),
        topic_id=TOPIC_ID,
        partition=partition,
        **header,
    )
    cluster.logs[PartitionId(TOPIC_ID, partition)].append(batch)


def values(records: Records) -> list[bytes]:
    return [record.value for record in records]
