"""A cluster of real processes, each of version N ("new") or N-1 ("old"), which may change at a restart."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.compatibility.previous_version import HERE, ROOT, unpack, with_sources

OLD: Final = "old"
NEW: Final = "new"
SERVICES: Final = ("broker-0", "broker-1", "broker-2", "coordinator-0", "coordinator-1", "pid-allocator-0")
_MODULES: Final = {
    "pid-allocator": "oncelog_pid_allocator",
    "coordinator": "oncelog_coordinator",
    "broker": "oncelog_partition_leader",
}
_STOP_S: Final = 30.0


class MixedCluster:
    """`versions` names each service's version."""

    def __init__(self, folder: Path, versions: dict[str, str], *broker_flags: str) -> None:
        self._broker_flags = broker_flags
        self.sources = {NEW: ROOT, OLD: unpack(folder)}
        self.local = LocalCluster(folder / "data")
        self.versions: dict[str, str] = {}
        for name in SERVICES:
            self.set_version(name, versions[name])

    def set_version(self, name: str, version: str) -> None:
        """From its next start on. The flags are those that both versions know."""
        process, etcd = self.local.processes[name], self.local.processes["etcd"]
        kind, _, number = name.rpartition("-")
        words = ["-m", _MODULES[kind], "--listen-port", process.address.rpartition(":")[2]]
        words += ["--etcd-endpoints", etcd.address, "--node-id", number]
        words += ["--data-dir", str(self.local.data_dir / name)]
        if kind == "broker":
            words += ["--default-replication-factor", "3", "--internal-topic-replication-factor", "3"]
            words += self._broker_flags
        process.command[:] = with_sources(self.sources[version], *words)
        self.versions[name] = version

    def change(self, name: str, version: str) -> None:
        """Stops a service as SIGTERM does, starts the other version, and waits until all is well again."""
        process = self.local.processes[name]
        process.kill(15)
        assert process.popen is not None
        process.popen.wait(_STOP_S)
        self.set_version(name, version)
        process.start()
        self.local.wait_healthy(90.0)

    def __enter__(self) -> MixedCluster:
        self.local.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.local.__exit__(*exc)


@dataclass(slots=True)
class Load:
    """Transactions through one version's SDK, checked by version N's checker, until `finish`."""

    cluster: MixedCluster
    version: str
    folder: Path
    seconds: float
    producers: int = 2
    popen: subprocess.Popen[str] | None = None
    stop_file: Path = field(init=False)
    begun_file: Path = field(init=False)

    def __post_init__(self) -> None:
        self.stop_file = self.folder / f"stop-{self.version}-{time.time_ns()}"
        self.begun_file = self.stop_file.with_suffix(".begun")

    def start(self) -> Load:
        """A process of its own."""
        settings = {
            "bootstrap_servers": self.cluster.local.bootstrap_servers,
            "duration": self.seconds,
            "producers": self.producers,
            "stop_file": str(self.stop_file),
            "begun_file": str(self.begun_file),
        }
        words = [str(HERE / "verify_with.py"), str(ROOT / "sdk"), json.dumps(settings)]
        command = with_sources(self.cluster.sources[self.version], *words)
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return self

    def begun(self) -> None:
        """Waits until its topic exists, a minute at most: with a broker gone no topic of three replicas is made."""
        assert self.popen is not None
        deadline_s = time.monotonic() + 60
        while not self.begun_file.exists():
            assert self.popen.poll() is None, "the load has ended before it began"
            assert time.monotonic() < deadline_s, "the load has not begun within a minute"
            time.sleep(0.05)

    def finish(self) -> dict[str, Any]:
        """Ends the writing early if it still goes on; the verdict."""
        assert self.popen is not None
        self.stop_file.touch()
        out, _ = self.popen.communicate(timeout=180)
        assert self.popen.returncode == 0, out
        result: dict[str, Any] = json.loads(out.splitlines()[-1])
        return result
