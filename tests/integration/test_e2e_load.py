"""The load of the end-to-end suite, for a moment on local processes: it records what it does, and that is sound."""

from __future__ import annotations

import asyncio

from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.e2e.kubernetes import judging
from tests.e2e.kubernetes.load import Load
from tests.e2e.kubernetes.recording import pack, unpack

ENOUGH = {"txn ok": 5, "txn fail": 1, "send ok": 5, "copies ok": 1, "poll ok": 1}


async def until_enough(load: Load) -> None:
    running = asyncio.create_task(load.run(producers=3))
    async with asyncio.timeout(60):
        while not running.done() and any(load.counts[name] < count for name, count in ENOUGH.items()):  # noqa: ASYNC110 (counts have no event)
            await asyncio.sleep(0.05)
    load.stop()
    await running


def test_the_load_records_a_sound_history(cluster: LocalCluster) -> None:
    load = Load(cluster.bootstrap_servers)
    asyncio.run(until_enough(load))
    recording = unpack(pack(load.recording))
    assert all(recording.counts[name] >= count for name, count in ENOUGH.items())
    assert recording.errors == []
    assert judging.anomalies(recording) == []
