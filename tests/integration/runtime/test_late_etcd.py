"""A service that is started before its etcd waits for it, and is ready when it has come."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from oncelog_runtime.adapters.etcd.etcd_process import EtcdProcess, free_port

pytestmark = pytest.mark.etcd


def test_a_service_whose_first_connection_to_etcd_failed_is_ready_once_etcd_is_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody, ExitStack() as ending:
        port = nobody.getsockname()[1]
        flags = [f"--etcd-endpoints=127.0.0.1:{port}", f"--listen-port={free_port()}", "--node-id=0", "--health-port=0"]
        command = [sys.executable, "-m", "oncelog_pid_allocator", *flags]
        service = ending.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        ending.callback(service.kill)  # also when it never comes to its etcd
        nobody.settimeout(30)
        nobody.accept()[0].close()
        nobody.close()
        etcd = EtcdProcess(tmp_path, port)
        ending.callback(etcd.stop_blocking)
        etcd.start_blocking()
        assert service.stdout is not None
        said = ""
        while '"ready"' not in said and (
            line := service.stdout.readline()
        ):  # it ends by itself after 60 s without etcd
            said += line
        assert '"ready"' in said, said
