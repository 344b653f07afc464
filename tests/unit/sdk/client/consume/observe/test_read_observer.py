"""What a consumer says of its work to whoever watches it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from oncelog import errors
from oncelog.client.consume import consumer as module
from oncelog.client.consume.fetched_records import ConsumerRecord
from oncelog.client.consume.observe.read_observer import ReadObserver
from oncelog.client.consume.offsets import Offsets
from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.reading import EARLIEST, P0, append


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    append(made, [b"0", b"1", b"2"])
    append(made, [b"3", b"4"])
    append(made, [b"x"], partition=1)
    return made


class Noting(ReadObserver):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def poll_begins(self) -> int:
        self.told.append("poll")
        return 7

    def polled(self, records: Sequence[ConsumerRecord], begun: int) -> None:
        self.told.append(f"polled {len(records)}, {begun}")

    @contextlib.contextmanager
    def committing(self, offsets: Offsets) -> Iterator[None]:
        self.told.append(f"commit of {len(offsets)}")
        try:
            yield
        except errors.OncelogError as error:
            self.told.append(error.code.name)
            raise
        self.told.append("committed")


def test_polls_and_commits_are_told_and_how_they_end(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    noting = Noting()
    monkeypatch.setattr(module, "read_observer", lambda *_: noting)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.consumer(group_id="g", **EARLIEST) as consumer:
            await consumer.assign([P0])
            await consumer.getmany()
            await consumer.commit()
            with pytest.raises(errors.ConfigError):
                await consumer.getmany(max_records=0)
            await consumer.getmany(timeout_ms=1)

    cluster.run(work)
    assert noting.told == ["poll", "polled 5, 7", "commit of 1", "committed", "poll", "polled 0, 7"]


def test_a_loop_polls_for_each_record_only_where_somebody_wants_to_see_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    for sees_each in (False, True):
        noting = Noting()
        monkeypatch.setattr(noting, "sees_each_poll", sees_each, raising=False)
        monkeypatch.setattr(module, "read_observer", lambda *_, noting=noting: noting)

        async def work(_: FakeCluster) -> None:
            async with cluster.client() as client, client.consumer(**EARLIEST) as consumer:
                await consumer.assign([P0])
                for _number in range(3):
                    await anext(consumer)

        cluster.run(work)
        told.append(noting.told.count("poll"))
    assert told == [2, 3]
