"""Who shares one peer's part of links and memory."""

from __future__ import annotations

import pytest

from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.serving.call_context import CallInfo
from oncelog_runtime.serving.peer_key import peer_of


@pytest.mark.parametrize(
    ("peer", "principal", "key"),
    [
        ("ipv4:10.0.0.7:41234", "User:ann", "User:ann"),
        ("ipv4:10.0.0.8:1", "User:ann", "User:ann"),
        ("ipv4:10.0.0.7:41234", "User:bob", "User:bob"),
        ("ipv4:10.0.0.7:41234", ANONYMOUS, "ipv4:10.0.0.7"),
        ("ipv4:10.0.0.7:41234", "", "ipv4:10.0.0.7"),
        ("ipv6:[::1]:41234", "", "ipv6:[::1]"),
        ("unix:", "", "unix:"),
    ],
)
def test_a_principal_is_one_peer_and_who_has_no_name_is_its_address(peer: str, principal: str, key: str) -> None:
    access = Policy().access(principal, "10.0.0.7") if principal else None
    assert peer_of(CallInfo(peer, listener="client", access=access)) == key
