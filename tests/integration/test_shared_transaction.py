"""Many writers of one transaction, on a real cluster: what the winners wrote is there once, and nothing else."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from oncelog import Message, errors
from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster


@pytest.fixture
def batch(new_topic: Callable[..., str]) -> SharedBatch:
    """The first attempt to write a batch, named after a new topic."""
    topic = new_topic(2)
    return SharedBatch(f"sink-{topic}", "run-1", topic, 1, "1")


def written(client: Client, batch: SharedBatch, rows: Iterable[str]) -> ParticipantResult:
    """What one participant has to hand in."""
    topic = batch.app_id
    with client.join_transaction(batch) as participant:
        sent = participant.send_many(topic, [Message(row, partition=i % 2) for i, row in enumerate(rows)])
        result = participant.flush()
    assert sum(part.records for part in sent.result()) == result.rows
    return result


def read(client: Client, topic: str, isolation_level: str = "read_committed") -> Counter[str]:
    with client.consumer(topic, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
        ends = consumer.end_offsets(consumer.assignment())
        return Counter(
            value.decode()
            for where, end in ends.items()
            for batch in consumer.read_range(where, 0, end)
            for value in batch.column("value").to_pylist()
        )


def test_a_part_that_is_written_again_is_there_once(cluster: LocalCluster, batch: SharedBatch) -> None:
    """Records of a part go in one call, and a part that was lost joins once more."""
    with Client(cluster.bootstrap_servers) as client:
        lost = written(client, batch, ["a", "b", "c"])
        kept = [written(client, batch, ["a", "b", "c"]), written(client, batch, ["d", "e"])]
        assert {lost.txn_no} == {result.txn_no for result in kept}
        answer = client.commit_transaction(batch, kept[0].txn_no, kept, wait="visible")
        assert (answer.already_committed, answer.committed_rows) == (False, 5)
        assert read(client, batch.app_id) == Counter("abcde")
        assert read(client, batch.app_id, "read_uncommitted") == Counter("abcabcde")


def test_a_batch_that_is_written_again_leaves_its_first_attempt_behind(
    cluster: LocalCluster, batch: SharedBatch
) -> None:
    with Client(cluster.bootstrap_servers) as client, client.join_transaction(batch) as late:
        late.send_many(batch.app_id, ["a"])
        late.flush()
        second = dataclasses.replace(batch, write_attempt="2")
        again = written(client, second, ["a", "b"])
        with pytest.raises(errors.TxnEndedError, match="a later attempt to write this one, is open"):
            client.join_transaction(batch)
        late.send_many(batch.app_id, ["late"])
        with pytest.raises(errors.TxnEndedError):
            late.flush()
        client.commit_transaction(second, again.txn_no, [again], wait="visible")
        assert read(client, batch.app_id) == Counter("ab")
        with client.join_transaction(dataclasses.replace(batch, write_attempt="3")) as after:
            assert (after.already_committed, after.committed_rows) == (True, 2)
