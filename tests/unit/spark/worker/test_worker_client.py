"""The clients that a worker keeps: few, of its own process, and none that knows another cluster."""

from __future__ import annotations

import os
from typing import Any

import pytest

from oncelog import sync
from oncelog.errors import NetworkError, WrongClusterError
from pyspark_oncelog.options.read_write_options import ConnectionOptions, SinkOptions
from pyspark_oncelog.sink import task_writer
from pyspark_oncelog.worker import worker_client
from pyspark_oncelog.worker.worker_client import client_for, forgetting_wrong_cluster


class Made:
    """A client that was made."""

    def __init__(self, servers: str, **_options: Any) -> None:
        self.servers = servers
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        if self.servers == "angry:1":
            raise NetworkError("gone")


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    monkeypatch.setattr(sync, "Client", Made)
    clients: dict[Any, Any] = {}
    monkeypatch.setattr(worker_client, "_clients", clients)
    return clients


def to(servers: str) -> ConnectionOptions:
    return ConnectionOptions.parse({"bootstrapServers": servers})


def test_the_last_two_are_kept_and_the_others_closed() -> None:
    a, b = client_for(to("a:1")), client_for(to("b:1"))
    assert client_for(to("a:1")) is a
    c = client_for(to("c:1"))
    assert [client.is_closed for client in (a, b, c)] == [False, True, False]
    assert client_for(to("a:1")) is a
    assert client_for(to("b:1")) is not b


def test_a_client_that_cannot_be_closed_is_let_go() -> None:
    for servers in ("angry:1", "b:1", "c:1"):
        client_for(to(servers))
    assert client_for(to("b:1")).is_closed is False


def test_clients_of_the_process_before_a_fork_are_not_touched(
    kept: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inherited = [client_for(to(servers)) for servers in ("a:1", "b:1")]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for servers in ("a:1", "b:1", "c:1"):
        client_for(to(servers))
    with pytest.raises(WrongClusterError), forgetting_wrong_cluster():
        raise WrongClusterError
    assert [client.is_closed for client in inherited] == [False, False]
    assert len(kept) == 2


def test_a_client_that_met_another_cluster_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker lives on, and so did the client, which refused the new cluster at the old addresses for ever."""
    options = SinkOptions.parse({"bootstrapServers": "a:1", "topic": "t"})
    asked: list[Any] = []

    def write(client: Any, *_: Any) -> Any:
        asked.append(client)
        raise WrongClusterError

    monkeypatch.setattr(task_writer, "_write", write)
    for _ in range(2):
        with pytest.raises(WrongClusterError):
            task_writer.write_task(options, None, "1", [])
    assert asked[0] is not asked[1]
    assert asked[0].is_closed


def test_another_error_costs_no_client() -> None:
    client = client_for(to("a:1"))
    with pytest.raises(NetworkError), forgetting_wrong_cluster():
        raise NetworkError
    assert client_for(to("a:1")) is client
