"""`python -m tests.faults.whole_cluster --rounds 30`: all brokers are killed, one loses its disk, again and again.

Each round: kill -9 of every broker (in some rounds of the coordinators and the id allocator too) under a transactional load,
the data directory of one broker is wiped, and all are started in a random order with random pauses, shorter and longer
than a registration's lease. A round begins when everybody is in every ISR again: one disk at a time is what the promise covers.

Prints a line per round and the anomalies at the end; exit status 1 when there is one.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.faults.transactions import PARTITIONS, TOPIC, Load, anomalies, read_all

_PAUSE_MAX_S = 5.0
"""A broker's registration outlives it by 3 s: restarts fall on both sides of that."""


def round_of(cluster: LocalCluster, data_dir: Path, load: Load, random: Random) -> str:
    """One round; what was done and how long nothing was committed."""
    brokers = [name for name in cluster.processes if name.startswith("broker-")]
    others = [name for name in cluster.processes if name.startswith(("coordinator-", "allocator-", "pid-"))]
    victims = brokers + (others if random.random() < 0.3 else [])
    random.shuffle(victims)
    wiped = random.choice([name for name in victims if name in brokers])
    before, began = len(load.acknowledged), time.monotonic()
    for name in victims:
        cluster.processes[name].kill()
    shutil.rmtree(data_dir / wiped)
    random.shuffle(victims)
    for name in victims:
        time.sleep(random.random() * _PAUSE_MAX_S / len(brokers))
        cluster.restart(name)
    restarted = time.monotonic()
    while len(load.acknowledged) == before:
        assert time.monotonic() < restarted + 60, "nothing is committed 60 s after the restart"
        time.sleep(0.02)
    works = time.monotonic()
    cluster.wait_healthy(90)
    return (
        f"killed {len(victims)}, wiped {wiped}; committed again {works - restarted:.1f} s after the last start"
        f" ({works - began:.1f} s after the kill), healthy after {time.monotonic() - began:.1f} s"
    )


def run(rounds: int, seed: int, data_dir: Path) -> list[str]:
    """The anomalies after so many rounds."""
    random = Random(seed)
    with LocalCluster(data_dir) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        load = Load(cluster.bootstrap_servers)
        load.start()
        try:
            for number in range(rounds):
                time.sleep(1 + random.random())
                print(f"round {number}: {round_of(cluster, data_dir, load, random)}", flush=True)
        finally:
            load.stop()
        found = read_all(cluster.bootstrap_servers)
        problems = anomalies(load, found)
        print(f"{rounds} rounds, {load.begun} transactions begun, {len(load.acknowledged)} acknowledged,", end=" ")
        print(f"{len(found[0])} visible; told on the way: {dict(load.refused)}; {len(problems)} anomalies", flush=True)
    return problems


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncelog-whole-") as directory:
        problems = run(options.rounds, options.seed, Path(directory) / "cluster")
    for problem in problems:
        print(f"ANOMALY: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
