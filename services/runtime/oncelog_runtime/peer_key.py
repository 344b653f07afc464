"""Who a caller is when connections, links and memory are shared out: by address, until callers have names."""

from __future__ import annotations

from oncelog_runtime.call_context import CallInfo


def peer_of(caller: CallInfo) -> str:
    """The caller's address without its port: `ipv4:10.0.0.7` of `ipv4:10.0.0.7:41234`."""
    address, _, port = caller.peer.rpartition(":")
    return address if port.isdecimal() else caller.peer
