"""An operator and a group on real processes: looks at members and lag, moves the group, removes members, lets it expire."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog.errors import NonEmptyGroupError
from oncelog.sync import Client
from oncelog.sync.consumer import Consumer
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.shell import Shell
from tests.integration.test_metrics import eventually, scrape, services, total

PARTITIONS = 4
RETENTION_S = 8.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Groups without members go soon; one pair of group and topic has lag series of its own."""
    made = LocalCluster(tmp_path_factory.mktemp("group-ops"), brokers=1, coordinators=1, metrics=True)
    for name, process in made.processes.items():
        if name.startswith("coordinator"):
            process.command += [
                "--group-heartbeat-interval-ms=500",
                f"--group-retention-ms={int(RETENTION_S * 1000)}",
                "--lag-refresh-ms=1000",
                "--metrics-groups-max=1",
            ]
    with made:
        yield made


@pytest.fixture
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster.bootstrap_servers)


def topic_with_records(client: Client, name: str, rounds: int = 3) -> str:
    client.admin.create_topic(name, partitions=PARTITIONS, replication_factor=1)
    with client.producer() as producer:
        for number in range(rounds * PARTITIONS):
            producer.send(name, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()
    return name


@contextlib.contextmanager
def member(cluster: LocalCluster, group: str, topic: str, **options: Any) -> Iterator[Consumer]:
    """A member that owns all partitions and has committed one record of each."""
    with (
        Client(cluster.bootstrap_servers, client_id="till") as client,
        client.consumer(group_id=group, auto_offset_reset="earliest", **options) as consumer,
    ):
        consumer.subscribe(topic)
        until(lambda: consumer.getmany(timeout_ms=200) and len(consumer.assignment()) == PARTITIONS)
        consumer.commit({(topic, number): 1 for number in range(PARTITIONS)})
        yield consumer


def until(is_so: Callable[[], object], seconds: float = 30) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def test_a_group_with_a_member_is_seen_and_not_moved(cluster: LocalCluster, shell: Shell) -> None:
    with Client(cluster.bootstrap_servers) as client:
        topic = topic_with_records(client, "seen")
        with member(cluster, "seen", topic, group_instance_id="till-3", client_rack="r1"):
            found = client.admin.describe_group("seen")
            (one,) = found.members
            assert (one.instance_id, one.client_id, one.rack, one.state) == ("till-3", "till", "r1", "STABLE")
            assert one.assigned == one.target == tuple((topic, number) for number in range(PARTITIONS))
            assert (one.topics, one.epoch, found.assignor) == ((topic,), found.assignment_epoch, "sticky")
            assert found.expires_ms is None
            (listed,) = [group for group in shell.json("group", "list") if group["group"] == "seen"]
            assert (listed["members"], listed["state"]) == (1, "STABLE")
            (shown,) = shell.json("group", "describe", "seen", "--time")
            assert (shown["members"], shown["total_lag"]) == (1, 2 * PARTITIONS)
            assert {row["consumer_id"] for row in shown["offsets"]} == {one.member_id}
            ages = [row["lag_time_ms"] for row in shown["offsets"]]
            assert all(0 < age < 120_000 for age in ages), ages
            people = shell.run("group", "describe", "seen", "--members").stdout
            assert "till-3" in people
            assert f"{topic}/0,{topic}/1" in people
            refused = shell.run("group", "seek", "seen", "--to", "start", "--dry-run")
            assert (refused.returncode, "NON_EMPTY_GROUP" in refused.stderr) == (1, True)
            assert "NON_EMPTY_GROUP" in shell.run("group", "delete", "seen").stderr
            with pytest.raises(NonEmptyGroupError):
                client.admin.set_group_offsets("seen", {(topic, 0): 0})
            assert {offset.offset for offset in client.admin.describe_group("seen").offsets} == {1}
            eventually(cluster, "oncelog_consumer_group_members", 1, state="STABLE")
            assert total(cluster, "oncelog_consumer_group_rebalances_total") >= 1


def test_a_removed_member_is_told_and_comes_back_under_another_id(cluster: LocalCluster, shell: Shell) -> None:
    with Client(cluster.bootstrap_servers) as client:
        topic = topic_with_records(client, "removed")
        fenced = total(cluster, "oncelog_consumer_group_fenced_total")
        with member(cluster, "removed", topic) as consumer:
            (before,) = client.admin.describe_group("removed").members
            (row,) = shell.json("group", "member-remove", "removed", before.member_id)
            assert row["member_id"] == before.member_id
            again = shell.run("group", "member-remove", "removed", before.member_id)
            assert (again.returncode, "has no member" in again.stderr) == (1, True)

            def is_back() -> bool:
                consumer.getmany(timeout_ms=100)
                members = client.admin.describe_group("removed").members
                return bool(members) and members[0].member_id != before.member_id

            until(is_back)
        assert total(cluster, "oncelog_consumer_group_fenced_total") > fenced


def test_a_group_that_was_left_is_moved_and_expires_when_it_was_said(cluster: LocalCluster, shell: Shell) -> None:
    with Client(cluster.bootstrap_servers) as client:
        topic = topic_with_records(client, "left")
        with member(cluster, "left", topic):
            pass
        (planned,) = shell.json("group", "seek", "left", f"{topic}/0", "--to", "start", "--dry-run")
        assert (planned["prior_offset"], planned["current_offset"]) == (1, 0)
        (moved,) = shell.json("group", "seek", "left", f"{topic}/0", "--to", "end")
        assert (moved["prior_offset"], moved["current_offset"]) == (1, 3)
        found = client.admin.describe_group("left")
        newest_ms = max(offset.committed_ms for offset in found.offsets)
        assert found.expires_ms == newest_ms + RETENTION_S * 1000, "the move counts as use"
        assert "EXPIRES" in shell.run("group", "describe", "left").stdout
        until(lambda: not client.admin.describe_group("left").offsets)
        assert time.time() * 1000 >= found.expires_ms - 50
        assert "left" not in [group.group_id for group in client.admin.list_groups()]
        assert shell.run("group", "describe", "left").returncode == 1


def test_many_groups_have_a_bounded_number_of_series(cluster: LocalCluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        topic = topic_with_records(client, "crowd")
        groups = [f"crowd-{number}" for number in range(5)]
        for group in groups:
            client.admin.set_group_offsets(group, {(topic, 0): 0})
        until(lambda: total(cluster, "oncelog_consumer_group_topics") >= len(groups))
        until(lambda: len(groups_with_lag(cluster)) == 2)
        named = groups_with_lag(cluster) - {"(others)"}
        assert len(named) == 1, "one group has series of its own, as --metrics-groups-max says; all others share one"
        until(lambda: total(cluster, "oncelog_consumer_group_lag_sum_offsets") >= 3 * len(groups))
        for group in groups:
            client.admin.delete_group_offsets(group)


def groups_with_lag(cluster: LocalCluster) -> set[str]:
    """Returns the values of the label `group` in the series of lag."""
    found = [scrape(process)["oncelog_consumer_group_lag_sum_offsets"] for process in services(cluster).values()]
    return {dict(labels)["group"] for samples in found for labels in samples}
