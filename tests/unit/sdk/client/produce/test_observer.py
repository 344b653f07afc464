"""What an observer sees of a producer: each call, and one outcome of each batch."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from oncelog import errors
from oncelog.client.produce import sender
from oncelog.client.produce.observer import UNRECORDED, SendObserver
from oncelog.client.produce.send_trace import SendTraces, observer_of
from oncelog.core.produce.accumulator import Batch
from tests.spans import recording_tracer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


class Notes(SendObserver):
    """Writes down everything."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def sent(self, batches: Iterable[Batch]) -> None:
        self.seen.append(("sent", [batch.record_count for batch in batches]))

    def acknowledged(self, batch: Batch) -> None:
        assert batch.done
        self.seen.append(("acknowledged", batch.base_offset))

    def failed(self, batch: Batch, error: errors.OncelogError) -> None:
        assert batch.done
        self.seen.append(("failed", type(error).__name__))


def test_an_observer_sees_calls_and_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, notes = FakeCluster(), Notes()
    monkeypatch.setattr(sender, "observer_of", lambda _: notes)
    cluster.fail("append", errors.NotLeaderError(), errors.InvalidRecordError("bad"))

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer(linger_ms=0) as producer:
            with pytest.raises(errors.InvalidRecordError):
                await producer.send_and_wait(TOPIC, b"bad", partition=0)
            await producer.send_and_wait(TOPIC, b"good", partition=0)

    cluster.run(work)
    sent = ("sent", [1])
    assert notes.seen == [sent, sent, ("failed", "InvalidRecordError"), sent, ("acknowledged", 0)]


def test_a_client_without_a_tracer_is_not_observed() -> None:
    async def work(cluster: FakeCluster) -> None:
        async with cluster.client() as client:
            found = observer_of(client._context)
            assert type(found) is SendObserver
            assert not found.records_origins
            with found.origin(TOPIC) as origin:
                assert origin is UNRECORDED
                assert origin.headers((("h", b"1"),)) == (("h", b"1"),)
            client._context.tracer = recording_tracer()[0]
            assert isinstance(observer_of(client._context), SendTraces)

    FakeCluster().run(work)
