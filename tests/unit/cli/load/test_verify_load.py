"""A run says exactly once of a cluster that is so, and finds one that is not; an outcome is what the cluster said."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog import errors
from oncelog.client import defaults
from oncelog.core.batch.batch import iter_batches
from oncelog.types import PartitionId
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_cli.load import verify_load
from oncelog_cli.load.verify_load import Verification
from oncelog_cli.main import build_parser
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster, Lost

ABORTED = types_pb2.TRANSACTION_OUTCOME_ABORTED


class Honest(FakeCluster):
    """Shows readers nothing of an open transaction, and tells them which ones are aborted."""

    def _read(self, address: str, request: pb.FetchRequest) -> tuple[pb.FetchReply, bytes]:
        reply, payload = super()._read(address, request)
        kept, start = [], 0
        for asked, found in zip(request.partitions, reply.partitions, strict=True):
            data, start = payload[start : start + found.length], start + found.length
            stable = self._stable(PartitionId(found.topic_id, found.partition))
            shown = [(header, view) for header, view in iter_batches(data) if header.next_offset <= stable]
            found.last_stable_offset = stable
            found.next_offset = max([asked.fetch_offset, *(header.next_offset for header, _ in shown)])
            found.length = sum(len(view) for _, view in shown)
            kept += [bytes(view) for _, view in shown]
        return reply, b"".join(kept)

    def _stable(self, partition: PartitionId) -> int:
        """Where the first record of an open transaction lies, or the end."""
        log = self.logs[partition]
        opened = (record.offset for header, record in log.records if header.txn_no not in self.ended)
        return min(opened, default=log.end)

    async def _EndTransaction(self, address: str, request: co.EndTransactionRequest, _: bytes) -> tuple[Any, bytes]:
        answer = await super()._EndTransaction(address, request, _)
        if request.outcome == ABORTED:
            name = request.name
            self.aborted.append(
                types_pb2.AbortedTransaction(txn_producer_id=name.txn_producer_id, txn_no=name.txn_no, all=True)
            )
        return answer


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The run's clock is virtual, and its second client reaches the cluster too."""

    def use(cluster: FakeCluster) -> FakeCluster:
        clock = SimpleNamespace(monotonic=cluster.loop.time, time=cluster.loop.time, time_ns=lambda: 1)
        monkeypatch.setattr(verify_load, "time", clock)
        monkeypatch.setattr(defaults, "LazyGrpcTransport", lambda *_: cluster)
        return cluster

    return use


def flags(words: str = "") -> argparse.Namespace:
    usual = ["--producers", "1", "--duration", "1s", "--rate", "20", "--topic", TOPIC, "--timeout-ms", "2000"]
    return build_parser().parse_args(["verify", *usual, *words.split()])


def verify(cluster: FakeCluster, words: str = "") -> dict[str, Any]:
    async def work(_: FakeCluster) -> dict[str, Any]:
        async with cluster.client(default_api_timeout_ms=500, request_timeout_ms=100) as client:
            return await verify_load.verify(client, flags(words), False)

    return cluster.run(work)


def test_a_cluster_that_is_exactly_once_is_found_to_be(patched: Any) -> None:
    result = verify(patched(Honest()), "--abort-rate 0.3")
    assert (result["exactly_once"], result["anomalies"], result["unknown"]) == (True, [], 0)
    assert result["committed"] > 5
    assert result["aborted"] > 1
    assert result["failed_calls"] == {}
    assert 0.5 < result["seconds"] < 2


def test_a_cluster_that_shows_what_was_aborted_is_found_out(patched: Any) -> None:
    result = verify(patched(FakeCluster()), "--abort-rate 1")
    assert "aborted-visible" in {anomaly["name"] for anomaly in result["anomalies"]}
    assert not result["exactly_once"]
    assert all(anomaly["meaning"] and anomaly["detail"] for anomaly in result["anomalies"])


def test_records_that_are_gone_when_they_are_read_again_are_found(patched: Any) -> None:
    cluster = patched(Honest())
    log = next(iter(cluster.logs.values()))

    def forget(_: Any, reply: Any, payload: bytes) -> tuple[Any, bytes]:
        log.start = 1  # whoever begins anew begins behind the first record
        return reply, payload

    cluster.lies["Fetch"] = forget
    result = verify(cluster, "--abort-rate 0")
    assert not result["exactly_once"]


def test_a_commit_without_an_answer_is_asked_for_again(patched: Any) -> None:
    cluster = patched(Honest())
    cluster.fail("EndTransaction", *(Lost() for _ in range(8)))
    result = verify(cluster, "--abort-rate 0")
    assert (result["exactly_once"], result["unknown"]) == (True, 0)
    assert result["failed_calls"]["COMMIT_OUTCOME_UNKNOWN"] >= 1


def test_what_is_never_answered_is_unknown_and_its_producer_is_replaced(patched: Any) -> None:
    cluster = patched(Honest())
    cluster.fail("EndTransaction", *(errors.NetworkError() for _ in range(10_000)))
    result = verify(cluster, "--abort-rate 0 --duration 10s")
    assert result["unknown"] > 1
    assert result["committed"] == 0
    assert cluster.count("InitProducerId") > 1


def test_a_fenced_producer_is_replaced_under_the_same_id(patched: Any) -> None:
    cluster = patched(Honest())
    cluster.fail("EndTransaction", errors.ProducerFencedError("another one"))
    result = verify(cluster, "--abort-rate 0")
    assert result["failed_calls"] == {"PRODUCER_FENCED": 1}
    assert result["committed"] > 5
    assert len({request.transactional_id for request in cluster.requests("InitProducerId")}) == 1
    assert cluster.count("InitProducerId") == 2


def test_a_partition_that_nobody_leads_is_named_and_never_left_out(patched: Any) -> None:
    cluster = patched(Honest())
    cluster.leaders[1] = None
    with pytest.raises(errors.LeaderNotAvailableError, match="no leader answers for all of the topic") as caught:
        verify(cluster)
    assert caught.value.context["partitions"] == "1"


def test_a_record_too_small_for_its_seal_is_refused(patched: Any) -> None:
    with pytest.raises(errors.ConfigError, match="--record-size is at least"):
        verify(patched(Honest()), "--record-size 10")


def test_stop_begins_nothing_new(patched: Any) -> None:
    cluster = patched(Honest())

    async def work(_: FakeCluster) -> dict[str, Any]:
        async with cluster.client() as client:
            run = Verification(client, flags("--duration 60s --abort-rate 0"), TOPIC, "name")
            cluster.loop.call_later(1, run.stop)
            return await run.run()

    result = cluster.run(work)
    assert cluster.loop.time() < 5
    assert result["exactly_once"]
