"""Groups new values of many partitions into as few commits to etcd as its limits allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oncelog.types import BrokerRef, PartitionId
from oncelog_runtime.metadata.cluster_keys import Partition

COMPARES_MAX: Final = 120
"""etcd takes 128 comparisons in one transaction, and the caller adds a few of its own."""

Proposal = tuple[PartitionId, int, Partition]
"""(partition, mod revision that it replaces, new value)."""


def chunks(proposals: Sequence[Proposal], compares_max: int = COMPARES_MAX) -> Iterator[list[Proposal]]:
    """Yields proposals that fit into one commit: a comparison for each partition, each topic and each broker of an ISR."""
    chunk: list[Proposal] = []
    named: dict[BrokerRef | str, None] = {}
    for proposal in proposals:
        value = proposal[2]
        wanted: dict[BrokerRef | str, None] = {**named, value.topic: None, **dict.fromkeys(value.isr)}
        if chunk and len(wanted) + len(chunk) + 1 > compares_max:
            yield chunk
            chunk, wanted = [], {value.topic: None, **dict.fromkeys(value.isr)}
        chunk.append(proposal)
        named = wanted
    if chunk:
        yield chunk
