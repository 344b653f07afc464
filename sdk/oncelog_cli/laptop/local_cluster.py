"""A whole cluster of real processes on this machine: etcd, producer id service, coordinators, brokers.

Rule 1: nothing outlives the supervisor: every child dies with it, also after SIGKILL (parent-death signal).
Rule 2: ports are chosen once per data directory and kept in `cluster.json`, so a restarted cluster has its old addresses.
Rule 3: everything in the data directory is its owner's alone, etcd's part too (`adapters.private_files`).
Rule 4: a process that ends by itself at the start is reported with its last lines of log; none is restarted in silence.
Rule 5: a cluster is ready when *it* answers: its etcd is known by a name that is new at each start, and the process
        that answers at the brokers' ports has the cluster id that this etcd holds. Ports that other programs use are
        reported before anything starts.

Used by `oncelog up` (`supervisor`), the demo, the integration tests and the benchmarks.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oncelog.errors import ClusterUnreachableError, ConfigError, OncelogError
from oncelog.link.tls_check import PemPaths
from oncelog.option_types import ClientOptions
from oncelog.sync import Client
from oncelog_runtime.adapters.child import dying_with_parent
from oncelog_runtime.adapters.etcd.etcd_gateway import EtcdGateway
from oncelog_runtime.adapters.etcd.etcd_process import etcd_command
from oncelog_runtime.adapters.files.private_files import UMASK, make_folders, open_private, take_folder
from oncelog_runtime.metadata.cluster_keys import CLUSTER_KEY, Cluster
from oncelog_runtime.process.last_words import last_words

_STOP_GRACE_S: Final = 10.0
_LOG_TAIL_LINES: Final = 5
_LOG_TAIL_BYTES: Final = 1 << 18
_ETCD_START_S: Final = 20.0
_QUIET_PORTS: Final = range(15_000, 32_000)
_DOORS: Final = ("client", "external")
_PEM_KINDS: Final = ("cert", "key", "ca")


def _quiet(_line: str) -> None:
    """Drops the progress."""


def free_ports(count: int) -> list[int]:
    """Returns different ports on which no process listens at this moment.

    Below the range from which outgoing connections take theirs: one of those may come between this look and the listener.
    """
    found: list[int] = []
    for port in random.sample(_QUIET_PORTS, len(_QUIET_PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def is_taken(port: int) -> bool:
    """True when a process listens there at this moment, on 127.0.0.1 or on all addresses."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            return True
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what ended a moment ago is no listener
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


