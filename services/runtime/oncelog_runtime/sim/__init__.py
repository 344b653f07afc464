"""The deterministic simulation: one process, virtual time, and ports that fail on command.

world = SimWorld(seed=7)
node = world.node("broker-1", main)      # main(ports: NodePorts) is production code
world.run(scenario(world))               # node.crash(), node.pause(ms), world.network.partition(...)
"""

from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.fault_driver import FaultDriver
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.loop import Life, SimLoop, SimStuckError, SimTaskError
from oncelog_runtime.sim.metadata import SimMetadata, Snapshot
from oncelog_runtime.sim.network import SimNetwork
from oncelog_runtime.sim.node import SimNode
from oncelog_runtime.sim.server import SimServer
from oncelog_runtime.sim.transport import SimTransport
from oncelog_runtime.sim.world import SimWorld

__all__ = [
    "FaultDriver",
    "FaultPlan",
    "Life",
    "SimClock",
    "SimDisk",
    "SimLoop",
    "SimMetadata",
    "SimNetwork",
    "SimNode",
    "SimServer",
    "SimStuckError",
    "SimTaskError",
    "SimTransport",
    "SimWorld",
    "Snapshot",
]
