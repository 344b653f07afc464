"""Old and new processes in one cluster, and upgrades under a transactional load: no failed call, no anomaly.

The long ones run with `make compat` (ONCELOG_COMPAT=full); `make test` runs one mixed cluster for a few seconds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.mixed_cluster import NEW, OLD, SERVICES, Load, MixedCluster
from tests.compatibility.previous_version import needs_previous

pytestmark = needs_previous
FULL = os.environ.get("ONCELOG_COMPAT") == "full"
long_one = pytest.mark.skipif(not FULL, reason="a long one: `make compat` runs it")
BROKERS = SERVICES[:3]
COORDINATORS = SERVICES[3:5]
ALLOCATOR = SERVICES[5:]


def judge(result: dict[str, Any], name: str) -> None:
    assert result["anomalies"] == [], (name, result)
    assert result["failed_calls"] == {}, (name, result)
    assert result["committed"] > 0, (name, result)
    assert result["unknown"] == 0, (name, result)


def versions(**of: str) -> dict[str, str]:
    """`broker`, `coordinator`, `allocator`, each "old", "new" or "mixed" (number 0 is old)."""
    found = {}
    for name in SERVICES:
        kind, _, number = name.rpartition("-")
        version = of[kind.removeprefix("pid-")]
        found[name] = version if version != "mixed" else OLD if number == "0" else NEW
    return found


def test_a_mixed_cluster_serves_both_sdks(tmp_path: Path) -> None:
    with MixedCluster(tmp_path, versions(broker="mixed", coordinator="mixed", allocator=OLD)) as cluster:
        loads = [Load(cluster, version, tmp_path, seconds=3).start() for version in (OLD, NEW)]
        for load in loads:
            load.popen.wait(120)  # type: ignore[union-attr]
            judge(load.finish(), f"SDK {load.version}")


@long_one
@pytest.mark.parametrize(
    ("broker", "coordinator", "allocator"),
    [(OLD, NEW, OLD), (NEW, OLD, NEW), (OLD, "mixed", NEW), ("mixed", NEW, NEW), ("mixed", OLD, OLD)],
)
def test_every_direction(broker: str, coordinator: str, allocator: str, tmp_path: Path) -> None:
    chosen = versions(broker=broker, coordinator=coordinator, allocator=allocator)
    with MixedCluster(tmp_path, chosen) as cluster:
        loads = [Load(cluster, version, tmp_path, seconds=10).start() for version in (OLD, NEW)]
        for load in loads:
            load.popen.wait(120)  # type: ignore[union-attr]
            judge(load.finish(), f"SDK {load.version}")


@long_one
@pytest.mark.parametrize(
    "order",
    [(*BROKERS, *COORDINATORS, *ALLOCATOR), (*ALLOCATOR, *COORDINATORS, *BROKERS)],
    ids=["brokers-first", "brokers-last"],
)
@pytest.mark.parametrize(("old", "new"), [(OLD, NEW), (NEW, OLD)], ids=["upgrade", "rollback"])
def test_a_rolling_change_under_load(order: tuple[str, ...], old: str, new: str, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, dict.fromkeys(SERVICES, old)) as cluster:
        loads = [Load(cluster, version, tmp_path, seconds=600).start() for version in (OLD, NEW)]
        for load in loads:
            load.begun()
        for name in order:
            cluster.change(name, new)
        for load in loads:
            judge(load.finish(), f"SDK {load.version}")
