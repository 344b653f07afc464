"""Many writers of one transaction, on a real cluster: what the winners wrote is there once, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from oncelog import Message, errors
from oncelog.client.produce.transactions.participant import ParticipantResult
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

Names = tuple[str, str, str, int]


@pytest.fixture
def names(new_topic: Callable[..., str]) -> Names:
    """Transactional id, run, application and number of a batch, made of a new topic's name."""
    topic = new_topic(2)
    return (f"sink-{topic}", "run-1", topic, 1)


def written(client: Client, names: Names, rows: Iterable[str], attempt: str = "1") -> ParticipantResult:
    """What one participant has to hand in."""
    topic = names[2]
    with client.join_transaction(*names, write_attempt=attempt) as participant:
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


def test_a_part_that_is_written_again_is_there_once(cluster: LocalCluster, names: Names) -> None:
    """Records of a part go in one call, and a part that was lost joins once more."""
    with Client(cluster.bootstrap_servers) as client:
        lost = written(client, names, ["a", "b", "c"])
        kept = [written(client, names, ["a", "b", "c"]), written(client, names, ["d", "e"])]
        assert {lost.txn_no} == {result.txn_no for result in kept}
        answer = client.commit_transaction(*names, kept[0].txn_no, kept, write_attempt="1", wait="visible")
        assert (answer.already_committed, answer.committed_rows) == (False, 5)
        assert read(client, names[2]) == Counter("abcde")
        assert read(client, names[2], "read_uncommitted") == Counter("abcabcde")


def test_a_batch_that_is_written_again_leaves_its_first_attempt_behind(cluster: LocalCluster, names: Names) -> None:
    with Client(cluster.bootstrap_servers) as client, client.join_transaction(*names, write_attempt="1") as late:
        late.send_many(names[2], ["a"])
        late.flush()
        again = written(client, names, ["a", "b"], attempt="2")
        with pytest.raises(errors.TxnEndedError, match="a later attempt to write this one, is open"):
            client.join_transaction(*names, write_attempt="1")
        late.send_many(names[2], ["late"])
        with pytest.raises(errors.TxnEndedError):
            late.flush()
        client.commit_transaction(*names, again.txn_no, [again], write_attempt="2", wait="visible")
        assert read(client, names[2]) == Counter("ab")
        with client.join_transaction(*names, write_attempt="3") as after:
            assert (after.already_committed, after.committed_rows) == (True, 2)
