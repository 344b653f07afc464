"""The answer of a broker becomes the records that are the worker's; one that breaks the protocol becomes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog import errors
from oncelog.client.work.received_records import Answer, AnswerReader
from oncelog.config import WorkerConfig
from oncelog.core.batch.batch import encode_batch
from oncelog.v1 import channel_pb2 as ch
from tests.unit.sdk.client.fake_cluster import TOPIC, TOPIC_ID

READER = AnswerReader(TOPIC, TOPIC_ID, WorkerConfig())
HEADERS = "oncelog.expires-ms"


def batch(count: int = 4, partition: int = 0) -> bytes:
    return encode_batch(
        [b"k"] * count,
        [b"%d" % i for i in range(count)],
        timestamps_ms=[5] * count,
        headers=[((HEADERS, b"100"),) if i == 1 else () for i in range(count)],
        topic_id=TOPIC_ID,
        partition=partition,
    )


def item(first: int, last: int, length: int, delivery: int = 1, partition: int = 0) -> ch.ReceivedRecords:
    return ch.ReceivedRecords(
        partition=partition, first_offset=first, last_offset=last, delivery=delivery, ack_wait_ms=1_000, length=length
    )


def read(items: list[ch.ReceivedRecords], payload: bytes, now_ms: int = 50) -> Answer:
    return READER.read(ch.ReceiveReply(records=items), payload, now_ms)


def test_only_the_named_records_of_a_batch_are_the_workers() -> None:
    data = batch()
    answer = read([item(0, 1, len(data)), item(3, 3, 0, delivery=2)], data)
    assert [(r.record.offset, r.record.value, r.delivery) for r in answer.records] == [
        (0, b"0", 1),
        (1, b"1", 1),
        (3, b"3", 2),
    ]
    assert (answer.unread, answer.error) == (0, None)
    assert answer.records[0].record.key == b"k"
    assert answer.records[1].record.headers == ((HEADERS, b"100"),)


@pytest.mark.parametrize(("now_ms", "expired"), [(99, []), (100, [1])])
def test_a_record_whose_time_has_passed_is_marked(now_ms: int, expired: list[int]) -> None:
    data = batch()
    answer = read([item(0, 3, len(data))], data, now_ms)
    assert [r.record.offset for r in answer.records if r.is_expired] == expired


def test_batches_of_several_partitions_are_read_in_turn() -> None:
    first, second = batch(), batch(2, partition=1)
    answer = read([item(2, 2, len(first)), item(0, 1, len(second), partition=1)], first + second)
    assert [(r.record.partition, r.record.offset) for r in answer.records] == [(0, 2), (1, 0), (1, 1)]


def test_a_batch_that_cannot_be_read_leaves_the_others() -> None:
    good = batch()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    answer = read([item(0, 2, len(bad)), item(3, 3, 0), item(0, 0, len(good))], bad + good)
    assert [r.record.offset for r in answer.records] == [0]
    assert answer.unread == 4
    assert isinstance(answer.error, errors.CorruptMessageError)
    assert answer.error.context["topic"] == TOPIC


@pytest.mark.parametrize(
    "spoil",
    [
        lambda length: [item(0, 1, length + 1)],
        lambda length: [item(0, 1, length), item(0, 1, -1)],
        lambda length: [item(0, 1, 0)],
        lambda length: [item(0, 4, length)],
        lambda length: [item(2, 1, length)],
        lambda length: [item(-1, 1, length)],
        lambda length: [item(0, 1, length, delivery=0)],
        lambda length: [item(0, 1, length, partition=1)],
    ],
)
def test_an_answer_that_breaks_the_protocol_is_no_answer(spoil: Callable[[int], list[ch.ReceivedRecords]]) -> None:
    data = batch()
    with pytest.raises(errors.InvalidResponseError):
        read(spoil(len(data)), data)
