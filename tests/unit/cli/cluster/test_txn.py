"""Transactions as people and programs see them, and what is done to them by name."""

from __future__ import annotations

import time

import pytest

from oncelog import errors
from oncelog.client.admin.descriptions import TransactionDescription
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_cli.cluster.txn import transaction_row
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


def test_only_an_open_transaction_has_a_duration() -> None:
    ended = TransactionDescription("t", 1, 0, 3, "COMPLETE_COMMIT", 0, 60_000, (), (), "c:1", 0, "", ())
    assert transaction_row(ended, 5_000)["duration_ms"] is None
    opened = TransactionDescription("t", 1, 0, 3, "ONGOING", 1_000, 60_000, (("a", 1),), (), "c:1", 0, "", (("q", 7),))
    shown = transaction_row(opened, 5_000)
    assert (shown["duration_ms"], shown["topic_partitions"], shown["tokens"]) == (4_000, ["a-1"], {"q": 7})


@pytest.fixture
def answered(cluster: FakeCluster) -> FakeCluster:
    """One open transaction, `t`, with number 7, since half an hour."""
    info = co.TransactionInfo(
        transactional_id="t", producer_id=41, txn_no=7, state="ONGOING", start_timestamp_ms=now_ms() - 1_800_000
    )
    cluster.answers |= {
        "ListTransactions": co.ListTransactionsReply(
            transactions=[info, co.TransactionInfo(transactional_id="idle", state="EMPTY")],
            answered=[co.ShardAnswer(shard=0, epoch=1)],
        ),
        "DescribeTransaction": co.DescribeTransactionReply(transaction=info),
        "ForceAbort": co.ForceAbortReply(txn_no=7),
        "InitProducerId": co.InitProducerIdReply(producer_id=41, producer_epoch=3),
    }
    return cluster


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("flags", "ids"), [("", ["idle", "t"]), ("--min-duration 20m", ["t"]), ("--min-duration 40m", [])]
)
def test_a_span_chooses_what_is_open_for_so_long(
    answered: FakeCluster, oncelog: Oncelog, flags: str, ids: list[str]
) -> None:
    rows = oncelog("txn", "list", "--format", "json", *flags.split()).data
    assert [row["transactional_id"] for row in rows] == ids


def test_states_are_chosen_by_the_coordinators(answered: FakeCluster, oncelog: Oncelog) -> None:
    assert oncelog("txn", "list", "--state", "ongoing", "--state", "DEAD").code == 0
    assert [list(request.states) for request in answered.requests("ListTransactions")] == [["ONGOING", "DEAD"]]


def test_a_description_for_people_has_every_column(answered: FakeCluster, oncelog: Oncelog) -> None:
    titles = oncelog("txn", "describe", "t").table[0]
    assert {"TRANSACTIONAL-ID", "DURATION", "OWNER-RUN", "TOKENS"} <= set(titles)


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (types_pb2.TRANSACTION_OUTCOME_COMMITTED, "committed"),
        (types_pb2.TRANSACTION_OUTCOME_ABORTED, "aborted"),
        (types_pb2.TRANSACTION_OUTCOME_NOT_BEGUN, "not_begun"),
        (types_pb2.TRANSACTION_OUTCOME_UNSPECIFIED, "ongoing"),
    ],
)
def test_an_outcome_is_one_word_for_each_number(
    cluster: FakeCluster, oncelog: Oncelog, outcome: types_pb2.TransactionOutcome, word: str
) -> None:
    cluster.answers["GetOutcome"] = co.GetOutcomeReply(outcome=outcome, visible=True)
    assert oncelog("txn", "outcome", "t", "41", "42").table[1:] == [["t", "41", word, "yes"], ["t", "42", word, "yes"]]


def test_what_is_not_known_of_a_producer_is_nothing_and_not_minus_1(cluster: FakeCluster, oncelog: Oncelog) -> None:
    reply = pb.DescribeProducersReply()
    reply.producers.add(
        producer_id=5, last_sequence=3, coordinator_epoch=-1, txn_start_offset=-1, txn_producer_id=-1, txn_no=0
    )
    cluster.answers["DescribeProducers"] = reply
    (row,) = oncelog("txn", "producers", f"{TOPIC}/1", "--format", "json").data
    gone = ("coordinator_epoch", "txn_start_offset", "last_timestamp_ms", "txn_producer_id", "txn_no")
    assert [row[name] for name in gone] == [None] * 5
    assert (row["producer_id"], row["last_sequence"]) == (5, 3)
    assert [row[:2] for row in oncelog("txn", "producers", TOPIC).table[1:]] == [[TOPIC, "0"], [TOPIC, "1"]]


def test_what_hangs_is_exit_code_1_and_nothing_is_said_with_what_was_looked_at(
    answered: FakeCluster, oncelog: Oncelog
) -> None:
    answered.answers["DescribeProducers"] = pb.DescribeProducersReply()
    said = oncelog("txn", "find-hanging")
    assert (said.code, said.out) == (0, "no hanging transactions: looked at 2 partitions of 1 topics\n")
    hanging = pb.DescribeProducersReply()
    hanging.transactions.add(txn_producer_id=99, txn_no=1, open_since_ms=now_ms() - 7_200_000)
    answered.answers["DescribeProducers"] = hanging
    said = oncelog("txn", "find-hanging", "--topic", TOPIC)
    assert said.code == 1
    assert "no coordinator knows this producer id" in said.out


def test_an_abort_says_which_one_and_one_failure_keeps_no_other(answered: FakeCluster, oncelog: Oncelog) -> None:
    answered.fail("DescribeTransaction", errors.InvalidPidMappingError("nobody knows it"))
    said = oncelog("txn", "abort", "nobody", "t")
    assert (said.code, said.out) == (1, "transaction 7 of t is aborted\n")
    assert "nobody knows it" in said.err
    answered.answers["DescribeTransaction"] = co.DescribeTransactionReply()
    assert oncelog("txn", "abort", "t").out == "t has no open transaction\n"


def test_a_fence_says_the_new_epoch(answered: FakeCluster, oncelog: Oncelog) -> None:
    assert oncelog("txn", "fence", "t").out == "t is fenced: producer epoch 3\n"
    assert oncelog("txn", "fence", "t", "--format", "json").data == [{"transactional_id": "t", "producer_epoch": 3}]
