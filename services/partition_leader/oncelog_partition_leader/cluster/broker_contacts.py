"""The brokers that this one reaches, as its watch of all the others finds out (`failure_detector`).

Rule: nothing is decided here; see `core/cluster/reachability.py` and `core/log/cluster_clock.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.types import BrokerRef
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.reachability import Reachability
from oncelog_partition_leader.core.log.cluster_clock import ClusterClock
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import WallClock


class Contacts:
    """Feeds `Reachability` and `ClusterClock` with answers, registrations and the time."""

    def __init__(self, config: BrokerConfig, view: ClusterView, clock: WallClock) -> None:
        self._view = view
        self._clock = clock
        self._reach = Reachability(
            config.broker_id, silence_max_ms=config.peer_silence_max_ms, lease_ms=config.session_timeout_ms
        )
        self._clocks = ClusterClock()
        self._broker_id = config.broker_id
        self._tick_ms = config.tick_ms
        self._ticked_ms = clock.monotonic_ms()
        self._listeners: list[Callable[[BrokerRef], None]] = []
        view.listen(self._saw)

    def listen(self, listener: Callable[[BrokerRef], None]) -> None:
        """Has `listener(ref)` called when a broker answers that was not heard before."""
        self._listeners.append(listener)

    # ------------------------------------------------------------ what happened

    def answered(self, ref: BrokerRef, its_now_ms: int = 0) -> None:
        """Notes an answer of a broker under this incarnation. `its_now_ms`: its wall clock; 0 = not sent."""
        self._clocks.told(ref.broker_id, its_now_ms, self._clock.monotonic_ms())
        if self._reach.answered(ref, self._clock.monotonic_ms()):
            for listener in self._listeners:
                listener(ref)

    def refused(self, ref: BrokerRef) -> None:
        """Notes that a connection to the broker's address was refused."""
        self._reach.refused(ref, self._clock.monotonic_ms())

    def failed(self, ref: BrokerRef) -> None:
        """Notes that a call to the broker failed on its way."""
        self._reach.failed(ref)

    def tick(self) -> None:
        """Is called every `tick_ms`: when it is called much later, this process was paused."""
        now_ms = self._clock.monotonic_ms()
        late_ms, self._ticked_ms = now_ms - self._ticked_ms - self._tick_ms, now_ms
        if late_ms > self._tick_ms:
            self._reach.slept(late_ms)

    def _saw(self, keys: list[str]) -> None:
        if any(key.startswith(cluster_keys.BROKERS) for key in keys):
            self._reach.registered(self._view.live(), self._clock.monotonic_ms())

    # ------------------------------------------------------------ questions

    def heard(self, ref: BrokerRef) -> bool:
        """Returns True when the broker has answered this one in this incarnation, and not too long ago."""
        return self._reach.heard(ref, self._clock.monotonic_ms())

    def is_gone(self, ref: BrokerRef) -> bool:
        """Returns True when its address refuses connections, so that its process has ended."""
        return self._reach.is_gone(ref, self._clock.monotonic_ms())

    def all_heard(self) -> list[BrokerRef]:
        """Returns all brokers that are heard."""
        return self._reach.all_heard(self._clock.monotonic_ms())

    def silent(self, for_ms: int) -> list[BrokerRef]:
        """Returns the registered brokers that have not answered for longer than this."""
        return self._reach.silent(for_ms, self._clock.monotonic_ms())

    def opinion(self, ref: BrokerRef) -> bool | None:
        """Answers another broker that asks whether this one reaches `ref`; None: not known."""
        return self._reach.opinion(ref, self._clock.monotonic_ms())

    def cluster_now_ms(self) -> int:
        """Returns the time by most brokers' clocks; see `ClusterClock`."""
        others = [broker_id for broker_id in self._view.live() if broker_id != self._broker_id]
        return self._clocks.now_ms(self._clock.now_ms(), self._clock.monotonic_ms(), others)

    def hears_majority(self) -> bool:
        """See `Reachability.hears_majority`."""
        return self._reach.hears_majority(self._clock.monotonic_ms())

    def may_be_given_up(self, after_ms: int) -> bool:
        """See `Reachability.may_be_given_up`."""
        return self._reach.may_be_given_up(after_ms, self._clock.monotonic_ms())

    def is_minority(self) -> bool:
        """See `Reachability.is_minority`."""
        return self._reach.is_minority(self._clock.monotonic_ms())
