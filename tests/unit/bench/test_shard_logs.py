"""The measurement of shard logs reads what coordinators log, and counts the files of shards alone."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from bench.shard_logs import Replay, disk_bytes, replays
from oncelog_coordinator.shard.shard import Shard
from tests.unit.coordinator.serving import Serving, serve


def test_what_a_coordinator_says_of_a_replay_is_found(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(here: Serving) -> None:
        await asyncio.sleep(0)
        assert here.owned

    with caplog.at_level(logging.INFO, logger=Shard.__module__):
        serve(scenario)
    found = list(replays("\n".join(caplog.messages)))
    assert found[0] == Replay("txn-0", 1, found[0].ms)
    assert len(found) == 6


def test_only_the_files_of_shards_are_counted(tmp_path: Path) -> None:
    for name, size in (("__transaction_state-3", 5), ("__consumer_offsets-0", 7), ("written-0", 100)):
        folder = tmp_path / "logs" / name
        folder.mkdir(parents=True)
        (folder / "0.log").write_bytes(b"x" * size)
    assert disk_bytes(tmp_path) == 12
