"""Which faults happen when: a schedule is drawn from a seed, before anything runs.

Rule 1: swarm style: each round has a random subset of the kinds, so that no fault hides another one; every fourth has none.
Rule 2: a node has one fault at a time. Faults of the network that replace each other's rules do not overlap.
Rule 3: a kind that destroys what a replica holds (`LOSSES`) happens once in a round, and the round begins healthy: the
        promise covers one loss at a time. Whether it may happen at that moment is asked again when it is due.
Rule 4: the last fault ends before the round's load does, so that a part of the load meets a cluster that heals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

ANY: Final = ("broker", "coordinator", "allocator", "etcd")
SERVING: Final = ("broker", "coordinator", "allocator")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: whom it hits, for how long, and what it does not overlap with."""

    name: str
    targets: tuple[str, ...]
    lasts_s: tuple[float, float]
    how_many: tuple[int, int] = (1, 1)
    lane: str = ""
    """Faults of one lane follow each other; empty: the targets are the lane."""
    weight: int = 2
    needs_real: bool = True
    """It needs namespaces and mounts of the harness."""


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("kill", SERVING, (0.5, 6), (1, 2), weight=4, needs_real=False),
        Kind("kill-all", ("broker",), (0.2, 4), (99, 99), weight=1, needs_real=False),
        Kind("stop", SERVING, (0.5, 6), (1, 2), weight=2, needs_real=False),
        Kind("kill-client", ("client",), (0.2, 1), weight=1, needs_real=False),
        Kind("freeze", SERVING, (1, 8), (1, 2), weight=3, needs_real=False),
        Kind("freeze-client", ("client",), (2, 12), weight=1, needs_real=False),
        Kind("etcd-kill", ("etcd",), (1, 5), (1, 2), weight=2, needs_real=False),
        Kind("etcd-freeze", ("etcd",), (1, 4), weight=1, needs_real=False),
        Kind("etcd-restore", ("etcd",), (1, 2), (99, 99), weight=1, needs_real=False),
        Kind("partition-one", (*ANY, "client"), (2, 8), lane="cut", weight=3),
        Kind("partition-majority", ANY, (2, 8), (99, 99), lane="cut", weight=2),
        Kind("partition-ring", ("broker",), (2, 8), (99, 99), lane="cut", weight=2),
        Kind("partition-one-way", ("broker", "coordinator"), (2, 8), (2, 2), lane="cut", weight=3),
        Kind("lossy", (*ANY, "client"), (2, 6), (1, 4), lane="loss", weight=2),
        Kind("slow", ("broker", "client"), (2, 6), weight=2),
        Kind("power-cut", ("broker",), (0.5, 5), weight=3),
        Kind("power-cut-all", ("broker",), (0.5, 3), (99, 99), weight=2),
        Kind("power-cut-loss", ("broker",), (0.5, 3), (99, 99), weight=1),
        Kind("disk-full", ("broker",), (1, 6), weight=2),
        Kind("disk-hangs", ("broker",), (1, 6), weight=2),
        Kind("disk-slow", ("broker",), (2, 6), weight=2),
        Kind("clock", SERVING, (2, 10), (1, 2), lane="clock", weight=2, needs_real=False),
        Kind("flip", ("broker",), (0.1, 0.1), weight=2, needs_real=False),
        Kind("lost-disk", ("broker",), (0.5, 4), weight=1, needs_real=False),
    )
}
LOSSES: Final = frozenset({"flip", "lost-disk", "power-cut-loss"})
_QUIET_ROUND: Final = 4
_FIRST_S: Final = 4.0
_GAP_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a schedule: seconds after the round began, and for how long. `chance` decides what is left to it."""

    at_s: float
    kind: str
    targets: tuple[str, ...]
    lasts_s: float
    chance: int

    def __str__(self) -> str:
        return f"{self.at_s:5.1f} s {self.kind} {','.join(self.targets)} for {self.lasts_s:.1f} s"


def schedule(
    seed: int, number: int, seconds: float, nodes: Sequence[str], allowed: Collection[str], *, quiet: bool = True
) -> list[Fault]:
    """The faults of a round, in their order. `nodes`: names as broker-0; `quiet` False: no round is without faults."""
    random = Random(f"{seed}:{number}:faults")
    kinds = _subset(random, [kind for name, kind in KINDS.items() if name in allowed])
    if not kinds or (quiet and number % _QUIET_ROUND == _QUIET_ROUND - 1):
        return []
    free_at: dict[str, float] = {}
    spent: set[str] = set()
    found: list[Fault] = []
    for at_s in _moments(random, seconds):
        usable = [kind for kind in kinds if kind.name not in spent and free_at.get(kind.lane, 0.0) <= at_s]
        fault = _drawn(random, usable, at_s, seconds, [name for name in nodes if free_at.get(name, 0.0) <= at_s], nodes)
        if fault is None:
            continue
        found.append(fault)
        if fault.kind in LOSSES:
            spent |= LOSSES
        lane = KINDS[fault.kind].lane
        for holder in (*fault.targets, *([lane] if lane else ())):
            free_at[holder] = at_s + fault.lasts_s + 0.5
    return found


def _subset(random: Random, kinds: list[Kind]) -> list[Kind]:
    """About half, and not fewer than three where there are three."""
    chosen = [kind for kind in kinds if random.random() < 0.5]
    missing = [kind for kind in kinds if kind not in chosen]
    random.shuffle(missing)
    return chosen + missing[: max(0, 3 - len(chosen))]


def _moments(random: Random, seconds: float) -> Iterator[float]:
    at_s = _FIRST_S + random.random() * 2
    while at_s < seconds - 3:
        yield at_s
        at_s += random.uniform(0.3, 2 * _GAP_S)


def _drawn(
    random: Random, kinds: list[Kind], at_s: float, seconds: float, free: Sequence[str], nodes: Sequence[str]
) -> Fault | None:
    if not kinds:
        return None
    (kind,) = random.choices(kinds, [kind.weight for kind in kinds])
    of_kind = [name for name in nodes if name.rpartition("-")[0] in kind.targets]
    targets = [name for name in free if name in of_kind]
    low, high = kind.how_many
    lasts_s = min(random.uniform(*kind.lasts_s), seconds - 2 - at_s)
    if lasts_s <= 0 or len(targets) < min(low, len(of_kind)) or not targets:
        return None
    count = min(random.randint(low, high), len(targets))
    return Fault(at_s, kind.name, tuple(random.sample(targets, count)), lasts_s, random.getrandbits(32))


# ---------------------------------------------------------------- who does not hear whom

Pairs = list[tuple[str, str]]


def cuts(fault: Fault, nodes: Sequence[str]) -> Pairs:
    """What a partition cuts: (who sends, who does not hear it)."""
    if fault.kind == "partition-one":
        (alone,) = fault.targets
        others = [name for name in nodes if name != alone]
        return [(alone, other) for other in others] + [(other, alone) for other in others]
    if fault.kind == "partition-majority":
        return _split(Random(fault.chance), fault.targets)
    if fault.kind == "partition-ring":
        ring = fault.targets
        following = [*ring[1:], ring[0]]
        pairs = list(zip(ring, following, strict=True)) if len(ring) > 2 else [(ring[0], following[0])]
        return pairs + [(other, one) for one, other in pairs[:1]]
    assert fault.kind == "partition-one-way", fault
    sender, receiver = fault.targets
    if fault.chance % 2:
        return [(sender, receiver)]
    return [(sender, other) for other in nodes if other != sender]


def _split(random: Random, names: Sequence[str]) -> Pairs:
    """Fewer than half of each kind on one side; clients see both sides."""
    minority: set[str] = set()
    for kind in ANY:
        of_kind = [name for name in names if name.rpartition("-")[0] == kind]
        random.shuffle(of_kind)
        minority |= set(of_kind[: max(1, (len(of_kind) - 1) // 2)] if len(of_kind) > 1 else ())
    others = [name for name in names if name not in minority]
    return [(a, b) for a in minority for b in others] + [(b, a) for a in minority for b in others]
