"""Bugs for the harness to find: rules that are taken out of the processes of a torture, beside those of the simulation.

Rule 1: a plant changes a process as it starts, through `tests.blackbox.wrapped`; production code knows nothing of it.
Rule 2: `HUNTED` names twelve, each with the faults under which it shows; `--hunt` runs them one by one and tells the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_partition_leader.core.producers import producer_state
from oncelog_partition_leader.core.producers.transactions import Transactions
from tests.simulation import planted_bugs
from tests.simulation.planted_bugs import Plant, edit, without

OWN: Final = (
    without(
        "stable-is-high-watermark",
        "read_committed ends before the first open transaction",
        edit(Transactions, "unstable_from", ("first = self.first_open_offset()", "return None")),
    ),
    without(
        "no-duplicate-check",
        "a batch that is sent again is in the log once",
        edit(producer_state, "_judge", ("return Duplicate(found", "return APPEND\n        return Duplicate(found")),
    ),
)

HUNTED: Final[Mapping[str, str]] = {
    "stable-is-high-watermark": "kill",
    "no-duplicate-check": "kill,freeze,partition-one,partition-one-way,lossy",
    "commit-without-flush": "kill,freeze,partition-one",
    "follower-ack-unsynced": "power-cut,power-cut-all",
    "internal-not-fsync": "power-cut,power-cut-all",
    "no-truncate-known-epoch": "kill,freeze,partition-one,partition-ring",
    "marker-to-n-1": "kill,partition-one,freeze",
    "snapshot-without-open": "kill,kill-all",
    "complete-after-first-marker": "kill,freeze,partition-one",
    "group-hands-over-early": "kill-client,freeze-client",
    "unconfirmed-end": "freeze,partition-one,partition-ring",
    "ack-below-min-isr": "partition-one,freeze,power-cut,lost-disk",
}
"""Plant -> faults under which it shows."""


def plant_named(name: str) -> Plant:
    """One of ours or of the simulation's. Raises `KeyError`."""
    return {found.name: found for found in OWN}.get(name) or planted_bugs.plant_named(name)
