"""How each kind of fault is done to real processes, and how it is ended.

Rule 1: `begin` returns what ends it; ending is always tried, also when the torture is interrupted.
Rule 2: a fault that may not happen at this moment raises `NotNow`, and is counted as such.
Rule 3: after `heal_all` nothing is cut, slow, frozen, full or down, whatever happened before.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from tests.blackbox.cluster import BlackBox, Node
from tests.blackbox.etcd_backup import restore
from tests.blackbox.host import ROOT, HarnessError
from tests.blackbox.plan import Fault, cuts
from tests.blackbox.rot import Flip, flip_in
from tests.blackbox.torture import Heal, NotNow

_HOUR_MS: Final = 3_600_000
_SLOW_ON_S: Final = 0.25


class Faults:
    """Does harm to a cluster. `kill_client` and `freeze_client` are given by who runs the clients."""

    def __init__(
        self, box: BlackBox, kill_client: Callable[[str], None], signal_client: Callable[[str, int], None]
    ) -> None:
        self.flips: list[Flip] = []
        self.backup: Path | None = None
        self._box = box
        self._kill_client = kill_client
        self._signal_client = signal_client
        self._names = [*box.nodes, *box.client_names]

    def begin(self, fault: Fault) -> Heal:
        """Does it. Raises `NotNow`, or `HarnessError`."""
        return DEEDS[fault.kind](self, fault)

    def heal_all(self) -> None:
        """Everything that is not as it should be is brought in order."""
        if self._box.is_real:
            self._box.network.cut([])
            self._box.network.lose([], 0.5)
        for name in self._names:
            with contextlib.suppress(HarnessError):
                if self._box.is_real:
                    self._box.network.quicken(name)
            (ROOT / "clocks" / name).unlink(missing_ok=True)
        for node in self._box.nodes.values():
            node.disk.thaw()
            node.process.kill(signal.SIGCONT)
            if node.disk.is_real:
                node.disk.empty_ballast()
            if node.is_down:
                self._box.revive(node)

    def _targets(self, fault: Fault) -> list[Node]:
        found = [self._box.nodes[name] for name in fault.targets]
        if any(node.is_down for node in found):
            raise NotNow("it is down")
        return found

    # ------------------------------------------------------------ processes

    def _kill(self, fault: Fault) -> Heal:
        nodes = self._targets(fault)
        for node in nodes:
            self._box.kill(node)
        return lambda: self._revive(nodes, fault)

    def _revive(self, nodes: list[Node], fault: Fault) -> None:
        """In a random order."""
        for node in Random(fault.chance).sample(nodes, len(nodes)):
            self._box.revive(node)

    def _freeze(self, fault: Fault) -> Heal:
        nodes = self._targets(fault)
        for node in nodes:
            node.process.kill(signal.SIGSTOP)
        return lambda: _each(lambda node: node.process.kill(signal.SIGCONT), nodes)

    def _kill_a_client(self, fault: Fault) -> Heal:
        for name in fault.targets:
            self._kill_client(name)
        return lambda: None

    def _freeze_client(self, fault: Fault) -> Heal:
        for name in fault.targets:
            self._signal_client(name, signal.SIGSTOP)
        return lambda: _each(lambda name: self._signal_client(name, signal.SIGCONT), fault.targets)

    def _etcd_restore(self, _fault: Fault) -> Heal:
        if self.backup is None:
            raise NotNow("there is no backup of etcd")
        members = self._box.of_kind("etcd")
        if any(node.is_down for node in members):
            raise NotNow("a member of etcd is down")
        for node in members:
            self._box.kill(node)
        backup = self.backup

        def heal() -> None:
            for node in members:
                restore(self._box, node, backup)
                self._box.revive(node)

        return heal

    # ------------------------------------------------------------ the network

    def _partition(self, fault: Fault) -> Heal:
        self._box.network.cut(cuts(fault, self._names))
        return lambda: self._box.network.cut([])

    def _lossy(self, fault: Fault) -> Heal:
        self._box.network.lose(fault.targets, Random(fault.chance).choice([0.02, 0.1, 0.3]))
        return lambda: self._box.network.lose([], 0.5)

    def _slow(self, fault: Fault) -> Heal:
        (name,) = fault.targets
        self._box.network.slow(name, Random(fault.chance).choice([200, 1_000, 5_000]))
        return lambda: self._box.network.quicken(name)

    # ------------------------------------------------------------ disks

    def _power_cut(self, fault: Fault) -> Heal:
        """All of them at the same moment: nobody does anything between the cut and its end."""
        nodes = self._targets(fault)
        for node in nodes:
            node.process.kill(signal.SIGSTOP)
        for node in nodes:
            node.disk.cut_power()
            self._box.kill(node)

        def heal() -> None:
            for node in nodes:
                node.disk.plug_in()
            self._revive(nodes, fault)

        return heal

    def _disk_full(self, fault: Fault) -> Heal:
        (node,) = self._targets(fault)
        node.disk.fill()
        return node.disk.empty_ballast

    def _disk_hangs(self, fault: Fault) -> Heal:
        (node,) = self._targets(fault)
        node.disk.freeze()
        return node.disk.thaw

    def _disk_slow(self, fault: Fault) -> Heal:
        """It hangs for a quarter of a second again and again."""
        (node,) = self._targets(fault)
        ended = threading.Event()

        def hang_again_and_again() -> None:
            while not ended.wait(_SLOW_ON_S / 5):
                node.disk.freeze()
                ended.wait(_SLOW_ON_S)
                node.disk.thaw()

        thread = threading.Thread(target=hang_again_and_again, name="slow disk", daemon=True)
        thread.start()

        def heal() -> None:
            ended.set()
            thread.join()

        return heal

    def _flip(self, fault: Fault) -> Heal:
        self._require_whole()
        (node,) = self._targets(fault)
        found = flip_in(node.disk.place / "data", Random(fault.chance))
        if found is None:
            raise NotNow("there is no byte to turn")
        self.flips.append(found)
        return lambda: None

    def _lost_disk(self, fault: Fault) -> Heal:
        self._require_whole()
        (node,) = self._targets(fault)
        self._box.kill(node)
        data = node.disk.place / "data"
        shutil.rmtree(data)

        def heal() -> None:
            self._box.revive(node)

        return heal

    def _require_whole(self) -> None:
        """A replica may lose what it has when every other one has it too, and no rot of an earlier fault is left."""
        if any(flip.is_there() for flip in self.flips):
            raise NotNow("an earlier flipped byte is still there")
        if problem := self._box.problem():
            raise NotNow(problem)

    # ------------------------------------------------------------ clocks

    def _clock(self, fault: Fault) -> Heal:
        random = Random(fault.chance)
        for name in fault.targets:
            (ROOT / "clocks" / name).write_text(str(random.choice([-_HOUR_MS, -5_000, -200, 200, 5_000, _HOUR_MS])))
        return lambda: _each(lambda name: (ROOT / "clocks" / name).unlink(missing_ok=True), fault.targets)


T = TypeVar("T")


def _each(deed: Callable[[T], None], targets: Iterable[T]) -> None:
    for target in targets:
        deed(target)


DEEDS: Final[dict[str, Callable[[Faults, Fault], Heal]]] = {
    "kill": Faults._kill,
    "kill-all": Faults._kill,
    "kill-client": Faults._kill_a_client,
    "freeze": Faults._freeze,
    "freeze-client": Faults._freeze_client,
    "etcd-kill": Faults._kill,
    "etcd-freeze": Faults._freeze,
    "etcd-restore": Faults._etcd_restore,
    "partition-one": Faults._partition,
    "partition-majority": Faults._partition,
    "partition-ring": Faults._partition,
    "partition-one-way": Faults._partition,
    "lossy": Faults._lossy,
    "slow": Faults._slow,
    "power-cut": Faults._power_cut,
    "power-cut-all": Faults._power_cut,
    "disk-full": Faults._disk_full,
    "disk-hangs": Faults._disk_hangs,
    "disk-slow": Faults._disk_slow,
    "clock": Faults._clock,
    "flip": Faults._flip,
    "lost-disk": Faults._lost_disk,
}
"""What does each kind of `plan.KINDS`."""
