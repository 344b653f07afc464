"""Every service of a real cluster is scraped: the table of names is what they say, and counters move with the work."""

from __future__ import annotations

import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oncelog.sync import Client
from oncelog.types import TopicPartition
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalProcess
from oncelog_runtime.observability import metric_names as names

NOT_HERE = {
    "oncelog_append_errors_total": "nothing is refused in this test",
    "oncelog_audit_lines_left_out_total": "without access rules there is no audit log",
    "oncelog_authentication_failures_total": "without access rules nobody is asked who he is",
    "oncelog_authorization_denied_total": "without access rules nothing is refused",
    "oncelog_tls_certificate_expiry_timestamp_seconds": "this cluster has no certificates",
}
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of its own, whose processes tell."""
    with LocalCluster(tmp_path_factory.mktemp("observed"), metrics=True) as running:
        yield running


def services(cluster: LocalCluster) -> dict[str, LocalProcess]:
    return {name: process for name, process in cluster.processes.items() if process.metrics_url}


def scrape(process: LocalProcess) -> Samples:
    with urllib.request.urlopen(process.metrics_url, timeout=20) as answer:
        text = answer.read().decode()
    found: Samples = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found[sample.name], (sample.name, labels)
            found[sample.name][labels] = sample.value
    return found


def total(cluster: LocalCluster, name: str, **labels: str) -> float:
    """The sum of a series over all processes; of those with these labels."""
    return sum(
        value
        for process in services(cluster).values()
        for found, value in scrape(process).get(name, {}).items()
        if labels.items() <= dict(found).items()
    )


def eventually(cluster: LocalCluster, name: str, expected: float, **labels: str) -> None:
    deadline = time.monotonic() + 40
    while (found := total(cluster, name, **labels)) != expected:
        assert time.monotonic() < deadline, f"{name} {labels} is {found}, not {expected}"
        time.sleep(0.1)


def test_the_work_of_a_transaction_is_seen(observed: LocalCluster) -> None:
    topic = "orders"
    with Client(observed.bootstrap_servers) as client:
        client.admin.create_topic(topic, partitions=2)
        with client.producer(transactional_id="billing") as producer:
            for _ in range(2):
                with producer.transaction() as txn:
                    for number in range(10):
                        txn.send(topic, value=b"x" * 100, partition=number % 2)
            txn = producer.begin_transaction()
            txn.send(topic, value=b"never", partition=0).result()
            txn.abort()
        with client.consumer(group_id="ship", auto_offset_reset="earliest") as consumer:
            consumer.assign_topics(topic)
            read = [consumer.getone(timeout_ms=20_000) for _ in range(20)]
            assert None not in read
            consumer.commit()
    assert total(observed, "oncelog_records_in_total", topic=topic) == 21
    assert total(observed, "oncelog_bytes_in_total", topic=topic) > 2_000
    assert total(observed, "oncelog_records_out_total", topic=topic) >= 20
    assert total(observed, "oncelog_bytes_out_total", topic=topic) > 2_000
    eventually(observed, "oncelog_txn_total", 2, outcome="committed")
    eventually(observed, "oncelog_txn_total", 1, outcome="aborted")
    eventually(observed, "oncelog_txn_duration_seconds_count", 3)
    eventually(observed, "oncelog_txn_commit_phase_seconds_count", 3, phase="decide")
    eventually(observed, "oncelog_txn_open", 0)
    eventually(observed, "oncelog_txn_completing", 0)
    # A life of the shard that ends early leaves its markers to the next one, which sends and counts them again.
    assert total(observed, "oncelog_txn_commit_phase_seconds_count", phase="mark") >= 3
    eventually(observed, "oncelog_partition_lso_lag", 0, topic=topic)
    batches = total(observed, "oncelog_produce_phase_seconds_count", phase="queue")
    assert batches >= 5
    assert total(observed, "oncelog_produce_phase_seconds_count", phase="replicate") >= 5
    assert total(observed, "oncelog_pid_allocations_total") > 0
    produced = total(observed, "oncelog_request_duration_seconds_count", method="PartitionLeader.Produce", code="OK")
    assert produced > 0


def test_the_lag_of_a_group_counts_what_it_has_not_committed(observed: LocalCluster) -> None:
    """Transactions end with markers, which no consumer ever commits: they are no lag."""
    group = {"group": "counted", "topic": "counted"}
    with Client(observed.bootstrap_servers) as client:
        client.admin.create_topic("counted", partitions=1)
        with client.producer(transactional_id="counting") as producer:
            with producer.transaction() as txn:
                for _ in range(10):
                    txn.send("counted", value=b"x")
            with client.consumer(group_id="counted", auto_offset_reset="earliest") as consumer:
                consumer.assign_topics("counted")
                for _ in range(10):
                    assert consumer.getone(timeout_ms=20_000) is not None
                consumer.commit({TopicPartition("counted", 0): 10})
            eventually(observed, "oncelog_consumer_group_committed_offset", 10, **group)
            eventually(observed, "oncelog_consumer_group_lag_offsets", 0, **group)
            eventually(observed, "oncelog_consumer_group_lag_seconds", 0, **group)
            with producer.transaction() as txn:
                for _ in range(5):
                    txn.send("counted", value=b"x")
    eventually(observed, "oncelog_consumer_group_lag_offsets", 6, **group)  # the marker at 10 lies before them
    assert total(observed, "oncelog_consumer_group_lag_max", **group) == 6
    assert total(observed, "oncelog_consumer_group_lag_sum_offsets", **group) == 6
    assert total(observed, "oncelog_consumer_group_lag_seconds", **group) >= 0


def test_the_work_of_a_channel_is_seen(observed: LocalCluster) -> None:
    channel = {"topic": "jobs", "channel": "mail"}
    with Client(observed.bootstrap_servers) as client:
        client.admin.create_topic("jobs", partitions=1)
        with client.producer() as producer:
            for value in (b"done", b"back", b"bad", b"held"):
                producer.send("jobs", value=value).result()
        with client.worker("jobs", channel="mail") as worker:
            first = {}
            while len(first) < 4:
                first |= {message.value: message for message in worker.getmany(timeout_ms=20_000)}
            first[b"done"].ack()
            first[b"bad"].reject("no customer")
            first[b"back"].nack()
            (again,) = worker.getmany(timeout_ms=20_000)
            assert (again.value, again.deliveries) == (b"back", 2)
            eventually(observed, "oncelog_channel_in_flight_records", 2, **channel)
            eventually(observed, "oncelog_channel_workers", 1, **channel)
            eventually(observed, "oncelog_channel_depth_records", 2, **channel)
            assert total(observed, "oncelog_channel_state_channels") == 1
            assert total(observed, "oncelog_channel_state_partitions") == 1
            assert total(observed, "oncelog_channel_state_records", kind="settled") == 1, (
                "one is held, a later one is done"
            )
            assert total(observed, "oncelog_channel_state_records", kind="retried") == 1
            assert total(observed, "oncelog_channel_state_bytes") >= 2
    assert total(observed, "oncelog_channel_delivered_total", **channel) == 5
    assert total(observed, "oncelog_channel_redelivered_total", **channel) == 1
    assert total(observed, "oncelog_channel_acknowledged_total", **channel) == 1
    assert total(observed, "oncelog_channel_dead_total", **channel) == 1
    eventually(observed, "oncelog_channel_in_flight_records", 0, **channel)
    eventually(observed, "oncelog_channel_workers", 0, **channel)


def test_delayed_records_that_wait_are_counted(observed: LocalCluster) -> None:
    with Client(observed.bootstrap_servers) as client:
        client.admin.create_topic("later", partitions=1)
        with client.producer() as producer:
            for _ in range(3):
                producer.send("later", value=b"x", deliver_at=timedelta(milliseconds=3_600_000)).result()
    eventually(observed, "oncelog_delayed_waiting_records", 3, topic="later")
    assert total(observed, "oncelog_delayed_refused_records", topic="later") == 0
    assert total(observed, "oncelog_delayed_overdue_seconds", topic="later") == 0


def test_a_healthy_cluster_says_so(observed: LocalCluster) -> None:
    assert total(observed, "oncelog_active_controller") == 1
    assert total(observed, "oncelog_registered_processes", component="partition_leader") == 3
    assert total(observed, "oncelog_registered_processes", component="coordinator") == 2
    assert total(observed, "oncelog_registered_processes", component="pid_allocator") == 1
    assert total(observed, "oncelog_shards", state="serving") == 100
    assert total(observed, "oncelog_partitions_led") * 3 == total(observed, "oncelog_replicas")
    assert total(observed, "oncelog_partition_isr") == total(observed, "oncelog_replicas")
    for name in ("leaderless", "under_replicated", "under_min_isr"):
        assert total(observed, f"oncelog_{name}_partitions") == 0
    assert total(observed, "oncelog_ownerless_shards") == 0
    assert total(observed, "oncelog_partitions_with_late_transactions") == 0


def test_every_metric_of_the_table_is_exported_by_the_services_that_it_names(observed: LocalCluster) -> None:
    kinds = {"broker": "partition_leader", "coordinator": "coordinator", "pid-allocator": "pid_allocator"}
    said: dict[str, set[str]] = defaultdict(set)
    for name, process in services(observed).items():
        for series in scrape(process):
            said[series].add(kinds[name.rpartition("-")[0]])
    expected = {
        series: set(metric.services)
        for metric in names.ALL.values()
        if metric.name not in NOT_HERE
        for series in names.series_of(metric)
    }
    assert dict(said) == expected


def test_a_broker_that_dies_is_missed(observed: LocalCluster) -> None:
    shrinks = total(observed, "oncelog_isr_shrinks_total")
    victim = observed.processes["broker-2"]
    victim.kill()
    url, victim.metrics_url = victim.metrics_url, ""
    deadline = time.monotonic() + 30
    while total(observed, "oncelog_under_replicated_partitions") < total(observed, "oncelog_partitions_led"):
        assert time.monotonic() < deadline, "every partition has lost a replica"
        time.sleep(0.1)
    assert total(observed, "oncelog_isr_shrinks_total") > shrinks
    assert total(observed, "oncelog_partition_under_replicated") == total(observed, "oncelog_partitions_led")
    expands = total(observed, "oncelog_isr_expands_total")
    observed.restart("broker-2")
    observed.wait_healthy()
    victim.metrics_url = url
    eventually(observed, "oncelog_under_replicated_partitions", 0)
    assert total(observed, "oncelog_isr_expands_total") > expands


def test_promtool_takes_what_a_broker_says(observed: LocalCluster) -> None:
    from tests.unit.runtime.observability.test_exposition import complaints_of_promtool

    with urllib.request.urlopen(observed.processes["broker-0"].metrics_url, timeout=20) as answer:
        assert complaints_of_promtool(answer.read().decode()) == []
