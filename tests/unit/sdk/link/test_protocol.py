"""What both ends agree on before anything is asked: a version, and the cluster."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.link.protocol import KnownCluster
from oncelog.v1 import link_pb2


def hello(cluster_id: str = "", least: int = 1, most: int = 1) -> link_pb2.Hello:
    return link_pb2.Hello(protocol_min=least, protocol_max=most, cluster_id=cluster_id)


def test_a_process_learns_its_cluster_from_the_first_peer_that_names_one() -> None:
    cluster = KnownCluster()
    for said in ("", "one", "", "one"):
        cluster.check(hello(said), "there")
    assert cluster.id == "one"
    with pytest.raises(errors.WrongClusterError):
        cluster.check(hello("two"), "there")
    assert cluster.id == "one"


@pytest.mark.parametrize(("least", "most"), [(2, 9), (0, 0)])
def test_no_version_in_common_is_said_with_both(least: int, most: int) -> None:
    with pytest.raises(errors.UnsupportedVersionError, match=f"protocol {least} to {most}, this side 1 to 1"):
        KnownCluster().check(hello(least=least, most=most), "there")


def test_versions_that_overlap_will_do() -> None:
    KnownCluster().check(hello(least=0, most=7), "there")


def test_who_says_no_hello_is_no_peer() -> None:
    with pytest.raises(errors.NetworkError, match="did not begin with a hello"):
        KnownCluster().check(None, "there")
