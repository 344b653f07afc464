"""Targets and ranges for etcd, and the stubs that take the place of etcd3's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oncelog_runtime.adapters.etcd.etcd_client import connect, prefix_end, target_of


@pytest.mark.parametrize(
    ("endpoints", "target"),
    [
        (["etcd:2379"], "dns:///etcd:2379"),
        (["http://10.0.0.1:2379/"], "dns:///10.0.0.1:2379"),
        (["10.0.0.1:2379", "10.0.0.2:2380"], "ipv4:10.0.0.1:2379,10.0.0.2:2380"),
        (["no.such.host.invalid:2379", "10.0.0.2:2380"], "ipv4:127.0.0.1:9,10.0.0.2:2380"),
    ],
)
def test_targets(endpoints: list[str], target: str) -> None:
    assert target_of(endpoints) == target


@pytest.mark.parametrize("endpoints", [[], ["etcd"], ["etcd:port"]])
def test_malformed_endpoints(endpoints: list[str]) -> None:
    with pytest.raises(ValueError, match="host:port"):
        target_of(endpoints)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"/a/", b"/a0"), (b"a\xff", b"b"), (b"", b"\0"), (b"\xff\xff", b"\0"), (b"a\xff\xfe", b"a\xff\xff")],
)
def test_the_end_of_a_prefix(prefix: bytes, end: bytes) -> None:
    assert prefix_end(prefix) == end


def test_etcd3_keeps_the_target_and_the_deadline() -> None:
    client = connect(target_of(["10.0.0.1:2379", "10.0.0.2:2380"]), 1_500)
    assert client._url == "ipv4:10.0.0.1:2379,10.0.0.2:2380"
    assert client.timeout == 1.5
    client.close()


def test_etcd3_imports_on_our_stubs_in_a_fresh_process() -> None:
    program = (
        "from oncelog_runtime.adapters.etcd.etcd_client import etcd3_module\n"
        "m = etcd3_module()\n"
        "print(m.etcdrpc.RangeRequest.DESCRIPTOR.full_name, m.etcdrpc.RangeRequest.__module__)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert said.split() == ["etcdserverpb.RangeRequest", "oncelog_runtime.etcd_wire.rpc_pb2"]