@dataclass(slots=True)
class LocalProcess:
    """One child: how to start it, where it listens, and its log."""

    name: str
    command: list[str]
    address: str
    log_path: Path
    metrics_url: str = ""
    popen: subprocess.Popen[bytes] | None = None
    doors: dict[str, str] = field(default_factory=dict)
    """Its other listeners, client and external: name to address."""
    log_start: int = 0
    """Bytes that earlier lives have written into the log."""
    started_ms: int = 0
    """Wall clock of the last start."""

    @property
    def running(self) -> bool:
        """True while the process lives."""
        return self.popen is not None and self.popen.poll() is None

    def start(self) -> None:
        """Starts it in a session of its own, so that Ctrl-C reaches the supervisor alone."""
        assert not self.running, f"{self.name} runs already"
        with open(self.log_path, "ab", opener=open_private) as log:
            self.log_start, self.started_ms = log.tell(), time.time_ns() // 1_000_000
            self.popen = subprocess.Popen(
                dying_with_parent(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=UMASK,
            )

    def kill(self, with_signal: int = signal.SIGKILL) -> None:
        """Sends a signal and, for SIGKILL, waits for the end."""
        if self.popen is None or self.popen.poll() is not None:
            return
        self.popen.send_signal(with_signal)
        if with_signal == signal.SIGKILL:
            self.popen.wait()

    def log_tail(self) -> str:
        """The last lines of the log, for error messages."""
        return "\n".join(self._lines(0)[-_LOG_TAIL_LINES:])

    def last_words(self) -> str:
        """Returns its last words since it was started, as one line, and the file that holds the rest."""
        return f"{last_words(self._lines(self.log_start)) or 'it said nothing'} (log: {self.log_path})"

    def _lines(self, begin: int) -> list[str]:
        """The end of the log, from a byte on."""
        if not self.log_path.exists():
            return []
        with open(self.log_path, "rb") as log:
            log.seek(max(begin, self.log_path.stat().st_size - _LOG_TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()


@dataclass(frozen=True, slots=True)
class LocalTls:
    """Mutual TLS between all processes (`inside`), TLS for clients with the same CA (`clients`).

    Certificates hold 127.0.0.1.
    """

    inside: PemPaths
    clients: PemPaths


@dataclass(slots=True)
class LocalCluster:
    """`data_dir` holds everything; the same directory gives the same cluster again.

    `doors`: brokers and coordinators have listeners for clients and for clients outside; `tls` needs them.
    `probes`: each service has a health port, see `probe_address`.

    It has 26 methods: what a test does to a cluster and asks of it, and the command line of each process.
    """

    data_dir: Path
    brokers: int = 3
    coordinators: int = 2
    allocators: int = 1
    first_port: int = 0
    flags: tuple[str, ...] = ()
    serving_flags: tuple[str, ...] = ()
    """More flags, of brokers and coordinators."""
    identity: ClientOptions = field(default_factory=ClientOptions)
    """Options of clients that say who they are; where access rules are on, a principal that may see everything."""
    doors: bool = False
    tls: LocalTls | None = None
    metrics: bool = False
    """Each service answers GET /metrics, see `LocalProcess.metrics_url`."""
    probes: bool = False
    processes: dict[str, LocalProcess] = field(default_factory=dict)
    _etcd_name: str = field(default_factory=lambda: f"oncelog-{secrets.token_hex(8)}")
    """The key that distinguishes our etcd from another one at its port."""

    def __post_init__(self) -> None:
        if not 1 <= self.brokers <= 32:
            raise ConfigError("--brokers is 1 to 32", given=self.brokers)
        assert self.doors or self.tls is None, "TLS for clients needs a listener for clients"
        take_folder(self.data_dir)
        self._build(self._ports())

    # ------------------------------------------------------------ layout

    def _names(self) -> list[str]:
        names = [f"broker-{i}" for i in range(self.brokers)]
        names += [f"coordinator-{i}" for i in range(self.coordinators)]
        return names + [f"pid-allocator-{i}" for i in range(self.allocators)]

    def _listeners(self) -> list[str]:
        """Everything that has a port."""
        wanted = [*self._names(), "etcd-client", "etcd-peer"]  # brokers first: they get the first ports
        if self.probes:
            wanted += [f"{name}/health" for name in self._names()]
        if self.doors:
            wanted += [f"{name}/{door}" for name in self._names() if _serves_clients(name) for door in _DOORS]
        if self.metrics:
            wanted += [f"{name}-metrics" for name in self._names()]
        return wanted

    def _ports(self) -> dict[str, int]:
        """Name to port; kept in the data directory."""
        path = self.data_dir / "cluster.json"
        ports: dict[str, int] = json.loads(path.read_text())["ports"] if path.exists() else {}
        missing = [name for name in self._listeners() if name not in ports]
        if self.first_port:
            fresh = list(range(self.first_port + len(ports), self.first_port + len(ports) + len(missing)))
        else:
            fresh = free_ports(len(missing))
        ports.update(zip(missing, fresh, strict=True))
        with open(path, "w", opener=open_private) as file:
            json.dump({"version": 1, "ports": ports}, file, indent=1)
        return ports

    def _build(self, ports: dict[str, int]) -> None:
        logs = self.data_dir / "logs"
        make_folders(logs)
        inside = self.tls.inside if self.tls else None
        command = etcd_command(
            str(self.data_dir / "etcd"), ports["etcd-client"], ports["etcd-peer"], tls=inside, name=self._etcd_name
        )
        etcd_address = f"127.0.0.1:{ports['etcd-client']}"
        self.processes.setdefault("etcd", LocalProcess("etcd", command, etcd_address, logs / "etcd.log"))
        for name in self._names():
            if name in self.processes:
                continue
            command = self._service_command(name, ports[name], etcd_address)
            command += self._door_flags(name, ports) + self._tls_flags(name) + list(self.flags)
            command += self.serving_flags if _serves_clients(name) else ()
            if self.probes:
                command += ["--health-host", "127.0.0.1", "--health-port", str(ports[f"{name}/health"])]
            self.processes[name] = process = LocalProcess(
                name, command, f"127.0.0.1:{ports[name]}", logs / f"{name}.log"
            )
            for door in _DOORS:
                if f"{name}/{door}" in ports and self.doors:
                    process.doors[door] = f"127.0.0.1:{ports[f'{name}/{door}']}"
            if self.metrics:
                port = ports[f"{name}-metrics"]
                process.command += ["--metrics-host", "127.0.0.1", "--metrics-port", str(port)]
                process.metrics_url = f"http://127.0.0.1:{port}/metrics"

    def _door_flags(self, name: str, ports: dict[str, int]) -> list[str]:
        if not self.doors or not _serves_clients(name):
            return []
        return [word for door in _DOORS for word in (f"--{door}-listen-port", str(ports[f"{name}/{door}"]))]

    def _tls_flags(self, name: str) -> list[str]:
        if self.tls is None:
            return []
        files = {"tls": self.tls.inside, "etcd-tls": self.tls.inside}
        if _serves_clients(name):
            files["client-tls"] = PemPaths(self.tls.clients.cert, self.tls.clients.key, self.tls.clients.ca)
        return [
            f"--{prefix}-{kind}-file={getattr(paths, kind)}" for prefix, paths in files.items() for kind in _PEM_KINDS
        ]

    def _service_command(self, name: str, port: int, etcd_address: str) -> list[str]:
        kind, _, number = name.rpartition("-")
        module = {
            "pid-allocator": "oncelog_pid_allocator",
            "coordinator": "oncelog_coordinator",
            "broker": "oncelog_partition_leader",
        }[kind]
        command = [sys.executable, "-m", module, "--listen-port", str(port), "--etcd-endpoints", etcd_address]
        command += ["--node-id", number, "--data-dir", str(self.data_dir / name)]
        if kind == "broker":
            replicas = str(min(3, self.brokers))
            command += ["--default-replication-factor", replicas, "--internal-topic-replication-factor", replicas]
        return command

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, as a client takes them."""
        return self.bootstrap_at("client")

    def bootstrap_at(self, door: str) -> str:
        """The brokers' addresses at a listener: internal, client or external."""
        brokers = [p for name, p in self.processes.items() if name.startswith("broker-")]
        return ",".join(p.doors.get(door, p.address) for p in brokers)

    @property
    def client_options(self) -> ClientOptions:
        """The options that a client of this cluster needs beside its address."""
        if self.tls is None:
            return self.identity
        return {"security_protocol": "SSL", "ssl_cafile": self.tls.clients.ca, **self.identity}

    # ------------------------------------------------------------ life

    def start(self, progress: Callable[[str], None] = _quiet) -> None:
        """Starts everything and returns when every partition of the internal topics has a leader.

        Raises `ConfigError` when others use our ports, and `ClusterUnreachableError` with the last words of whatever did not
        come up.
        """
        self._require_free_ports()
        progress("starting etcd")
        self.processes["etcd"].start()
        self._wait_for_etcd(_ETCD_START_S)
        progress(f"starting {self.brokers} brokers, {self.coordinators} coordinators, {self.allocators} id allocator")
        for name in self._names():
            self.processes[name].start()
        progress("waiting until every partition has a leader")
        self._require_own(self.wait_healthy())

    def _require_free_ports(self) -> None:
        ports = self._ports()
        taken = [name for name in self._listeners() if is_taken(ports[name])]
        if not taken:
            return
        hint = "this data directory keeps its ports"
        if not (self.data_dir / "etcd").exists():  # it has never run, so other ports may be chosen
            (self.data_dir / "cluster.json").unlink(missing_ok=True)
            hint = "choose others with --first-port (0 = any free ones)"
        named = ", ".join(f"{ports[name]} ({name})" for name in taken)
        raise ConfigError(
            f"others use the ports {named}: stop them (`oncelog down`, if it is a cluster of yours); {hint}"
        )

    def _wait_for_etcd(self, seconds: float) -> None:
        """Our own etcd answers; another one at its port does not count."""
        process, gateway = self.processes["etcd"], self._gateway()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._check_alive(process)
            if self._etcd_name in gateway.member_names():
                return
            time.sleep(0.02)
        raise ClusterUnreachableError(f"etcd did not answer within {seconds:.0f} s: {process.last_words()}")

    def _gateway(self) -> EtcdGateway:
        return EtcdGateway(self.processes["etcd"].address, self.tls.inside if self.tls else None)

    def _require_own(self, cluster_id: str) -> None:
        """Checks that the process that answers at the brokers' ports belongs to our etcd. Raises `ClusterUnreachableError`."""
        value = self._gateway().get(CLUSTER_KEY)
        own = Cluster.decode(value).cluster_id if value is not None else "unknown"
        if cluster_id != own:
            raise ClusterUnreachableError(
                f"another cluster answers at {self.bootstrap_servers}: it is {cluster_id}, and ours is {own}; stop it"
            )

    def restart(self, name: str) -> None:
        """Starts a process that was killed."""
        self.processes[name].start()

    def add_broker(self) -> str:
        """Starts one more broker, with the next id; its name."""
        self.brokers += 1
        self._build(self._ports())
        name = f"broker-{self.brokers - 1}"
        self.processes[name].start()
        return name

    def remove_broker(self) -> None:
        """Stops the broker with the highest id for good, as SIGTERM does."""
        self.brokers -= 1
        process = self.processes.pop(f"broker-{self.brokers}")
        process.kill(signal.SIGTERM)
        _wait_all([process])

    def probe_address(self, name: str) -> str:
        """Where a service answers its probes; with `probes` only."""
        return f"127.0.0.1:{self._ports()[f'{name}/health']}"

    def _check_alive(self, process: LocalProcess) -> None:
        if not process.running:
            raise ClusterUnreachableError(f"{process.name} ended by itself: {process.last_words()}")

    def wait_healthy(self, seconds: float = 60.0) -> str:
        """Returns when all brokers are registered, all shards owned, and every partition has its full ISR.

        The id of the cluster that answered.
        """
        deadline = time.monotonic() + seconds
        problem = "no broker answers"
        options: ClientOptions = {"default_api_timeout_ms": 2_000, **self.client_options}
        while time.monotonic() < deadline:
            for process in self.processes.values():
                self._check_alive(process)
            try:
                with Client(self.bootstrap_servers, **options) as client:
                    health = client.admin.cluster_health()
                if health.healthy and len(health.brokers) == self.brokers:
                    return health.cluster_id
                problem = "; ".join(health.problems) or f"{len(health.brokers)} of {self.brokers} brokers are up"
            except OncelogError as error:
                problem = str(error)
            time.sleep(0.1)
        raise ClusterUnreachableError(f"the cluster is not healthy after {seconds:.0f} s: {problem}")

    def dead(self) -> list[LocalProcess]:
        """Processes that were started and ended."""
        return [p for p in self.processes.values() if p.popen is not None and p.popen.poll() is not None]

    def stop(self) -> None:
        """SIGTERM to services, then etcd, paused ones too; SIGKILL to what is left after a grace period."""
        _stop_all([p for name, p in self.processes.items() if name != "etcd" and p.running])
        _stop_all([self.processes["etcd"]])

    def __enter__(self) -> LocalCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()


def _serves_clients(name: str) -> bool:
    return name.startswith(("broker-", "coordinator-"))


def _stop_all(processes: Iterable[LocalProcess]) -> None:
    stopping = list(processes)
    for process in stopping:
        process.kill(signal.SIGTERM)
        process.kill(signal.SIGCONT)
    _wait_all(stopping)


def _wait_all(processes: list[LocalProcess]) -> None:
    deadline = time.monotonic() + _STOP_GRACE_S
    for process in processes:
        if process.popen is None:
            continue
        try:
            process.popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
