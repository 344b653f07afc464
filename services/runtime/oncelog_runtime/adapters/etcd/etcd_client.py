"""Makes the etcd3 package usable: current stubs instead of its own, several endpoints, and always a deadline.

Rule 1: this is the only module that imports etcd3. Its bundled stubs predate protobuf 4 and cannot be loaded, so ours
        (the same wire API, `oncelog_runtime.etcd_wire`) replace them before the first import.
Rule 2: etcd3 takes one host and port; a gRPC target with several addresses is split such that etcd3 joins it again.
Rule 3: every call has a deadline: without one, etcd3 waits forever (tried).
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from types import ModuleType
from typing import Any, Final

import grpc

from oncelog.link.tls_check import Pem
from oncelog_runtime.etcd_wire import rpc_pb2, rpc_pb2_grpc

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_SERVICE_CONFIG: Final = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})

CHANNEL_OPTIONS: Final[tuple[tuple[str, int | str], ...]] = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # etcd refuses keep-alives that come more often than every five seconds.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    # Round robin: an etcd member that is cut off from its peers spoils a part of the calls only.
    ("grpc.service_config", _SERVICE_CONFIG),
)

Connection = Callable[[], tuple[grpc.aio.Channel, Sequence[tuple[str, str]] | None]]
"""Returns the channel of calls that stay open, and the metadata of each."""


def etcd3_module() -> Any:
    """Imports the etcd3 package with our stubs."""
    if "etcd3" not in sys.modules:
        stubs = ModuleType("etcd3.etcdrpc")
        for module in (rpc_pb2, rpc_pb2_grpc):
            vars(stubs).update({name: value for name, value in vars(module).items() if not name.startswith("_")})
        sys.modules["etcd3.etcdrpc"] = stubs
    import etcd3

    return etcd3


def target_of(endpoints: Sequence[str]) -> str:
    """Returns a gRPC target for host:port endpoints (`http://` is accepted and dropped).

    One endpoint is left to gRPC's resolver, which resolves the name again after each lost connection. gRPC has no
    target of several names, so several are resolved here, as far as possible. Raises `ValueError` when there is none,
    or one is malformed.
    """
    plain = [endpoint.removeprefix("http://").removeprefix("https://").rstrip("/") for endpoint in endpoints]
    if not plain or not all(endpoint.rpartition(":")[2].isdigit() for endpoint in plain):
        raise ValueError(f"etcd endpoints are host:port, not {list(endpoints)}")
    if len(plain) == 1:
        return f"dns:///{plain[0]}"
    return "ipv4:" + ",".join(address for endpoint in plain for address in _addresses(endpoint))


def _addresses(endpoint: str) -> list[str]:
    host, _, port = endpoint.rpartition(":")
    try:
        return [f"{ip_address(host)}:{port}"]
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return [f"127.0.0.1:{9}"]  # cannot be resolved: the discard port, which refuses at once, until the next look-up
    return sorted({f"{info[4][0]}:{port}" for info in found})


def connect(target: str, timeout_ms: int, tls: Pem | None = None) -> Any:
    """Returns an `etcd3.Etcd3Client` for a `target_of`. Does not wait for a connection; each call has the deadline
    `timeout_ms`.

    `tls` works with a single endpoint: gRPC compares the certificate with one name, whichever address it connects to.
    """
    host, _, port = target.rpartition(":")

    class Client(etcd3_module().Etcd3Client):  # type: ignore[misc]
        """Uses certificates that were read and checked before, not files that may be half replaced by now."""

        @staticmethod
        def _get_secure_creds(_ca: str, _key: str | None, _cert: str | None) -> grpc.ChannelCredentials:
            assert tls is not None
            return grpc.ssl_channel_credentials(tls.ca, tls.key or None, tls.cert or None)

    return Client(
        host=host,
        port=port,
        ca_cert="see Client" if tls else None,
        timeout=timeout_ms / 1000,
        grpc_options=list(CHANNEL_OPTIONS),
    )


def stream_channel(target: str, tls: Pem | None = None) -> grpc.aio.Channel:
    """Returns a channel of the running event loop to a `target_of`, for calls that stay open. See `connect` for `tls`."""
    if tls is None:
        return grpc.aio.insecure_channel(target, CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key or None, tls.cert or None)
    return grpc.aio.secure_channel(target, credentials, CHANNEL_OPTIONS)


def prefix_end(prefix: bytes) -> bytes:
    """Returns the range end for all keys with this prefix; `\\0` (= no end) for an empty prefix."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b"\0"
