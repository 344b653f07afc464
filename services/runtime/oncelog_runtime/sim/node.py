"""One simulated machine: a name, a disk that outlives its processes, and at most one process at a time.

Rule 1: a crash unplugs first and cancels then: `finally` blocks of dying code reach no disk, no peer and no etcd.
Rule 2: `kill` is kill -9 (the kernel stays up: written bytes stay, peers get a refused connection at once);
        `crash` is a power cut (unsynced bytes are lost; with `silent`, peers get no connection error);
        `lose_volume` loses everything, as a pod that comes back elsewhere.
Rule 3: everything that the process's code starts belongs to its `Life`, however deep: the context variable is
        inherited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from random import Random
from typing import Protocol, TypeVar

from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.sim.clock import SimClock
from oncelog_runtime.sim.disk import SimDisk
from oncelog_runtime.sim.faults import FaultPlan
from oncelog_runtime.sim.helpers import SimHelpers
from oncelog_runtime.sim.loop import Life, SimLoop, SimTask
from oncelog_runtime.sim.metadata import SimMetadata, SimMetadataClient
from oncelog_runtime.sim.network import SimNetwork
from oncelog_runtime.sim.server import SimServer
from oncelog_runtime.sim.threads import SimThreads
from oncelog_runtime.sim.transport import SimTransport

T = TypeVar("T")
Main = Callable[[NodePorts], Awaitable[object]]


class Surroundings(Protocol):
    """All that a node has around it; a `SimWorld` is one."""

    seed: int | str
    plan: FaultPlan
    loop: SimLoop
    network: SimNetwork
    metadata: SimMetadata


class SimNode:
    """One machine. `main(ports)` is started in each process, if given. `disturbable` False: the fault driver leaves it
    alone.

    Its fields are the parts of a machine (disk, clock, process, ports) and the faults that hold it at the moment.
    """

    def __init__(
        self,
        world: Surroundings,
        name: str,
        main: Main | None = None,
        port: int = 9092,
        more: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self.address = f"{name}:{port}"
        self._more = {listener: f"{name}:{number}" for listener, number in (more or {}).items()}
        self.lives = 0
        self._volumes = 0
        self.disturbable = True
        self.paused = False
        self._blocked: Life | None = None
        self._world = world
        self._main = main
        self._random = Random(f"{world.seed}:node:{name}")
        skew = self._random.randint(-world.plan.skew_max_ms, world.plan.skew_max_ms)
        drift = world.plan.drift_max * (2 * self._random.random() - 1)
        self.clock = SimClock(world.loop, skew, drift)
        self.disk = SimDisk(world.loop, Random(f"{world.seed}:disk:{name}"), world.plan, name)
        self.life: Life
        self.ports: NodePorts
        self.main_task: SimTask[object] | None = None
        self._transport: SimTransport
        self._metadata: SimMetadataClient
        self._begin()

    @property
    def is_up(self) -> bool:
        """True while a process runs and is not paused."""
        return not self.life.dead and not self.paused

    def spawn(self, coro: Coroutine[object, None, T], name: str | None = None) -> SimTask[T]:
        """Runs a coroutine as code of the current process."""
        return self._world.loop.create_task(
            coro, name=f"{self.name}:{name or 'task'}", context=self.life.context.copy()
        )

    def crash(self, *, silent: bool = False) -> None:
        """Simulates a power cut."""
        self._die(silent)
        self.thaw_disk()
        self.disk = self.disk.after_power_cut()

    def kill(self) -> None:
        """Simulates kill -9."""
        self._die(silent=False)
        self.disk = self.disk.after_kill()

    def lose_volume(self) -> None:
        """Loses the machine with its disk; the next process under this name finds an empty one."""
        if not self.life.dead:
            self._die(silent=True)
        self.thaw_disk()
        self._volumes += 1
        world = self._world
        world.loop.trace(f"volume lost {self.name}")
        self.disk = SimDisk(world.loop, Random(f"{world.seed}:disk:{self.name}:{self._volumes}"), world.plan, self.name)

    def pause(self, ms: float) -> None:
        """Simulates SIGSTOP, or a long garbage collection: nothing of this process runs, messages wait."""
        life = self.life
        if self._freeze():
            self._world.loop.call_later(ms / 1000, self._resume, life, context=self._world.loop.world)

    def _freeze(self) -> bool:
        if self.life.dead or self.paused:
            return False
        self.life.pause()
        self.paused = True
        self._world.loop.trace(f"pause {self.name}")
        return True

    def hang_disk(self, *, appends: bool = False) -> None:
        """Makes the disk hang, without an error, until `thaw_disk`: its syncs do not end.

        `appends`: writes block too, and with the first one the whole process, since it writes on its event loop.
        """
        self.disk.hang(self._block if appends else None)

    def thaw_disk(self) -> None:
        """Makes the disk answer again, and resumes a process that it had blocked."""
        self.disk.thaw()
        if self._blocked is not None:
            life, self._blocked = self._blocked, None
            self._resume(life)

    def _block(self) -> None:
        if self._freeze():
            self._blocked = self.life

    def restart(self) -> NodePorts:
        """Starts a new process on the same disk; the old one, if any, is killed. Returns its ports."""
        if not self.life.dead:
            self.kill()
        self._begin()
        return self.ports

    def _begin(self) -> None:
        world = self._world
        self.lives += 1
        self.paused = False
        self.life = life = Life(world.loop, f"{self.name}#{self.lives}")
        world.network.plug(self.name)
        self._transport = world.network.transport(self.name, life)
        self._metadata = world.metadata.client(self.name, life)
        server: SimServer = world.network.server(self.address, life, self._more)
        random = Random(f"{world.seed}:life:{self.name}:{self.lives}")
        helpers = SimHelpers(self.disk, Random(f"{world.seed}:helpers:{life.name}"), lambda: world.plan, life.name)
        threads = SimThreads(Random(f"{world.seed}:threads:{life.name}"))
        self.ports = NodePorts(self._transport, server, self.disk, self._metadata, self.clock, random, helpers, threads)
        server.quotas = self.ports.quotas
        world.loop.trace(f"start {life.name}")
        if self._main is not None:
            self.main_task = self.spawn(self._run(self._main, self.ports), "main")

    @staticmethod
    async def _run(main: Main, ports: NodePorts) -> object:
        return await main(ports)

    def _resume(self, life: Life) -> None:
        if life is self.life:
            self.paused = False
        life.resume()

    def _die(self, silent: bool) -> None:
        if self.life.dead:
            raise RuntimeError(f"{self.name} is dead already")
        self._world.loop.trace(f"die {self.life.name} {silent}")
        self.life.dead = True
        self._world.network.unplug(self.name, self.life, silent=silent)
        self._metadata.unplug()
        self.disk.dead = True
        self.life.kill()

    def unplug(self) -> None:
        """Ends the process, if any; it has no effect outside afterwards."""
        if not self.life.dead:
            self._die(silent=True)

    async def stopped(self) -> None:
        """Waits until `main` has returned (a clean stop)."""
        if self.main_task is not None:
            await asyncio.wait([self.main_task])
