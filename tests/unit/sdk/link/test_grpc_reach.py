"""What gRPC says of a connection that never came up, in words with a fix."""

from __future__ import annotations

import pytest

from oncelog.link.grpc_reach import explain_connect

WHERE = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.9.9.9:9092: "


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        ("DNS resolution failed for nowhere:9092: C-ares status is not ARES_SUCCESS: Domain name not found", "name"),
        (WHERE + "connect failed: No route to host (113)", "route"),
        (WHERE + "Network is unreachable", "route"),
        (WHERE + "Timeout occurred: FD Shutdown", "timeout"),
        (WHERE + "Failed to connect to remote host: connect() timed out", "timeout"),
        (WHERE + "tcp handshaker shutdown", "timeout"),
        (WHERE + "connection attempt timed out before receiving SETTINGS frame", "mute"),
        ("Received http2 header with status: 404", "other"),
    ],
)
def test_each_way_not_to_arrive_has_its_own_advice(details: str, kind: str) -> None:
    found = explain_connect(details)
    assert found is not None
    assert found.kind == kind
    assert ": check " in found.sentence


def test_what_is_not_known_is_left_as_it_is() -> None:
    assert explain_connect(WHERE + "Something else entirely") is None
