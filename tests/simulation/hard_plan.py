"""The faults of whole clusters that a single world's `FaultPlan` does not know, and which of them are drawn.

Rule 1: each kind is drawn from a stream of its own, so that one kind more or less leaves all others of a seed as they were.
Rule 2: a kind that production does not survive yet is not in `ON`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Final

_SHARE: Final = 0.2
"""Of all seeds have each kind."""
_EVERY_MS: Final = (1_500.0, 6_000.0)
_PROBABILITIES: Final = {"repeat_admin": (0.0, 0.5), "corrupt_wire": (0.001, 0.02)}


@dataclass(frozen=True, slots=True)
class HardPlan:
    """Mean virtual ms between two faults of a kind; 0 = never."""

    blackout_every_ms: float = 0.0
    """Every process ends at once: power cut in fsync mode, else kill -9."""
    etcd_outage_every_ms: float = 0.0
    isolate_every_ms: float = 0.0
    """One broker is cut off from the others, both ways or one way, with etcd and its clients reachable."""
    freeze_every_ms: float = 0.0
    """A broker stands still for up to ten seconds."""
    stale_registrations_every_ms: float = 0.0
    """All brokers are killed; one is back while the others' registrations still live, they come later."""
    lose_volume_every_ms: float = 0.0
    cut_any_power_every_ms: float = 0.0
    """A power cut whenever the budget of losses allows it, however small the ISRs are."""
    hang_disk_every_ms: float = 0.0
    fill_disk_every_ms: float = 0.0
    fail_sync_every_ms: float = 0.0
    """One sync of a log fails, and what was not synced of it never reaches the platter."""
    lonely_kill_every_ms: float = 0.0
    """One broker is cut off from the others, with etcd and its clients reachable, and is stopped or killed after a while."""
    rot_every_ms: float = 0.0
    leap_clock_every_ms: float = 0.0
    """A wall clock jumps by hours."""
    restore_etcd_every_ms: float = 0.0
    """etcd goes back to what it was some seconds ago."""
    hostile_every_ms: float = 0.0
    """A client sends requests that cannot be."""
    repeat_admin: float = 0.0
    """Not a rate: the probability with which an administrative request is delivered again, much later."""
    corrupt_wire: float = 0.0
    """Not a rate: the probability with which a bit turns in what a leader sends to a follower."""


ON: Final = (
    "blackout",
    "corrupt_wire",
    "cut_any_power",
    "etcd_outage",
    "fail_sync",
    "fill_disk",
    "freeze",
    "hang_disk",
    "hostile",
    "isolate",
    "leap_clock",
    "lonely_kill",
    "lose_volume",
    "repeat_admin",
    "restore_etcd",
    "rot",
    "stale_registrations",
)
"""What is drawn."""


def draw(seed: int, forced: tuple[str, ...] = ()) -> HardPlan:
    """The plan of a seed; seed 0 has none. `forced`: kinds that are there in any case, drawn or not."""
    rates = {}
    for kind in fields(HardPlan):
        random = Random(f"{seed}:hard:{kind.name}")
        share, size = random.random(), random.random()
        name = kind.name.removesuffix("_every_ms")
        if name in forced or (seed and name in ON and share < _SHARE):
            least, most = _PROBABILITIES.get(kind.name, _EVERY_MS)
            rates[kind.name] = least + size * (most - least)
    return replace(HardPlan(), **rates)


KINDS: Final = tuple(kind.name.removesuffix("_every_ms") for kind in fields(HardPlan))
