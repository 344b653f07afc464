"""The ports that one service process gets from the outside world.

The composition root fills them: with adapters in a real process, with simulated ones in the simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from oncelog.ports import Transport, WallClock
from oncelog.trace.tracing import Tracer
from oncelog_runtime.observability.health import HealthState
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.ports import Disk, Helpers, MetadataStore, RpcServer, Threads
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.quotas import Quotas


@dataclass(frozen=True, slots=True)
class NodePorts:
    """All ports of a service process."""

    transport: Transport
    server: RpcServer
    disk: Disk
    metadata: MetadataStore
    clock: WallClock
    random: Random
    """In a real process the operating system's random source: keys are made with it."""
    helpers: Helpers
    threads: Threads
    health: HealthState = field(default_factory=HealthState)
    tracer: Tracer | None = None
    """None: tracing is off, as in the simulation."""
    metrics: NodeMetrics = field(default_factory=NodeMetrics)
    descriptors: int = 0
    """The limit of open files and sockets of this process; 0 = none."""
    security: Authorizer | None = None
    """None: access rules are off."""
    quotas: Quotas = field(default_factory=Quotas)
    """The quotas of each caller."""
