"""The things that both ends of a link must agree on: versions, the bound of an envelope, and their cluster."""

from __future__ import annotations

from typing import Final

from oncelog import errors
from oncelog.v1 import link_pb2

PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1
ENVELOPE_BYTES: Final = 1 << 20
"""An envelope takes further frames up to this size; a larger frame travels alone."""
LINK_ITSELF: Final = 0
"""The correlation id of an ERROR frame that is about the link: a refused hello, or a server that goes away."""


def check_versions(hello: link_pb2.Hello, address: str) -> None:
    """Raises `UnsupportedVersionError` when the peer and this process have no protocol version in common."""
    if hello.protocol_min > PROTOCOL_MAX or hello.protocol_max < PROTOCOL_MIN:
        raise errors.UnsupportedVersionError(
            f"{address} speaks protocol {hello.protocol_min} to {hello.protocol_max}, this side {PROTOCOL_MIN} to "
            f"{PROTOCOL_MAX}: upgrade the older one",
            address=address,
            software=hello.software,
        )


def check_cluster(ours: str, theirs: str, address: str) -> None:
    """Raises `WrongClusterError` when both sides know their cluster, and not the same one."""
    if ours and theirs and ours != theirs:
        raise errors.WrongClusterError(
            f"{address} belongs to another cluster", address=address, expected=ours, found=theirs
        )


class KnownCluster:
    """The cluster that a process belongs to, for all of its links; empty until a peer or the configuration names it."""

    def __init__(self, cluster_id: str = "") -> None:
        self.id = cluster_id

    def check(self, hello: link_pb2.Hello | None, address: str) -> None:
        """Learns the cluster's id from the first hello that names it.

        Raises `UnsupportedVersionError`, `WrongClusterError`, or `NetworkError` for no hello at all.
        """
        if hello is None:
            raise errors.NetworkError(f"{address} did not begin with a hello", address=address)
        check_versions(hello, address)
        check_cluster(self.id, hello.cluster_id, address)
        self.id = self.id or hello.cluster_id
