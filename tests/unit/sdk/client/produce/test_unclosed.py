"""A producer that nobody closes loses nothing in silence."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import oncelog
from oncelog.client import defaults
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster

ROOT = Path(__file__).parents[5]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Stands where gRPC would."""
    made = FakeCluster()
    monkeypatch.setattr(defaults, "LazyGrpcTransport", lambda *_: made)
    return made


def forgotten(work: Callable[[oncelog.Client], Awaitable[Any]]) -> list[str]:
    """The warnings that are left when the client's loop is over and its memory is free."""

    async def main() -> None:
        await work(oncelog.Client(BROKERS))

    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    return [str(item.message) for item in caught if item.category is ResourceWarning and "oncelog" in str(item.message)]


def test_records_that_were_never_sent_are_counted_in_a_warning_and_a_log_line(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(client: oncelog.Client) -> None:
        producer = client.producer(linger_ms=60_000)
        for value in (b"a", b"b"):
            await producer.send(TOPIC, value)

    (said,) = forgotten(work)
    assert said.startswith(
        "Unclosed Producer(client_id='oncelog-python') was garbage-collected: 2 records were never sent"
    )
    assert "async with client.producer" in said
    (line,) = [record for record in caplog.records if record.name == "oncelog.client.produce.unclosed"]
    assert line.levelno == logging.WARNING
    assert "2 records were never sent and are lost" in line.getMessage()
    assert cluster.values(0) == cluster.values(1) == []


def test_records_under_way_are_told_apart(cluster: FakeCluster) -> None:
    async def work(client: oncelog.Client) -> None:
        cluster.fail("Produce", oncelog.errors.ShuttingDownError(), oncelog.errors.ShuttingDownError())
        producer = await client.producer(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000).start()
        await producer.send(TOPIC, b"a", partition=0)
        await asyncio.sleep(0.05)

    (said,) = forgotten(work)
    assert "1 records were sent and not acknowledged" in said


def test_an_open_transaction_is_named(cluster: FakeCluster) -> None:
    async def work(client: oncelog.Client) -> None:
        producer = client.producer(transactional_id="t")
        transaction = await producer.begin_transaction()
        await transaction.send(TOPIC, b"a")
        await transaction.flush()

    (said,) = forgotten(work)
    assert "transactional_id='t'" in said
    assert "1 records were written in a transaction that will be aborted" in said


def test_an_idle_one_gets_a_warning_and_no_line(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    async def work(client: oncelog.Client) -> None:
        await (await client.producer().start()).send_and_wait(TOPIC, b"a")

    (said,) = forgotten(work)
    assert "lost" not in said
    assert not [record for record in caplog.records if record.name == "oncelog.client.produce.unclosed"]


@pytest.mark.parametrize("whole", [True, False], ids=["the client", "the producer"])
def test_what_was_closed_or_never_used_says_nothing(cluster: FakeCluster, whole: bool) -> None:
    async def work(client: oncelog.Client) -> None:
        client.producer()
        producer = client.producer()
        await producer.send(TOPIC, b"a")
        await (client if whole else producer).close()

    assert forgotten(work) == []


SCRIPT = """
import atexit, logging, sys
from oncelog import sync
from oncelog.client import defaults
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost
cluster = FakeCluster()
atexit.register(lambda: print(cluster.values(0), len(cluster.end_requests)))  # runs last
defaults.LazyGrpcTransport = lambda *_: cluster
client = sync.Client(BROKERS)
producer = client.producer(linger_ms=60_000)
for value in (b"a", b"b"):
    producer.send(TOPIC, value, partition=0)
"""


def at_exit(more: str = "") -> tuple[str, str]:
    """Standard output and error of a script that ends without `close`."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", SCRIPT + more], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return done.stdout.strip(), done.stderr


def test_a_blocking_producer_sends_what_it_has_when_the_interpreter_ends() -> None:
    said, warned = at_exit()
    assert said == "[b'a', b'b'] 0"
    assert "ResourceWarning: Unclosed Producer" in warned
    assert "lost" not in warned


def test_what_cannot_be_sent_in_time_is_counted_when_the_interpreter_ends() -> None:
    said, warned = at_exit(
        "from oncelog.client.produce import unclosed; unclosed.rescue.__defaults__ = (50,)\n"
        "cluster.fail('Produce', *(Lost() for _ in range(100)))\n"
    )
    assert said == "[b'a', b'b'] 0", "the fake executes what it does not answer"
    assert "2 records were sent and not acknowledged" in warned


def test_an_open_transaction_of_a_blocking_producer_is_aborted_when_the_interpreter_ends() -> None:
    said, warned = at_exit(
        "producer.close()\n"
        "transaction = client.producer(transactional_id='t').begin_transaction()\n"
        "transaction.send(TOPIC, b'c', partition=0).result()\n"
    )
    assert said == "[b'a', b'b', b'c'] 1"
    assert "1 records were written in a transaction that will be aborted" in warned


def test_a_forked_child_is_silent_about_what_it_inherited() -> None:
    """Rule 3: the copy of a producer is not lost with the child; the parent still has it."""
    said, warned = at_exit("import os, sys\nif os.fork() == 0:\n    sys.exit()\nos.wait()\n")
    assert said.splitlines()[-1] == "[b'a', b'b'] 0"
    assert warned.count("ResourceWarning: Unclosed Producer") == 1
