"""A whole cluster with mutual TLS inside and to etcd, TLS for clients, and certificates renewed under load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oncelog import errors
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
from tests.certificates import Authority
from tests.integration.settled import settled_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RENEWALS = 3
SENDS_BETWEEN = 150


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Its certificates hold 127.0.0.1, and no name."""
    tls = LocalTls(inside=renew(authority, "inside"), clients=renew(authority, "clients"))
    with LocalCluster(tmp_path_factory.mktemp("secure"), doors=True, tls=tls) as running:
        yield running


def renew(authority: Authority, name: str) -> Any:
    return authority.issue(name, "127.0.0.1")


def addresses(cluster: LocalCluster, door: str) -> set[str]:
    return set(cluster.bootstrap_at(door).split(","))


def oncelog(cluster: LocalCluster, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line, at the clients' listener."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ONCELOG_")}
    return subprocess.run(
        [sys.executable, "-m", "oncelog_cli", *words],
        env={**inherited, "ONCELOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.spark
def test_spark_writes_and_reads_from_outside(secure: LocalCluster, spark: SparkSession) -> None:
    options = {
        "bootstrapServers": secure.bootstrap_at("external"),
        "securityProtocol": "SSL",
        "sslCafile": secure.client_options["ssl_cafile"],
    }
    rows = spark.range(0, 1000, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    sink = {**options, "topic": "spark-outside", "createTopicPartitions": "3"}
    rows.write.format("oncelog").mode("append").options(**sink).save()
    read = spark.read.format("oncelog").options(**options, subscribe="spark-outside").load()
    assert sorted(int(row.value) for row in read.select("value").collect()) == list(range(1000))
    lost = {**sink, "sslCafile": "/nowhere/ca.crt"}
    with pytest.raises(Exception, match=r"option sslCafile: /nowhere/ca.crt cannot be read on .* on every worker"):
        rows.write.format("oncelog").mode("append").options(**lost).save()


def test_each_listener_tells_its_own_addresses(secure: LocalCluster) -> None:
    for door in ("client", "external"):
        with Client(secure.bootstrap_at(door), **secure.client_options) as client:
            known = client.admin.cluster_health()
            assert {address for _, address in known.brokers} == addresses(secure, door)


def test_the_internal_listener_takes_only_members(secure: LocalCluster, authority: Authority) -> None:
    assert secure.tls is not None
    inside = secure.tls.inside
    address = secure.bootstrap_at("internal")
    with (
        pytest.raises(errors.ClusterUnreachableError, match="if it wants a client certificate"),
        Client(address, default_api_timeout_ms=1_000, **secure.client_options),
    ):
        pass
    member = {"ssl_certfile": inside.cert, "ssl_keyfile": inside.key}
    with Client(address, **secure.client_options, **member) as client:
        known = client.admin.cluster_health()
        assert {address for _, address in known.brokers} == addresses(secure, "internal")


def test_certificates_are_renewed_under_load_without_a_failed_call(secure: LocalCluster, authority: Authority) -> None:
    """Old links live on; new ones (made by each new client and each restarted process) have the new certificates."""
    assert secure.tls is not None
    sent, stop, failures = [0], threading.Event(), list[BaseException]()

    def produce(number: int) -> None:
        try:
            with (
                Client(secure.bootstrap_servers, **secure.client_options) as client,
                client.producer(transactional_id=f"load-{number}") as producer,
            ):
                while not stop.is_set():
                    with producer.transaction() as txn:
                        txn.send("renewed", b"x", partition=number)
                    sent[0] += 1
        except BaseException as error:
            failures.append(error)
            stop.set()

    with Client(secure.bootstrap_servers, **secure.client_options) as client:
        client.admin.create_topic("renewed", partitions=2)
    threads = [threading.Thread(target=produce, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for renewal in range(RENEWALS):
            goal = sent[0] + SENDS_BETWEEN
            while sent[0] < goal and not stop.is_set():
                stop.wait(0.02)
            renew(authority, "inside")
            renew(authority, "clients")
            if renewal == 1:  # a restarted process makes all its links anew
                secure.processes["broker-0"].kill()
                secure.restart("broker-0")
            with Client(secure.bootstrap_servers, **secure.client_options) as client:
                assert client.admin.cluster_health().brokers
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert failures == []
    with (
        Client(secure.bootstrap_servers, **secure.client_options) as client,
        client.consumer("renewed", auto_offset_reset="earliest") as consumer,
    ):
        ends = settled_ends(client, "renewed")
        read = 0
        while any(consumer.position(("renewed", p)) < end for p, end in ends.items()):
            read += len(consumer.getmany(timeout_ms=1_000))
    assert read == sent[0]
    secure.wait_healthy()


def test_the_command_line_takes_flags_and_environment(secure: LocalCluster) -> None:
    ca = secure.client_options["ssl_cafile"]
    done = oncelog(secure, "cluster", "health", "--format", "json", ONCELOG_SSL_CAFILE=ca)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["brokers"]) == 3
    done = oncelog(secure, "topic", "list", "--security-protocol", "SSL", "--ssl-cafile", ca)
    assert done.returncode == 0, done.stderr


def test_a_node_looks_at_itself_with_the_certificates_of_its_environment(secure: LocalCluster) -> None:
    """As the preStop hook of a container does."""
    assert secure.tls is not None
    inside, prefix = secure.tls.inside, "ONCELOG_PARTITION_LEADER_"
    environment = {
        f"{prefix}ADVERTISED_ADDRESS": secure.processes["broker-1"].address,
        f"{prefix}TLS_CERT_FILE": inside.cert,
        f"{prefix}TLS_KEY_FILE": inside.key,
        f"{prefix}TLS_CA_FILE": inside.ca,
    }
    done = oncelog(secure, "node", "status", "--self", "--format", "json", **environment)
    assert done.returncode == 0, done.stderr
    assert [(row["node"], row["state"]) for row in json.loads(done.stdout)] == [(1, "not draining")]
    done = oncelog(secure, "node", "status", "--format", "json", ONCELOG_SSL_CAFILE=inside.ca)
    assert done.returncode == 0, done.stderr
    assert {row["kind"] for row in json.loads(done.stdout)} == {"broker", "coordinator"}


def test_the_command_line_says_what_to_change(secure: LocalCluster, tmp_path: Path) -> None:
    ca = secure.client_options["ssl_cafile"]
    other = str(Authority(tmp_path).ca_path)
    names = secure.bootstrap_servers.replace("127.0.0.1", "localhost")
    for words, says in (
        (["--ssl-cafile", other], f"is not signed by ssl_cafile {other}: give the CA of this cluster"),
        (["--ssl-cafile", ca, "--bootstrap-servers", names], "does not hold this name"),
        (["--ssl-cafile", "/nowhere.crt"], "ssl_cafile /nowhere.crt cannot be read: No such file"),
        (["--timeout-ms", "1500"], "if it listens with TLS, use security_protocol SSL and ssl_cafile"),
        (["--ssl-cafile", ca, "--security-protocol", "PLAINTEXT"], "ssl_cafile has no use in plaintext"),
        (["--ssl-certfile", ca], "ssl_certfile and ssl_keyfile belong together"),
    ):
        done = oncelog(secure, "topic", "list", *words)
        assert done.returncode == 1, words
        assert says in done.stderr
        assert "Traceback" not in done.stderr
