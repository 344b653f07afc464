"""One trace across processes: a Spark micro-batch, and a transaction of an application, as a collector of traces gets them.

The cluster and the collector are this module's own; `make e2e-tracing` asks the same of a real Jaeger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests import span_tree
from tests.integration.spark_tools import Pipeline, committed, once
from tests.otlp_receiver import OtlpReceiver, ReceivedSpan

TOPIC = "traced"


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as one:
        yield one


@pytest.fixture(scope="module")
def traced_cluster(receiver: OtlpReceiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers are enough to replicate."""
    flags = ("--otlp-endpoint", receiver.endpoint)
    with LocalCluster(tmp_path_factory.mktemp("traced"), brokers=2, coordinators=1, flags=flags) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(TOPIC, partitions=2)
        yield cluster


def roots_of(spans: list[ReceivedSpan], name: str) -> list[ReceivedSpan]:
    return [span for span in spans if span.name == name and not span.parent_id]


@pytest.mark.spark
def test_a_micro_batch_is_one_trace_from_the_driver_to_the_markers(
    spark: Any, traced_cluster: LocalCluster, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, traced_cluster, tmp_path, TOPIC)
    pipeline.add("a", ["one", "two"])
    pipeline.run(otlpEndpoint=receiver.endpoint)
    receiver.wait_for(lambda spans: span_tree.whole(spans, TOPIC))
    (root,) = roots_of(receiver.spans, span_tree.ROOT)
    assert span_tree.problems(receiver.trace(root.trace_id), TOPIC) == []
    assert root.attributes["oncelog.spark.app_id"] == pipeline.last_id
    assert root.attributes["oncelog.spark.batch_id"] == "0"
    services = {span.service for span in receiver.trace(root.trace_id)}
    assert services == {"spark", "oncelog-coordinator", "oncelog-partition-leader"}
    assert committed(spark, traced_cluster, TOPIC) == once("one", "two")


@pytest.mark.spark
def test_a_micro_batch_that_is_not_sampled_leaves_no_span_anywhere(
    spark: Any, traced_cluster: LocalCluster, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, traced_cluster, tmp_path, TOPIC)
    pipeline.add("b", ["three"])
    before = {span.trace_id for span in receiver.spans}
    pipeline.run(otlpEndpoint=receiver.endpoint, traceSampler="traceidratio", traceSamplerArg="0")
    with Client(traced_cluster.bootstrap_servers, otlp_endpoint=receiver.endpoint) as client:
        client.admin.describe_topic(TOPIC)
        with client.producer(transactional_id="later") as producer, producer.transaction() as txn:
            txn.send(TOPIC, b"four")
    assert receiver.wait_for(lambda spans: bool(roots_of(spans, "txn commit")))
    new = [span for span in receiver.spans if span.trace_id not in before]
    written = [span.attributes.get("oncelog.txn.id", "") for span in new]
    assert not [name for name in written if re.match("spark-", str(name))]
    assert not [span for span in new if "JoinTransaction" in span.name]


@pytest.mark.spark
def test_a_collector_that_is_down_harms_nothing(spark: Any, traced_cluster: LocalCluster, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, traced_cluster, tmp_path, TOPIC)
    pipeline.add("c", ["five"])
    pipeline.run(otlpEndpoint="http://127.0.0.1:1")
    assert committed(spark, traced_cluster, TOPIC)["five"] == 1


def test_sigterm_sends_the_last_spans(receiver: OtlpReceiver, tmp_path: Path) -> None:
    flags = ("--otlp-endpoint", receiver.endpoint)
    with LocalCluster(tmp_path, brokers=2, coordinators=1, flags=flags) as cluster:
        with Client(cluster.bootstrap_servers, otlp_endpoint=receiver.endpoint) as client:
            client.admin.create_topic("last", partitions=1)
            client.producer().send("last", b"x").result()
        cluster.stop()
        ended = {name: process.popen and process.popen.returncode for name, process in cluster.processes.items()}
        assert (ended["broker-0"], ended["broker-1"]) == (0, 0), (
            "two that stop together wait for nobody until they are killed"
        )
        sends = [span for span in receiver.spans if span.name == "send last"]
        (trace_id,) = {span.trace_id for span in sends}
        names = {span.name for span in receiver.trace(trace_id)}
        assert {"send last", "log.append", "replicate"} <= names
