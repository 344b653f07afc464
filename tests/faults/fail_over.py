"""`python -m tests.faults.fail_over --runs 20`: from a fault of the leader to the next acknowledged write.

Faults: kill -9, SIGTERM, SIGSTOP of the broker that leads a partition. One producer with acks=all writes one record after the
other; what is told is the longest time without an acknowledgement around the fault.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from oncelog import errors
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

TOPIC = "fail-over"
_FAULTS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGSTOP": signal.SIGSTOP}
_WATCH_S = 6.0


class Writer:
    """Writes one record after the other, and remembers when each was acknowledged."""

    def __init__(self, servers: str) -> None:
        self.times: list[float] = []
        self.told: list[str] = []
        self._servers = servers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def _run(self) -> None:
        with Client(self._servers) as client, client.producer(linger_ms=0) as producer:
            while not self._stopping.is_set():
                try:
                    producer.send(TOPIC, value=b"x", partition=0).result()
                    self.times.append(time.monotonic())
                except errors.OncelogError as error:
                    self.told.append(str(error))

    def stop(self) -> None:
        """Ends it."""
        self._stopping.set()
        self._thread.join()

    def gap_since(self, moment: float) -> float:
        """The longest time without an acknowledgement that ended after `moment`."""
        times = [t for t in self.times if t > moment - 1]
        return max((b - a for a, b in zip(times, times[1:], strict=False) if b > moment), default=float("inf"))


def once(cluster: LocalCluster, fault: str) -> float:
    """One fault of the leader; seconds without an acknowledgement."""
    with Client(cluster.bootstrap_servers) as client:
        leader = client.admin.describe_topic(TOPIC).partitions[0].leader
    name = f"broker-{getattr(leader, 'broker_id', leader)}"
    writer = Writer(cluster.bootstrap_servers)
    time.sleep(1.5)
    process, moment = cluster.processes[name], time.monotonic()
    process.kill(_FAULTS[fault])
    time.sleep(_WATCH_S)
    gap = writer.gap_since(moment)
    if fault == "SIGSTOP":
        process.kill(signal.SIGCONT)
    else:
        process.kill()
        cluster.restart(name)
    cluster.wait_healthy(60)
    writer.stop()
    return gap


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--fault", action="append", choices=sorted(_FAULTS))
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-fail-over-") as directory,
        LocalCluster(Path(directory) / "c") as cluster,
    ):
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        for fault in options.fault or list(_FAULTS):
            gaps = sorted(once(cluster, fault) for _ in range(options.runs))
            print(f"{fault}: {len(gaps)} runs, p50 {statistics.median(gaps):.2f} s, max {gaps[-1]:.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
