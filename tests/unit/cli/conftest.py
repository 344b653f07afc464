"""What tests of the command line share: a scripted cluster where gRPC would be, and a way to type commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from oncelog.client import defaults
from oncelog_cli.main import main
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Stands where gRPC would."""
    made = FakeCluster()
    monkeypatch.setattr(defaults, "LazyGrpcTransport", lambda *_: made)
    monkeypatch.setenv("ONCELOG_BOOTSTRAP_SERVERS", ",".join(BROKERS))
    monkeypatch.delenv("ONCELOG_FORMAT", raising=False)
    return made


@dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it printed for programs."""
        return json.loads(self.out)

    @property
    def table(self) -> list[list[str]]:
        """What it printed for people, as words."""
        return [line.split() for line in self.out.splitlines()]


Oncelog = Callable[..., Said]


@pytest.fixture
def oncelog_at_its_pace(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> Oncelog:
    """Runs `oncelog WORD...` in this process, in an ordinary loop: for what works in threads."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = main([*words, "--timeout-ms", "2000"])
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


@pytest.fixture
def oncelog(cluster: FakeCluster, oncelog_at_its_pace: Oncelog, monkeypatch: pytest.MonkeyPatch) -> Oncelog:
    """Runs `oncelog WORD...` in this process and in virtual time."""
    monkeypatch.setattr(asyncio, "run", cluster.loop.run)
    return oncelog_at_its_pace
