"""The key by which connections, links and memory are divided among callers: the principal, or else the address."""

from __future__ import annotations

from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.serving.call_context import CallInfo


def peer_of(caller: CallInfo) -> str:
    """Returns the principal (`User:alice`), else the address without its port: `ipv4:10.0.0.7` of `ipv4:10.0.0.7:41234`."""
    if caller.principal not in ("", ANONYMOUS):
        return caller.principal
    return address_of(caller.peer)


def address_of(peer: str) -> str:
    """Returns gRPC's name of a caller without its port."""
    address, _, port = peer.rpartition(":")
    return address if port.isdecimal() else peer
