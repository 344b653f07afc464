"""Both observers observe every event of the port, and nothing else."""

from __future__ import annotations

import inspect

import pytest

from oncelog_partition_leader.replication.observe.metrics_observer import MetricsObserver
from oncelog_partition_leader.replication.observe.observer import BrokerObserver
from oncelog_partition_leader.replication.observe.trace_observer import TraceObserver


def events(of: type) -> dict[str, list[str]]:
    """Event -> parameters."""
    found = inspect.getmembers(of, inspect.isfunction)
    return {name: list(inspect.signature(f).parameters) for name, f in found if not name.startswith("_")}


@pytest.mark.parametrize("implementation", [MetricsObserver, TraceObserver])
def test_an_implementation_has_the_events_of_the_port(implementation: type) -> None:
    assert events(implementation) == events(BrokerObserver)
