"""Bugs for the harness to find: rules that are taken out of the processes of a torture, beside those of the simulation.

Rule 1: a plant changes a process as it starts, through `tests.blackbox.wrapped`; production code knows nothing of it.
Rule 2: `HUNTED` names eighteen, each with the faults under which it shows; `--hunt` runs them one by one and tells the score.
Rule 3: a rule is hunted when its absence can be seen from outside. One behind which another guard stands is not: a marker
        that is never sent again is replaced when the leader asks for it, and what is acknowledged below
        min_insync_replicas is lost only by a second loss, which the promise does not cover.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog_partition_leader.core.producers import producer_state
from oncelog_partition_leader.core.producers.transactions import Transactions
from oncelog_partition_leader.partition.scrubber import Scrubber
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
    without(
        "no-scrub",
        "what rots is found though nobody reads it",
        edit(Scrubber, "_pass", ("if partition is not None and partition.failed is None:", "if False:")),
    ),
)

HUNTED: Final[Mapping[str, str]] = {
    "stable-is-high-watermark": "kill",
    "no-duplicate-check": "kill,freeze,partition-one,partition-one-way,lossy",
    "commit-without-flush": "kill,freeze,partition-one,lossy",
    "new-sequence-on-retry": "kill,freeze,partition-one-way,lossy",
    "internal-not-fsync": "power-cut-all",
    "follower-ack-unsynced": "power-cut-loss",
    "no-truncate-known-epoch": "freeze,partition-one,partition-ring,partition-majority",
    "answer-early": "kill,freeze,partition-one,partition-ring",
    "snapshot-without-open": "kill,kill-all,stop",
    "unconfirmed-end": "freeze,partition-ring,partition-majority,partition-one-way",
    "group-commit-unfenced": "freeze-client",
    "no-scrub": "flip",
    "channel-ack-left-out": "kill,kill-all",
    "channel-confirmed-early": "kill,kill-all,freeze",
    "channel-key-overtaken": "kill",
    "delay-early": "kill",
    "delay-cancel-ignored": "kill",
    "delay-forgotten-by-the-next": "kill,kill-all",
}
"""Plant -> faults under which it shows."""


def plant_named(name: str) -> Plant:
    """One of ours or of the simulation's. Raises `KeyError`."""
    return {found.name: found for found in OWN}.get(name) or planted_bugs.plant_named(name)
