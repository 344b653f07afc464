"""Everything that one service process gets from the outside world.

The composition root fills it: with adapters in a real process, with simulated ones in the simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from oncelog.ports import Transport, WallClock
from oncelog.trace.tracing import Tracer
from oncelog_runtime.observability.health import HealthState
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.ports import Disk, MetadataStore, RpcServer
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.quotas import Quotas


@dataclass(frozen=True, slots=True)
class NodePorts:
    """Everything a service process gets from outside. The composition root fills it: adapters, or the simulation."""

    transport: Transport
    server: RpcServer
    disk: Disk
    metadata: MetadataStore
    clock: WallClock
    random: Random
    """In a real process the operating system's: keys are made of it."""
    health: HealthState = field(default_factory=HealthState)
    tracer: Tracer | None = None
    """None: nothing is traced, as in the simulation."""
    metrics: NodeMetrics = field(default_factory=NodeMetrics)
    descriptors: int = 0
    """Files and sockets that this process may have open; 0 = without limit."""
    security: Authorizer | None = None
    """None: access rules are off."""
    quotas: Quotas = field(default_factory=Quotas)
    """How much each caller may do."""
