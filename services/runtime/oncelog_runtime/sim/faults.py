"""The faults of a simulation, and how often they come: one frozen plan of named probabilities.

Rule 1: the default plan is a perfect world with small delays.
Rule 2: `draw` is swarm style: each kind of fault is off in half of the seeds, so that no fault hides another.
Rule 3: probabilities are per event (message, call, write); rates are mean virtual ms between injections (0 = never).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Times in ms of virtual time, the others are probabilities from 0 to 1."""

    # network
    delay_min_ms: float = 0.05
    delay_max_ms: float = 0.3
    slow_message: float = 0.0
    slow_ms: float = 200.0
    break_link: float = 0.0
    """An envelope finds its link broken: open calls fail, unknown outcome."""
    stall_link: float = 0.0
    """An envelope is lost, in either direction, and with it all that follow on this link, until the link breaks."""
    lose_reply: float = 0.0
    """An envelope of answers is lost, and its link breaks: what was asked was executed, and no answer says so."""
    duplicate_request: float = 0.0
    replay_request: float = 0.0
    """A copy of the request is delivered again much later (up to `replay_max_ms`)."""
    replay_max_ms: float = 60_000.0
    cancel_handler: float = 0.0
    """The handler is cancelled when its caller gives up or the link breaks, as grpc.aio does to unary calls. Not drawn:
    links never do it."""
    silent_break_ms: float = 3_000.0
    """Until a link without any traffic (partition, power cut) is seen to be broken."""

    # disk
    sync_min_ms: float = 0.1
    sync_max_ms: float = 1.0
    slow_sync: float = 0.0
    slow_sync_ms: float = 300.0
    short_write: float = 0.0
    disk_full: float = 0.0
    append_error: float = 0.0
    read_error: float = 0.0
    sync_error: float = 0.0
    zero_tail: float = 0.0
    """After a power cut the unsynced rest of a file is there, as zeros."""
    torn_noise: float = 0.0
    """After a power cut the last kept sector of unsynced bytes holds garbage."""

    # helpers (not drawn: the test of what a helper does wants them)
    helper_death: float = 0.0
    """A helper is killed within `helper_trouble_max_ms` of its start, in the middle of whatever it does."""
    helper_freeze: float = 0.0
    """A helper stops within `helper_trouble_max_ms` of its start, and says nothing more."""
    helper_trouble_max_ms: float = 2_000.0
    slow_helper: float = 0.0
    """A message of a helper comes `slow_helper_ms` late."""
    slow_helper_ms: float = 5_000.0

    # metadata
    metadata_min_ms: float = 0.2
    metadata_max_ms: float = 1.5
    slow_metadata: float = 0.0
    slow_metadata_ms: float = 1_000.0
    lose_metadata_request: float = 0.0
    lose_metadata_answer: float = 0.0
    """The call was executed, and the caller gets `MetadataUnavailableError`."""
    watch_min_ms: float = 0.1
    watch_max_ms: float = 2.0
    relist: float = 0.0
    """A change finds its watch lost: the watcher gets a new `Listing` instead."""

    # clocks
    skew_max_ms: int = 0
    drift_max: float = 0.0

    # the driver: mean ms between two injections of a kind; 0 = never
    crash_every_ms: float = 0.0
    kill_every_ms: float = 0.0
    pause_every_ms: float = 0.0
    pause_max_ms: float = 5_000.0
    partition_every_ms: float = 0.0
    partition_max_ms: float = 8_000.0
    metadata_partition_every_ms: float = 0.0
    lease_loss_every_ms: float = 0.0
    compaction_every_ms: float = 0.0
    clock_step_every_ms: float = 0.0
    bit_flip_every_ms: float = 0.0
    restart_after_max_ms: float = 4_000.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name} must not be negative")

    @staticmethod
    def draw(random: Random) -> FaultPlan:
        """A random plan: each kind off in half of the seeds, else somewhere between rare and frequent."""
        changes: dict[str, float] = {}
        for name, most in _PROBABILITIES.items():
            on, size = random.random() < 0.5, random.random()
            if on:
                changes[name] = most * 10 ** (-2 * size)
        for name, (least, most) in _RATES.items():
            on, size = random.random() < 0.5, random.random()
            if on:
                changes[name] = least + (most - least) * size
        changes["delay_max_ms"] = 0.1 + 10 ** (2 * random.random()) / 5
        changes["sync_max_ms"] = 0.2 + 10 ** (2 * random.random()) / 5
        skew, drift = random.choice([0, 50, 5_000]), random.choice([0.0, 1e-4])
        return replace(FaultPlan(), **changes, skew_max_ms=skew, drift_max=drift)

    def without(self, *names: str) -> FaultPlan:
        """The same plan with these entries at their defaults."""
        calm = FaultPlan()
        return replace(self, **{name: getattr(calm, name) for name in names})

    def calm(self) -> FaultPlan:
        """No faults any more, the same speeds: for the liveness phase."""
        names = [*_PROBABILITIES, *_RATES]
        return self.without(*names)


_PROBABILITIES = {
    "slow_message": 0.1,
    "break_link": 0.01,
    "stall_link": 0.005,
    "lose_reply": 0.02,
    "duplicate_request": 0.1,
    "replay_request": 0.05,
    "slow_sync": 0.1,
    "short_write": 0.005,
    "disk_full": 0.002,
    "append_error": 0.002,
    "read_error": 0.002,
    "sync_error": 0.002,
    "zero_tail": 0.5,
    "torn_noise": 0.5,
    "slow_metadata": 0.1,
    "lose_metadata_request": 0.05,
    "lose_metadata_answer": 0.1,
    "relist": 0.2,
}

_RATES = {
    "crash_every_ms": (4_000.0, 30_000.0),
    "kill_every_ms": (4_000.0, 30_000.0),
    "pause_every_ms": (3_000.0, 20_000.0),
    "partition_every_ms": (3_000.0, 20_000.0),
    "metadata_partition_every_ms": (5_000.0, 30_000.0),
    "lease_loss_every_ms": (5_000.0, 30_000.0),
    "compaction_every_ms": (1_000.0, 10_000.0),
    "clock_step_every_ms": (2_000.0, 20_000.0),
}
"""Bit flips are not drawn: the test that wants rot must also know which replicas may rot together."""
