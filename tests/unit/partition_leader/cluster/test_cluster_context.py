"""What a broker knows of its cluster is always as new as its registration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.cluster_context import ClusterContext


def test_a_broker_that_registers_anew_is_somebody_else_from_then_on() -> None:
    unused: Any = None
    registration: Any = SimpleNamespace(ref=BrokerRef(1, 0))
    cluster = ClusterContext(unused, registration, unused, unused)
    assert cluster.me() == BrokerRef(1, 0)
    registration.ref = BrokerRef(1, 7)
    assert cluster.me() == BrokerRef(1, 7)
