"""A torture on a cluster of its own: processes in namespaces, with disks that can be harmed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.blackbox.clients import Clients
from tests.blackbox.cluster import BlackBox
from tests.blackbox.etcd_backup import backup
from tests.blackbox.faults import Faults
from tests.blackbox.host import ROOT, Healthy
from tests.blackbox.plan import KINDS, Fault, schedule
from tests.blackbox.torture import Heal


class OwnGround:
    """`allowed`: kinds of faults. `one_by_one`: each round has one of them, in their order. See `torture.Ground`."""

    def __init__(
        self,
        box: BlackBox,
        seed: int,
        allowed: Collection[str],
        *,
        quiet_rounds: bool = True,
        one_by_one: bool = False,
    ) -> None:
        self.servers = box.servers
        self.brokers = list(range(box.brokers))
        self._box = box
        self._seed = seed
        self._allowed = usable(box, allowed)
        self._quiet_rounds = quiet_rounds and not one_by_one
        self._one_by_one = one_by_one
        self._lives = itertools.count(1)
        self._clients: Clients | None = None
        self._faults = Faults(box, self._kill_client, self._signal_client)

    def round_name(self, number: int) -> str:
        """A cluster of our own has seen nothing before."""
        return str(number)

    def clients(self, number: int) -> Clients:
        """The clients of a round."""
        return Clients(
            self.servers,
            self.round_name(number),
            self._box.client_names,
            self._box.spawn,
            ROOT / "logs",
            lambda: next(self._lives),
            _log_end,
            self._seed,
        )

    def schedule(self, number: int, seconds: float) -> list[Fault]:
        """Drawn from the seed."""
        names = [*self._box.nodes, *self._box.client_names]
        allowed = self._allowed
        if self._one_by_one and allowed:
            allowed = [allowed[number % len(allowed)]]
        return schedule(self._seed, number, seconds, names, allowed, quiet=self._quiet_rounds)

    def before_round(self, clients: Clients) -> None:
        """etcd is backed up: a restore knows the topics of the round."""
        self._clients = clients
        self._faults.backup = backup(self._box)

    def begin(self, fault: Fault) -> Heal:
        """See `Faults`."""
        return self._faults.begin(fault)

    def heal_all(self) -> None:
        """See `Faults`."""
        self._faults.heal_all()

    def wait_healthy(self) -> Healthy:
        """See `BlackBox`."""
        return self._box.wait_healthy()

    def left_over(self) -> list[str]:
        """Turned bits that the brokers' scrubbing did not find: it passes over all logs every ten seconds."""
        return [
            f"rot-stays: a bit of {flip.path} at {flip.position} is wrong still" for flip in self._faults.unmended()
        ]

    def restarted(self) -> list[str]:
        """See `BlackBox`."""
        return self._box.ended_alone()

    def effects(self) -> tuple[Counter[str], Counter[str]]:
        """See `Faults`."""
        return self._faults.taken_effects()

    def logs(self) -> list[Path]:
        """The brokers' folders."""
        return [node.disk.place / "data" / "logs" for node in self._box.of_kind("broker")]

    def _kill_client(self, name: str) -> int:
        assert self._clients is not None
        return self._clients.kill(name)

    def _signal_client(self, name: str, number: int) -> int:
        assert self._clients is not None
        return self._clients.signal(name, number)


def usable(box: BlackBox, allowed: Collection[str]) -> list[str]:
    """The kinds that this cluster can suffer: some need namespaces and mounts, restores an etcd that keeps what it commits."""
    return [name for name in KINDS if name in allowed and (box.is_real or not KINDS[name].needs_real)]


def _log_end(name: str) -> str:
    """The last words of a client."""
    path = ROOT / "logs" / f"{name}.log"
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return " | ".join(lines[-3:])
