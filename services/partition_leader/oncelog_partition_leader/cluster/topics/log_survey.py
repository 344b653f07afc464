"""Asks every broker, after a restore of etcd, which logs it keeps of which etcd does not know.

Rule 1: an answer counts when it comes from an incarnation that registered after the restore, and knows of it: a broker whose
        lease the restored etcd does not have registers before it has noticed why, and then refuses (`restored_at`).
Rule 2: questions run beside the controller's task, and beside each other: one that is slow holds up no other. A broker is
        asked once in each incarnation, and again until it answers.
Rule 3: when every member has answered, and what they keep has been made again, `<root>/logs_told` is written. From then on
        a waiting topic that etcd does not know is taken for one without logs, unless a broker that was not known brings one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs, members
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Transport, WallClock
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 0.1
_AGAIN_MAX_S: Final = 2.0
_EARLY_MS: Final = 3_000
"""So long after the controller has noticed a restore brokers may register that etcd does not name."""


class LogSurvey:
    """The controller's questions and their answers. `told()` is called after each answer, and when none is early any more."""

    def __init__(
        self,
        view: ClusterView,
        transport: Transport,
        clock: WallClock,
        tasks: TaskOwner,
        timeout_ms: int,
        told: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._view = view
        self._transport = transport
        self._tasks = tasks
        self._timeout_ms = timeout_ms
        self._told = told
        self._restored_at = 0
        self._noticed_ms = 0
        self._answers: dict[BrokerRef, frozenset[PartitionId]] = {}
        self._seen: set[int] = set()
        """The brokers that those which have answered have ever seen registered."""
        self._asked: set[BrokerRef] = set()
        """Those that have a question and have not answered it yet."""
        self._is_asking = False

    def look(self) -> None:
        """Starts to ask the brokers that have not answered since the last restore, if there was one."""
        self._forget_older()
        self._seen -= self._view.decommissioned.keys()  # a mark goes when its broker is away and holds nothing
        if (self._due() or self._early_ms) and not self._is_asking:
            self._is_asking = True
            self._tasks.spawn(self._ask_all(), "log-survey")

    def answers(self) -> KeptLogs:
        """Returns what has been answered so far, without `missing`."""
        self._forget_older()
        answers = {ref.broker_id: kept for ref, kept in self._answers.items()}
        return KeptLogs(answers, registered=frozenset(self._view.brokers), is_early=self._early_ms > 0)

    def result(self) -> KeptLogs:
        """Returns what has been answered so far, and which members have not; that takes a look at every partition."""
        found = self.answers()
        if not self._restored_at:
            return found
        named = {broker_id for entry in self._view.partitions.values() for broker_id in entry.value.replicas}
        expected = members(self._view.brokers, named | self._seen, self._view.decommissioned)
        return replace(found, missing=expected - found.answers.keys())

    @property
    def _early_ms(self) -> int:
        """Returns for how long brokers may still register that etcd does not name, in milliseconds."""
        return max(0, self._noticed_ms + _EARLY_MS - self._clock.monotonic_ms()) if self._restored_at else 0

    def _forget_older(self) -> None:
        if self._restored_at != self._view.restored_at():
            self._restored_at, self._noticed_ms = self._view.restored_at(), self._clock.monotonic_ms()
            self._answers.clear()
            self._seen.clear()

    def _due(self) -> list[BrokerRef]:
        if not self._restored_at:
            return []
        live = [BrokerRef(broker_id, incarnation) for broker_id, incarnation in self._view.live().items()]
        left = [ref for ref in live if ref not in self._answers and ref not in self._asked]
        return [ref for ref in left if ref.incarnation > self._restored_at]

    async def _ask_all(self) -> None:
        """Asks until all have answered that are registered, and none is early any more. `look` begins it again."""
        pause_s, was_early = _AGAIN_S, False
        try:
            while (due := self._due()) or self._asked or self._early_ms or was_early:
                if was_early and not self._early_ms:
                    self._told()
                was_early = self._early_ms > 0  # once more, if etcd was restored again
                for ref in due:
                    self._asked.add(ref)
                    self._tasks.spawn(self._ask_one(ref, self._restored_at), f"log-survey-{ref.broker_id}")
                await asyncio.sleep(min(pause_s, self._early_ms / 1000 or pause_s))
                pause_s = min(pause_s * 1.5, _AGAIN_MAX_S)
        finally:
            self._is_asking = False

    async def _ask_one(self, ref: BrokerRef, restored_at: int) -> None:
        try:
            await self._ask(ref, restored_at)
        finally:
            self._asked.discard(ref)

    async def _ask(self, ref: BrokerRef, restored_at: int) -> None:
        address = self._view.address_of(ref.broker_id)
        if address is None:
            return
        broker = types_pb2.BrokerRef(broker_id=ref.broker_id, incarnation=ref.incarnation)
        request = pb.ReplicaStatusRequest(broker=broker, kept_logs=True, restored_at=restored_at)
        try:
            reply, _ = await methods.REPLICA_STATUS.call(self._transport, address, request, self._timeout_ms)
        except OncelogError as error:
            _log.info("which logs broker %d keeps is not known: %s", ref.broker_id, error)
            return
        if restored_at != self._restored_at or not reply.HasField("kept"):
            return  # etcd was restored again, or it is an older version, which does not say
        for earlier in [one for one in self._answers if one.broker_id == ref.broker_id]:
            del self._answers[earlier]
        self._answers[ref] = frozenset(PartitionId(one.topic_id, one.partition) for one in reply.kept.partitions)
        self._seen.update(reply.kept.brokers_seen)
        self._told()
