"""How each kind of fault is done to real processes, and how it is ended.

Rule 1: `begin` returns what ends it; ending is always tried, also when the torture is interrupted.
Rule 2: a fault that may not happen at this moment raises `NotNow`, and is counted as such.
Rule 3: after `heal_all` nothing is cut, slow, frozen, full or down, whatever happened before.
Rule 4: each fault that was done is looked for at the machine (`evidence.py`): `seen` counts those that were found there,
        `unseen` those that were not, because nothing met them or because they were not done.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from tests.blackbox.cluster import BlackBox, Node
from tests.blackbox.etcd_backup import restore
from tests.blackbox.evidence import is_gone, is_stopped
from tests.blackbox.host import ROOT, HarnessError
from tests.blackbox.plan import Fault, cuts
from tests.blackbox.rot import Flip, flip_in
from tests.blackbox.torture import Heal, NotNow
from tests.blackbox.wrapped import seen_file

_HOUR_MS: Final = 3_600_000
_JUMPS_MS: Final = (-_HOUR_MS, -5_000, -200, 200, 5_000, _HOUR_MS)
_SCRUB_S: Final = 60.0
_SLOW_ON_S: Final = 0.25


class Faults:
    """Does harm to a cluster. `kill_client` and `signal_client` are of who runs the clients; they return a process id."""

    def __init__(
        self, box: BlackBox, kill_client: Callable[[str], int], signal_client: Callable[[str, int], int]
    ) -> None:
        self.seen: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        self.flips: list[Flip] = []
        self.backup: Path | None = None
        self._box = box
        self._moved: set[str] = set()
        """Brokers whose clocks were moved in this round."""
        self._kill_client = kill_client
        self._signal_client = signal_client
        self._names = [*box.nodes, *box.client_names]

    def begin(self, fault: Fault) -> Heal:
        """Does it. Raises `NotNow`, or `HarnessError`."""
        try:
            return DEEDS[fault.kind](self, fault)
        except OSError as error:
            raise HarnessError(f"{fault} could not be done: {error}") from error

    def _look(self, fault: Fault, is_there: bool) -> None:
        """See rule 4."""
        (self.seen if is_there else self.unseen)[fault.kind] += 1

    def taken_effects(self) -> tuple[Counter[str], Counter[str]]:
        """`seen` and `unseen`, which begin anew."""
        found = self.seen, self.unseen
        self.seen, self.unseen = Counter(), Counter()
        return found

    def unmended(self) -> list[Flip]:
        """Flips whose wrong bytes are still there when scrubbing should have met them."""
        deadline = time.monotonic() + _SCRUB_S
        while (left := [flip for flip in self.flips if flip.is_there()]) and time.monotonic() < deadline:
            time.sleep(0.5)
        return left

    def heal_all(self) -> None:
        """Everything that is not as it should be is brought in order."""
        self._moved = set()
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
        pids = [node.process.popen.pid for node in nodes if node.process.popen is not None]
        for node in nodes:
            self._box.kill(node)
        self._look(fault, len(pids) == len(nodes) and all(map(is_gone, pids)))
        return lambda: self._revive(nodes, fault)

    def _stop(self, fault: Fault) -> Heal:
        """As an operator stops a process: SIGTERM. Who is not gone when it is to be started again is killed."""
        nodes = self._targets(fault)
        for node in nodes:
            self._box.stop_one(node)

        def heal() -> None:
            pids = [self._box.await_end(node) for node in nodes]
            self._look(fault, all(map(is_gone, pids)))
            self._revive(nodes, fault)

        return heal

    def _revive(self, nodes: list[Node], fault: Fault) -> None:
        """In a random order."""
        for node in Random(fault.chance).sample(nodes, len(nodes)):
            self._box.revive(node)

    def _freeze(self, fault: Fault) -> Heal:
        nodes = self._targets(fault)
        for node in nodes:
            node.process.kill(signal.SIGSTOP)

        def heal() -> None:
            self._look(fault, all(node.process.popen and is_stopped(node.process.popen.pid) for node in nodes))
            _each(lambda node: node.process.kill(signal.SIGCONT), nodes)

        return heal

    def _kill_a_client(self, fault: Fault) -> Heal:
        pids = [self._kill_client(name) for name in fault.targets]
        self._look(fault, all(map(is_gone, pids)))
        return lambda: None

    def _freeze_client(self, fault: Fault) -> Heal:
        pids = [self._signal_client(name, signal.SIGSTOP) for name in fault.targets]

        def heal() -> None:
            self._look(fault, all(map(is_stopped, pids)))
            _each(lambda name: self._signal_client(name, signal.SIGCONT), fault.targets)

        return heal

    def _etcd_restore(self, fault: Fault) -> Heal:
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
            self._look(fault, all((node.disk.place / "data" / "member").is_dir() for node in members))
            for node in members:
                self._box.revive(node)

        return heal

    # ------------------------------------------------------------ the network

    def _partition(self, fault: Fault) -> Heal:
        network = self._box.network
        network.cut(cuts(fault, self._names))

        def heal() -> None:
            self._look(fault, network.cut_packets() > 0)
            network.cut([])

        return heal

    def _lossy(self, fault: Fault) -> Heal:
        network = self._box.network
        network.lose(fault.targets, Random(fault.chance).choice([0.02, 0.1, 0.3]))

        def heal() -> None:
            self._look(fault, network.lost_packets() > 0)
            network.lose([], 0.5)

        return heal

    def _slow(self, fault: Fault) -> Heal:
        (name,) = fault.targets
        network = self._box.network
        network.slow(name, Random(fault.chance).choice([200, 1_000, 5_000]))

        def heal() -> None:
            self._look(fault, network.held_packets(name) > 0)
            network.quicken(name)

        return heal

    # ------------------------------------------------------------ disks

    def _power_cut(self, fault: Fault) -> Heal:
        """All of them at the same moment: nobody does anything between the cut and its end."""
        nodes = self._targets(fault)
        self._pull_the_plug(nodes)

        def heal() -> None:
            lost = [node.disk.plug_in() for node in nodes]
            self._look(fault, all(lost))
            self._revive(nodes, fault)

        return heal

    def _power_cut_loss(self, fault: Fault) -> Heal:
        """All brokers lose their power, and one of them its disk: what is synced is on the others."""
        self._require_whole()
        nodes = self._targets(fault)
        self._pull_the_plug(nodes)

        def heal() -> None:
            lost = [node.disk.plug_in() for node in nodes]
            disk = nodes[0].disk
            disk.lose_all()
            self._look(fault, all(lost) and disk.is_empty())
            self._revive(nodes, fault)

        return heal

    def _pull_the_plug(self, nodes: list[Node]) -> None:
        for node in nodes:
            node.process.kill(signal.SIGSTOP)
        for node in nodes:
            node.disk.cut_power()
            self._box.kill(node)

    def _disk_full(self, fault: Fault) -> Heal:
        (node,) = self._targets(fault)
        self._look(fault, node.disk.fill())
        return node.disk.empty_ballast

    def _disk_hangs(self, fault: Fault) -> Heal:
        (node,) = self._targets(fault)
        node.disk.freeze()

        def heal() -> None:
            self._look(fault, node.disk.is_frozen())
            node.disk.thaw()

        return heal

    def _disk_slow(self, fault: Fault) -> Heal:
        """It hangs for a quarter of a second again and again."""
        (node,) = self._targets(fault)
        ended = threading.Event()
        hangs: list[bool] = []

        def hang_again_and_again() -> None:
            while not ended.wait(_SLOW_ON_S / 5):
                node.disk.freeze()
                hangs.append(node.disk.is_frozen())
                ended.wait(_SLOW_ON_S)
                node.disk.thaw()

        thread = threading.Thread(target=hang_again_and_again, name="slow disk", daemon=True)
        thread.start()

        def heal() -> None:
            ended.set()
            thread.join()
            self._look(fault, bool(hangs) and all(hangs))

        return heal

    def _flip(self, fault: Fault) -> Heal:
        self._require_whole()
        (node,) = self._targets(fault)
        found = flip_in(node.disk.place / "data", Random(fault.chance))
        if found is None:
            raise NotNow("there is no byte to turn")
        self.flips.append(found)
        self._look(fault, found.is_there())
        return lambda: None

    def _lost_disk(self, fault: Fault) -> Heal:
        self._require_whole()
        (node,) = self._targets(fault)
        self._box.kill(node)
        node.disk.lose_all()
        self._look(fault, node.disk.is_empty())
        return lambda: self._box.revive(node)

    def _require_whole(self) -> None:
        """A replica may lose what it has when every other one has it too, and no rot of an earlier fault is left."""
        if any(flip.is_there() for flip in self.flips):
            raise NotNow("an earlier flipped byte is still there")
        if problem := self._box.problem():
            raise NotNow(problem)

    # ------------------------------------------------------------ clocks

    def _clock(self, fault: Fault) -> Heal:
        """Most brokers' clocks stay right: by them the cluster tells when a delayed record is due, and when a pause ends.

        What a broker's clock was may be remembered for a while. So in a round few have wrong ones, also one after the other.
        """
        moved_brokers = self._moved | {name for name in fault.targets if name.startswith("broker-")}
        if 2 * len(moved_brokers) >= len(self._box.of_kind("broker")):
            raise NotNow("most brokers' clocks would be wrong")
        self._moved = moved_brokers
        random = Random(fault.chance)
        moved = {ROOT / "clocks" / name: str(random.choice(_JUMPS_MS)) for name in fault.targets}
        for file, jump_ms in moved.items():
            Path(seen_file(str(file))).unlink(missing_ok=True)
            file.write_text(jump_ms)

        def heal() -> None:
            self._look(fault, all(_text(Path(seen_file(str(file)))) == jump_ms for file, jump_ms in moved.items()))
            _each(lambda file: file.unlink(missing_ok=True), moved)

        return heal


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


T = TypeVar("T")


def _each(deed: Callable[[T], object], targets: Iterable[T]) -> None:
    for target in targets:
        deed(target)


DEEDS: Final[dict[str, Callable[[Faults, Fault], Heal]]] = {
    "kill": Faults._kill,
    "kill-all": Faults._kill,
    "stop": Faults._stop,
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
    "power-cut-loss": Faults._power_cut_loss,
    "disk-full": Faults._disk_full,
    "disk-hangs": Faults._disk_hangs,
    "disk-slow": Faults._disk_slow,
    "clock": Faults._clock,
    "flip": Faults._flip,
    "lost-disk": Faults._lost_disk,
}
"""What does each kind of `plan.KINDS`."""
