"""How new values of partitions are grouped into commits."""

from __future__ import annotations

from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.core.cluster.proposals import Proposal, chunks
from oncelog_runtime.metadata.cluster_keys import Partition


def proposals(count: int, brokers: int, topics: int) -> list[Proposal]:
    """`count` partitions of so many topics, each with three of so many brokers in its ISR."""
    found: list[Proposal] = []
    for number in range(count):
        isr = tuple(BrokerRef((3 * number + i) % brokers, 7) for i in range(3))
        ids = tuple(ref.broker_id for ref in isr)
        found.append((PartitionId("0" * 32, number), 1, Partition(f"t{number % topics}", ids, isr[0], 1, isr)))
    return found


def compares(chunk: list[Proposal]) -> int:
    """Partitions, topics and brokers."""
    brokers = {ref for _, _, value in chunk for ref in value.isr}
    return len(chunk) + len({value.topic for _, _, value in chunk}) + len(brokers)


def test_no_commit_compares_more_than_etcd_takes_however_many_brokers_there_are() -> None:
    for brokers, topics in ((3, 1), (78, 1), (150, 150), (600, 300)):
        wanted = proposals(300, brokers, topics)
        found = list(chunks(wanted))
        assert [proposal for chunk in found for proposal in chunk] == wanted
        assert all(compares(chunk) <= 120 for chunk in found)


def test_a_commit_holds_as_much_as_it_may() -> None:
    assert [len(chunk) for chunk in chunks(proposals(300, 3, 1))] == [116, 116, 68]
    assert list(chunks([])) == []


def test_what_does_not_fit_goes_alone() -> None:
    assert [len(chunk) for chunk in chunks(proposals(3, 9, 1), compares_max=1)] == [1, 1, 1]
