"""Small Arrow batches leave as large ones, complete and in order."""

from __future__ import annotations

import pyarrow as pa

from pyspark_oncelog.sink.batch_gatherer import Gatherer


def rows(*values: bytes, key: bytes | None = None) -> pa.RecordBatch:
    columns = {"value": pa.array(values, pa.binary())}
    if key is not None:
        columns["key"] = pa.array([key] * len(values), pa.binary())
    return pa.record_batch(columns)


def test_rows_leave_together_when_there_are_enough_and_the_rest_at_the_end() -> None:
    sent: list[tuple[str, list[bytes]]] = []
    gatherer = Gatherer(lambda topic, batch: sent.append((topic, batch.column(0).to_pylist())), gather_bytes=60)
    for i in range(5):
        gatherer.add("t", rows(b"%d" % i * 20))
    assert [len(values) for _, values in sent] == [3]
    gatherer.flush()
    assert [value for _, values in sent for value in values] == [b"%d" % i * 20 for i in range(5)]


def test_topics_and_shapes_are_kept_apart() -> None:
    sent: list[tuple[str, tuple[str, ...], int]] = []
    gatherer = Gatherer(lambda topic, batch: sent.append((topic, tuple(batch.schema.names), batch.num_rows)), 1 << 20)
    gatherer.add("a", rows(b"1", b"2"))
    gatherer.add("b", rows(b"3"))
    gatherer.add("a", rows(b"4", key=b"k"))
    gatherer.flush()
    assert sorted(sent) == [("a", ("value",), 2), ("a", ("value", "key"), 1), ("b", ("value",), 1)]


def test_many_topics_together_hold_no_more_than_one() -> None:
    """Each of them held 18 MiB: with a hundred topics a worker needed 1.8 GiB."""
    topics = 50
    sent: list[tuple[str, int]] = []
    gatherer = Gatherer(lambda topic, batch: sent.append((topic, batch.nbytes)), gather_bytes=10_000)
    given = 0
    for i in range(1_000):
        piece = rows(b"x" * (100 + i % 7))
        given += piece.nbytes
        gatherer.add(f"t{i % topics}", piece)
        assert given - sum(size for _, size in sent) < 10_000
    gatherer.flush()
    assert len(sent) < 1_000 / 3, "they still leave together"
    assert {topic for topic, _ in sent} == {f"t{i}" for i in range(topics)}


def test_the_topic_with_the_most_leaves_first() -> None:
    sent: list[str] = []
    gatherer = Gatherer(lambda topic, _: sent.append(topic), gather_bytes=1_000)
    gatherer.add("rare", rows(b"1"))
    gatherer.add("busy", rows(b"x" * 900))
    gatherer.add("rare", rows(b"x" * 100))
    assert sent == ["busy"]
    gatherer.flush()
    assert sent == ["busy", "rare"]
