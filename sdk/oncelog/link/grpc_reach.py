"""Why a connection never came up: gRPC's details in a sentence with a fix.

Rule: what is not known is not guessed: then gRPC's own words stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ConnectFailure:
    """`kind` is "name", "route", "timeout", "mute" or "other"; `sentence` is for people."""

    kind: str
    sentence: str


_NAME: Final = ("Domain name not found", "Name or service not known", "nodename nor servname", "DNS resolution failed")
_ROUTE: Final = ("No route to host", "Network is unreachable", "Host is unreachable", "Host is down")
_MUTE: Final = ("before receiving SETTINGS frame",)
_OTHER: Final = ("Received http2 header with status",)
_TIMEOUT: Final = ("timed out", "tcp handshaker shutdown", "Timeout occurred", "FD Shutdown", "FD shutdown")
_KINDS: Final = (
    (
        _MUTE,
        ConnectFailure("mute", "something listens there and says nothing: check that it is a broker's port, and TLS"),
    ),
    (
        _OTHER,
        ConnectFailure("other", "what answers there is no broker: check the port, and whether a proxy is in between"),
    ),
    (_NAME, ConnectFailure("name", "no such host name: check its spelling, and the DNS of this machine")),
    (_ROUTE, ConnectFailure("route", "no route to this host: check the address, and the network of this machine")),
    (
        _TIMEOUT,
        ConnectFailure("timeout", "the connection timed out: check the address, and whether a firewall drops it"),
    ),
)


def explain_connect(details: str) -> ConnectFailure | None:
    """From gRPC's details of a call that never left. None: nothing that is known here."""
    for words, failure in _KINDS:
        if any(word in details for word in words):
            return failure
    return None
