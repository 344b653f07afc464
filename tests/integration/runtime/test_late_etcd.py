"""A service that is started before its etcd waits for it, and is ready when it has come."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog_runtime.adapters.etcd.etcd_process import EtcdProcess, free_port

pytestmark = pytest.mark.etcd


def test_a_service_whose_first_connection_to_etcd_failed_is_ready_once_etcd_is_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
        flags = [f"--etcd-endpoints=127.0.0.1:{port}", f"--listen-port={free_port()}", "--node-id=0", "--health-port=0"]
        command = [sys.executable, "-m", "oncelog_pid_allocator", *flags]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        nobody.settimeout(30)
        nobody.accept()[0].close()
    etcd = EtcdProcess(tmp_path, port)
    try:
        etcd.start_blocking()
        assert service.stdout is not None
        said: list[str] = []
        while '"ready"' not in "".join(said) and (line := service.stdout.readline()):
            said.append(line)
        assert '"ready"' in "".join(said), said[-1]
    finally:
        service.kill()
        service.communicate()
        etcd.stop_blocking()
