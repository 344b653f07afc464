"""Counts of links: by listener, by peer and by connection, and when one more is a crowd."""

from __future__ import annotations

import pytest

from oncelog_runtime.adapters.grpc.grpc_server import ServerOptions
from oncelog_runtime.adapters.grpc.link.link_host import (
    MAX_GREETING_PER_PEER,
    MAX_LINKS_PER_CONNECTION,
    LinkHost,
    Visitor,
)
from oncelog_runtime.core.shares import Shares
from oncelog_runtime.serving.quotas import Quotas


@pytest.fixture
def host() -> LinkHost:
    options = ServerOptions()
    return LinkHost(
        handlers={},
        software="test",
        cluster_id="",
        max_message_bytes=options.max_message_bytes,
        max_requests_per_link=1,
        max_bytes_per_link=1,
        max_links=10_000,
        default_timeout_ms=1,
        shares=Shares(options.memory_limits()),
        max_links_per_peer=200,
        quotas=Quotas(),
    )


def add(host: LinkHost, connection: str, peer: str = "10.0.0.7", *, let_in: bool = False) -> Visitor:
    link = Visitor("client", connection, peer, lambda error: None, is_let_in=let_in)
    host.add(link)
    host.let_in["client", peer] += let_in
    return link


def is_crowd(host: LinkHost, connection: str, peer: str = "10.0.0.7") -> bool:
    return host.is_crowd("client", connection, peer)


def test_a_connection_may_hold_few_links(host: LinkHost) -> None:
    for _ in range(MAX_LINKS_PER_CONNECTION):
        assert not is_crowd(host, "10.0.0.7:1")
        add(host, "10.0.0.7:1")
    assert is_crowd(host, "10.0.0.7:1")
    assert not is_crowd(host, "10.0.0.7:2")
    host.remove(next(iter(host.links.values())))
    assert not is_crowd(host, "10.0.0.7:1")


def test_an_address_may_be_silent_on_few_links(host: LinkHost) -> None:
    for number in range(MAX_GREETING_PER_PEER):
        assert not is_crowd(host, f"10.0.0.7:{number}")
        add(host, f"10.0.0.7:{number}")
    assert is_crowd(host, "10.0.0.7:9999")
    assert not is_crowd(host, "10.0.0.8:1", peer="10.0.0.8")


def test_links_that_were_let_in_are_not_among_the_silent_ones(host: LinkHost) -> None:
    for number in range(2 * MAX_GREETING_PER_PEER):
        assert not is_crowd(host, f"10.0.0.7:{number}")
        add(host, f"10.0.0.7:{number}", let_in=True)


def test_what_has_ended_is_counted_nowhere(host: LinkHost) -> None:
    links = [add(host, f"10.0.0.7:{number % 3}", let_in=number % 2 == 0) for number in range(12)]
    for link in links:
        host.remove(link)
    assert not host.links
    assert not host.links_on
    assert not host.links_of
    assert not host.let_in
    assert host.no_links.is_set()
