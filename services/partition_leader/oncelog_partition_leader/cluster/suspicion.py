"""Probes the brokers that the controller suspects, one task for each.

Rule: what a report, a verdict or an answer changes is decided in `core/cluster/suspects.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.liveness_probe import Prober
from oncelog_partition_leader.core.cluster.suspects import AfterVerdict, Suspects
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_SOON_S: Final = 0.1
_LATER_S: Final = 1.0


class Suspicion:
    """The suspects of one broker. `leads()`: it is the controller; `changed()` is called when `dead` has changed."""

    def __init__(
        self,
        prober: Prober,
        view: ClusterView,
        tasks: TaskOwner,
        leads: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._prober = prober
        self._view = view
        self._tasks = tasks
        self._leads = leads
        self._changed = changed
        self._suspects = Suspects()
        self.dead = self._suspects.dead

    def report(self, ref: BrokerRef) -> None:
        """Begins to probe a broker, unless it is probed already."""
        if self._leads() and self._view.is_live(ref) and self._suspects.reported(ref):
            self._tasks.spawn(self._probe(ref), f"probe-{ref.broker_id}")

    def heard(self, ref: BrokerRef) -> None:
        """Notes a broker that answers again or for the first time: it is not dead, and an election may need it."""
        if self._suspects.heard(ref):
            _log.info("broker %d answers again", ref.broker_id)
        self._changed()

    def new_term(self, overthrown: BrokerRef | None) -> None:
        """Begins a term, and probes the broker whose role was taken."""
        self._suspects.new_term(overthrown)
        if overthrown is not None:
            self.report(overthrown)

    async def _probe(self, ref: BrokerRef) -> None:
        """Probes a broker until it answers or its registration is gone; declares it dead when that is known."""
        ended = False
        try:
            while self._leads() and self._view.is_live(ref):
                after = self._suspects.judged(ref, await self._prober.verdict(ref))
                if after in (AfterVerdict.STOP, AfterVerdict.STOP_ALIVE_AGAIN):
                    ended = True
                    if after is AfterVerdict.STOP_ALIVE_AGAIN:
                        _log.info("broker %d answers again", ref.broker_id)
                        self._changed()
                    return
                if after is AfterVerdict.PROBE_LATER_DEAD:
                    _log.warning("broker %d (incarnation %d) is dead", ref.broker_id, ref.incarnation)
                    self._changed()
                await asyncio.sleep(_SOON_S if after is AfterVerdict.PROBE_SOON else _LATER_S)
            ended = True
            self._suspects.gone(ref)
        finally:
            if not ended:
                self._suspects.broken_off(ref)
