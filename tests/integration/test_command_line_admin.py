"""Every administrative verb against a real cluster: what programs get, what people see, exit codes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable

import pytest
import yaml

import oncelog
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.shell import Shell


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster.bootstrap_servers)


@pytest.fixture(scope="module")
def open_transaction(cluster: LocalCluster, shell: Shell) -> str:
    """A topic on whose partition 0 the transaction of `cli-open` stays open; its producer is gone."""
    shell.run("topic", "create", "cli-open", "--if-not-exists")

    async def leave_open() -> None:
        client = await oncelog.Client(cluster.bootstrap_servers).start()
        producer = client.producer(transactional_id="cli-open", transaction_timeout_ms=600_000)
        await producer.start()
        transaction = await producer.begin_transaction()
        await transaction.send("cli-open", value=b"x", partition=0)
        await transaction.flush()
        producer._current = None  # as if the process had died
        await client.close()

    asyncio.run(leave_open())
    return "cli-open"


# ---------------------------------------------------------------- topics


def test_topics_are_altered_without_restart(shell: Shell) -> None:
    made = shell.json("topic", "create", "alter-a", "alter-b", "-p", "2", "-c", "retention.ms=60000")
    assert [(row["topic"], row["created"]) for row in made] == [("alter-a", True), ("alter-b", True)]
    changed = shell.json(
        "topic", "alter-config", "alter-a", "alter-b", "--set", "segment_bytes=4096", "-d", "retention_ms"
    )
    assert [row["changed"] for row in changed] == [True, True]
    assert not shell.json("topic", "alter-config", "alter-a", "--set", "segment_bytes=4096")[0]["changed"]
    dry = shell.run("topic", "alter-config", "alter-a", "--set", "segment_bytes=8192", "--dry-run")
    assert "would change" in dry.stdout
    (found,) = shell.json("topic", "describe", "alter-a")
    configs = {row["name"]: (row["value"], row["source"]) for row in found["configs"]}
    assert configs["segment_bytes"] == ("4096", "topic")
    assert configs["retention_ms"][1] == "default"
    (grown,) = shell.json("topic", "add-partitions", "alter-a", "--num", "2")
    assert (grown["partitions_before"], grown["partitions"]) == (2, 4)
    assert shell.json("produce", "alter-a", "-p", "3", given="x\n")["records"] == 1
    listed = yaml.safe_load(shell.run("topic", "list", "--regex", "alter-.*", "--format", "yaml").stdout)
    assert [(row["topic"], row["partitions"]) for row in listed] == [("alter-a", 4), ("alter-b", 2)]
    refused = shell.run("topic", "delete", "--regex", "alter-.*")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert [row["deleted"] for row in shell.json("topic", "delete", "-r", "alter-.*", "--yes")] == [True, True]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("alter-config", "cli-open", "--set", "retention_ms=soon"), 1, "-1 (without limit) and up"),
        (("alter-config", "cli-open", "--set", "retension_ms=5"), 1, "did you mean retention_ms?"),
        (("alter-config", "__consumer_offsets", "--set", "retention_ms=5"), 1, "INVALID_TOPIC"),
        (("alter-config", "nowhere", "--unset", "retention_ms"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("alter-config", "cli-open"), 2, "--set NAME=VALUE"),
        (("add-partitions", "cli-open", "--total", "0"), 1, "INVALID_PARTITIONS"),
        (("add-partitions", "cli-open"), 2, "--num N"),
        (("trim-prefix", "cli-open", "--offset", "soon"), 2, "a place is"),
        (("trim-prefix", "cli-open", "--offset", "99", "--yes"), 1, "OFFSET_OUT_OF_RANGE"),
        (("describe", "nowhere"), 1, "oncelog topic create nowhere"),
        (("list", "--regex", "no-such.*"), 1, "no topic matches"),
    ],
)
def test_a_mistake_about_topics_is_named(
    shell: Shell, open_transaction: str, words: tuple[str, ...], code: int, says: str
) -> None:
    done = shell.run("topic", *words)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_one_failure_does_not_keep_the_others_from_it(shell: Shell) -> None:
    done = shell.run("topic", "create", "several-1", "..", "several-2", "--format", "json")
    assert done.returncode == 1
    assert [row.get("error") for row in json.loads(done.stdout)] == [None, "INVALID_TOPIC", None]
    shell.run("topic", "delete", "several-1", "several-2")


def test_describe_shows_people_what_they_know(shell: Shell, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    shell.run("produce", topic, given="a\nb\n")
    shown = shell.run("topic", "describe", topic).stdout
    columns = "PARTITION LEADER EPOCH REPLICAS ISR LOG-START-OFFSET LAST-STABLE-OFFSET HIGH-WATERMARK LOG-END-OFFSET"
    header, values = shown.splitlines()[-2:]
    assert header.split() == columns.split()
    assert values.split()[-4:] == ["0", "2", "2", "2"]
    assert shell.run("topic", "trim-prefix", topic, "-o", "+1", "--yes").returncode == 0
    assert shell.json("topic", "describe", topic, "--partitions")[0]["partitions"][0]["log_start_offset"] == 1
    assert shell.run("consume", topic, "--until-end").stdout == "b\n"


# ---------------------------------------------------------------- transactions


def test_an_open_transaction_is_seen_from_all_sides_and_ended(shell: Shell, open_transaction: str) -> None:
    (listed,) = shell.json("txn", "list", "--state", "ONGOING", "--min-duration", "1ms")
    assert (listed["transactional_id"], listed["topic_partitions"]) == ("cli-open", [f"{open_transaction}-0"])
    assert listed["duration_ms"] > 0
    assert shell.json("txn", "list", "--min-duration", "1d") == []
    (described,) = shell.json("txn", "describe", "cli-open")
    assert described["producer_id"] == listed["producer_id"]
    (producer,) = shell.json("txn", "producers", f"{open_transaction}/0")
    assert (producer["producer_id"], producer["txn_start_offset"]) == (listed["producer_id"], 0)
    assert shell.json("txn", "find-hanging", "--topic", open_transaction, "--min-age", "0s") == []
    assert "no hanging transactions" in shell.run("txn", "find-hanging").stdout
    number = listed["txn_no"]
    outcomes = shell.json("txn", "outcome", "cli-open", str(number), str(number + 1))
    assert [item["outcome"] for item in outcomes] == ["ongoing", "not_begun"]
    (aborted,) = shell.json("txn", "abort", "cli-open")
    assert aborted["aborted_txn_no"] == number
    assert shell.json("txn", "outcome", "cli-open", str(number))[0]["outcome"] == "aborted"
    (fenced,) = shell.json("txn", "fence", "cli-open")
    assert fenced["producer_epoch"] == listed["producer_epoch"] + 1
    missing = shell.run("txn", "fence", "nobody", "cli-open")
    assert (missing.returncode, "INVALID_PRODUCER_ID_MAPPING" in missing.stderr) == (1, True)
    assert "cli-open is fenced" in missing.stdout


# ---------------------------------------------------------------- groups


def test_a_group_reads_seeks_and_goes(shell: Shell, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    shell.run("produce", topic, "--transactional-id", "cli-group", "--txn-size", "2", given="1\n2\n3\n4\n")
    shell.run("produce", topic, "--transactional-id", "cli-group", "--abort", given="no\n")
    assert shell.run("consume", topic, "--group", "cli-g", "-n", "1").stdout == "1\n"
    (group,) = shell.json("group", "describe", "cli-g")
    assert (group["total_lag"], group["offsets"][0]["lag_offsets"]) == (3, 7)
    assert shell.run("consume", topic, "--group", "cli-g", "--until-end").stdout == "2\n3\n4\n"
    (group,) = shell.json("group", "describe", "cli-g")
    assert (group["total_lag"], group["offsets"][0]["lag_is_exact"]) == (0, True), "markers do not count"
    shown = shell.run("group", "describe", "cli-g").stdout.splitlines()
    assert shown[-2].split() == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert "cli-g" in [row["group"] for row in shell.json("group", "list")]
    (planned,) = shell.json("group", "seek", "cli-g", "--to", "start", "--dry-run")
    assert planned["current_offset"] == 0
    (moved,) = shell.json("group", "seek", "cli-g", f"{topic}/0", "--to", "1")
    assert (moved["prior_offset"], moved["current_offset"]) == (planned["prior_offset"], 1)
    assert shell.run("consume", topic, "--group", "cli-g", "-n", "1").stdout == "2\n"
    (deleted,) = shell.json("group", "offset-delete", "cli-g", topic)
    assert deleted["deleted"]
    gone = shell.run("group", "describe", "cli-g")
    assert (gone.returncode, "oncelog group list" in gone.stderr) == (1, True)
    assert len(shell.json("group", "seek", "cli-g2", topic, "--to", "end")) == 1
    assert shell.json("group", "delete", "cli-g2")[0]["deleted_offsets"] == 1
    assert shell.run("group", "seek", "cli-g2", "--to", "end").returncode == 2


# ---------------------------------------------------------------- partitions and cluster


def test_partitions_and_cluster(shell: Shell, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    rows = shell.json("partition", "list", "--topic", topic)
    assert [(row["partition"], row["problems"], row["high_watermark"]) for row in rows] == [(0, [], 0), (1, [], 0)]
    troubled = ("--under-replicated", "--leaderless", "--under-min-isr")
    assert shell.json("partition", "list", *troubled) == []
    leader, other = rows[0]["leader"], rows[0]["replicas"][1]
    assert leader != other
    assert shell.json("partition", "transfer-leadership", f"{topic}/0", "--to", str(other))[0]["leader"] == other
    reversed_ = rows[0]["replicas"][::-1]
    target = f"{topic}/0=" + ",".join(map(str, reversed_))
    assert shell.json("partition", "reassign", target, "--wait")[0]["error"] is None
    assert shell.json("partition", "list", "--topic", topic)[0]["replicas"] == reversed_
    assert shell.json("partition", "moves") == []
    assert shell.json("partition", "reassign", f"{topic}/0=99", code=1)[0]["error"]
    assert shell.run("partition", "reassign", f"{topic}/0").returncode == 2
    found = shell.json("cluster", "info")
    assert [row["broker"] for row in found["brokers"]] == [0, 1, 2]
    assert sum(row["controller"] for row in found["brokers"]) == 1
    assert sum(row["group_shards"] for row in found["coordinators"]) == found["group_shards"]
    health = shell.json("cluster", "health")
    assert (health["healthy"], health["under_min_isr"], health["missing_brokers"]) == (True, [], [])
    assert len(health["allocators"]) == 1


# ---------------------------------------------------------------- produce and consume


def test_records_with_everything(shell: Shell, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    shell.run("produce", topic, "-f", r"%p %k|%v|%h\n", "-H", "all:1", given="0 a|x y|h=2\n1 b||h=3\n")
    shell.run("produce", topic, "-k", "gone", "-Z", "-p", "0", "-z", "zstd", given="\n")
    read = shell.run("consume", topic, "-p", "0", "--until-end", "-f", r"%t/%p/%o %k=%v [%h] %H\n").stdout
    assert read == f"{topic}/0/0 a=x y [all=1,h=2] 2\n{topic}/0/1 gone= [] 0\n"
    rows = [
        json.loads(line) for line in shell.run("consume", topic, "--until-end", "--format", "json").stdout.splitlines()
    ]
    assert {row["key"]: row["value"] for row in rows} == {"a": "x y", "gone": None, "b": ""}
    wrong = shell.run("produce", topic, "-f", "%k%v", given="x\n")
    assert (wrong.returncode, "separates" in wrong.stderr) == (2, True)


def test_places_and_markers(shell: Shell, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    done = shell.json("produce", topic, "--transactional-id", "cli-size", "--txn-size", "2", given="1\n2\n3\n4\n5\n")
    assert (done["transactions"], done["records"]) == (3, 5)
    shell.run("produce", topic, "--transactional-id", "cli-size", "--abort", given="no\n")
    lines = shell.run("consume", topic, "--until-end", "-f", r"%v %o\n").stdout.splitlines()
    at = dict(line.split() for line in lines)  # a marker may come after the first batch of the next transaction
    assert shell.run("consume", topic, "-o", f"+{at['4']}", "-n", "1").stdout == "4\n"
    assert shell.run("consume", topic, "-o", at["3"], "-n", "1").stdout == "3\n"
    assert shell.run("consume", topic, "-o", "@2020-01-01", "-n", "1").stdout == "1\n"
    assert shell.run("consume", topic, "-o", "@2999-01-01", "--until-end").stdout == ""
    marks = shell.run("consume", topic, "--print-control-records", "--until-end").stdout.splitlines()
    assert [line.split()[1] for line in marks if line.startswith("---")] == ["COMMIT", "COMMIT", "COMMIT", "ABORT"]
    assert "no" not in marks
    both = shell.run("consume", topic, "--print-control-records", "--until-end", "--read-uncommitted").stdout
    assert "\nno\n" in both


@pytest.mark.parametrize("words", [("consume",), ("topic", "list", "--watch"), ("cluster", "health", "--watch")])
def test_ctrl_c_is_quiet(shell: Shell, new_topic: Callable[..., str], words: tuple[str, ...]) -> None:
    topic = new_topic(1)
    shell.run("produce", topic, given="x\n")
    running = shell.start(*words, *([topic] if words == ("consume",) else []))
    assert running.stdout is not None
    assert running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=20)
    assert (running.returncode, errors) == (130, "")
