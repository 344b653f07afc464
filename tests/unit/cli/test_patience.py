"""`--timeout-ms` is the time of a whole command (`produce --timeout-ms 5000` once took 2 minutes)."""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.client import Client
from oncelog_cli.main import build_parser, main
from oncelog_cli.terminal.session import with_client
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost

TOO_FEW = errors.NotEnoughReplicasError(isr=1, min_insync_replicas=2)


def typed(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


@pytest.mark.parametrize("more", [(), ("--transactional-id", "t")], ids=["plain", "in a transaction"])
def test_produce_gives_up_in_time_and_says_why(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    cluster.fail("append", *(TOO_FEW for _ in range(10_000)))
    typed(b"a\n", monkeypatch)
    assert main(["produce", TOPIC, "-p", "0", "--timeout-ms", "300", *more]) == 1
    assert "NOT_ENOUGH_REPLICAS on orders-0: ISR 1 of 2 needed" in capsys.readouterr().err


def arguments(*words: str) -> argparse.Namespace:
    return build_parser().parse_args([*words, "--timeout-ms", "1000"])


async def three_calls(client: Client) -> int:
    """None of which is ever answered."""
    for _ in range(3):
        with pytest.raises(errors.OncelogError):
            await client.producer(transactional_id="t").start()
    return 0


@pytest.mark.parametrize(
    ("words", "lasting", "seconds"),
    [(("topic", "list"), None, 1), (("topic", "list"), True, 3), (("topic", "list", "--watch"), None, 3)],
    ids=["a command", "one that lasts", "one that watches"],
)
def test_all_calls_of_a_command_share_its_time_unless_it_lasts(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], lasting: bool | None, seconds: int
) -> None:
    cluster.fail("InitProducerId", *(Lost() for _ in range(1_000)))
    run: Any = cluster.loop.run
    monkeypatch.setattr(asyncio, "run", run)  # virtual time
    assert with_client(arguments(*words), three_calls, lasting=lasting) == 0
    assert seconds - 0.3 < cluster.loop.time() < seconds + 0.3


def test_a_time_that_cannot_be_is_refused(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "list", "--timeout-ms", "0"]) == 1
    assert "--timeout-ms is 1 and up" in capsys.readouterr().err


def test_waiting_for_health_ends_too(cluster: FakeCluster) -> None:
    cluster.down = {*BROKERS}
    assert main(["cluster", "health", "--watch", "--exit-when-healthy", "--timeout-ms", "300"]) == 1
