"""Decides for the controller which replicas should move: to brokers that are new, and away from those that leave.

Rule 1: brokers that an operator takes out of use (`decommission`) are emptied at once, also while they are down.
Rule 2: a new broker gets its share when the set of brokers has not changed for `replica_balance_delay_ms`, no move is
        under way and no broker drains: a rolling restart moves nothing.
Rule 3: after each batch of moves a new plan is made; nothing of the old one is remembered.
Rule 4: a move to a broker that was gone for that time is taken back.
Rule 5: the mark of a broker that is out of use, empty and was gone for that time is removed: its id may be used again.
Rule 6: a partition whose replicas are not known since a restore of etcd is planned for when they are: a guess may name more
        of them than the topic has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.errors import InvalidReplicaAssignmentError, RequestTimedOutError
from oncelog.ports import WallClock
from oncelog.types import PartitionId
from oncelog_partition_leader.cluster.controller_term import Commit
from oncelog_partition_leader.cluster.reassigner import Mover
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.assignment import Candidate
from oncelog_partition_leader.core.cluster.balance import balance, evacuate, is_short
from oncelog_partition_leader.core.cluster.election import is_guess
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs
from oncelog_runtime.metadata.cluster_keys import BROKERS, DECOMMISSIONS, REASSIGNMENTS, broker_key, decommission_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Compare, Put

_log = logging.getLogger(__name__)
_MOVES_MAX: Final = 100
_NEVER_MS: Final = 1 << 40
_RETRY_MS: Final = 1_000
_UNSETTLED_MS: Final = 10_000
"""When partitions that were left out by rule 6 are looked at again."""


@dataclass(frozen=True, slots=True)
class Load:
    """The replicas and leaderships of a broker. `moving`: partitions that are moving to or from it."""

    broker_id: int
    registered: bool
    decommissioned: bool
    replicas: int
    leaderships: int
    moving: int


class Balancer:
    """Plans moves for the controller. `next_look_ms`: when `plan` is to be called, on the monotonic clock.

    `kept()`: what the brokers have told of their logs since a restore of etcd; those that are missing may be taken out of use.
    """

    def __init__(
        self,
        config: BrokerConfig,
        view: ClusterView,
        clock: WallClock,
        mover: Mover,
        commit: Commit,
        kept: Callable[[], KeptLogs] = KeptLogs,
    ) -> None:
        self._kept = kept
        self._enabled = config.replica_balance_enabled
        self._delay_ms = config.replica_balance_delay_ms
        self._view = view
        self._clock = clock
        self._mover = mover
        self._commit = commit
        self._brokers: tuple[tuple[int, int], ...] = ()
        self._still_since_ms = 0
        self._levelling = False
        self.next_look_ms = 0

    def saw(self, key: str) -> None:
        """Notes a changed key of etcd."""
        now_ms = self._clock.monotonic_ms()
        if key.startswith(BROKERS):
            brokers = tuple(sorted(self._view.live().items()))
            if brokers != self._brokers:
                self._brokers, self._still_since_ms = brokers, now_ms
                self._levelling = False
                self._look_within(self._delay_ms)
        elif key.startswith(DECOMMISSIONS) or (key.startswith(REASSIGNMENTS) and not self._view.reassignments):
            self._look_within(0)

    def begin(self) -> None:
        """Starts again, since this broker became the controller."""
        self._brokers, self._levelling = tuple(sorted(self._view.live().items())), False
        self._still_since_ms = self._clock.monotonic_ms()
        self.next_look_ms = self._still_since_ms

    def _look_within(self, ms: int) -> None:
        self.next_look_ms = min(self.next_look_ms, self._clock.monotonic_ms() + ms)

    # ------------------------------------------------------------ planning

    async def plan(self) -> None:
        """Writes the moves that are due. Raises as the controller's commits do."""
        now_ms = self._clock.monotonic_ms()
        self.next_look_ms = _NEVER_MS
        moves = self._evacuation()
        still_ms = now_ms - self._still_since_ms
        if not moves and still_ms >= self._delay_ms:
            await self._mover.give_up_hopeless()
            await self._forget_the_gone()
            moves = self._levelled()
        elif still_ms < self._delay_ms:
            self._look_within(self._delay_ms - still_ms)
        if moves and not await self._mover.want(moves):
            self._look_within(_RETRY_MS)

    def _assignment(self) -> dict[PartitionId, tuple[int, ...]]:
        """Returns the replicas of each partition as they will be when all moves are done, where they are known (rule 6)."""
        view, moves = self._view, self._view.reassignments
        whole = [item for item in view.partitions.items() if item[0].topic_id in view.topic_names]
        settled = {
            partition_id: moves[partition_id].value.target if partition_id in moves else entry.value.replicas
            for partition_id, entry in whole
            if not view.is_doubtful(entry) and not is_guess(entry.value)
        }
        if len(settled) < len(whole):
            self._look_within(_UNSETTLED_MS)
        return settled

    def _candidates(self) -> list[Candidate]:
        return [
            Candidate(broker_id, entry.value.rack)
            for broker_id, entry in sorted(self._view.brokers.items())
            if broker_id not in self._view.decommissioned
        ]

    def _evacuation(self) -> dict[PartitionId, tuple[int, ...]]:
        leaving, candidates = self._view.decommissioned, self._candidates()
        if not leaving:
            return {}
        moves = evacuate(self._assignment(), leaving, candidates, _MOVES_MAX)
        if any(partition_id in self._view.reassignments for partition_id in moves):
            self._look_within(_RETRY_MS)  # moving to a broker that leaves: after that move
        return {p: target for p, target in moves.items() if p not in self._view.reassignments}

    def _levelled(self) -> dict[PartitionId, tuple[int, ...]]:
        if not self._enabled or self._view.reassignments or self._view.draining_broker() is not None:
            if self._enabled and not self._view.reassignments:
                self._look_within(self._delay_ms)
            return {}
        assignment, candidates = self._assignment(), self._candidates()
        if not self._levelling and not is_short(assignment, candidates):
            return {}
        moves = balance(assignment, candidates, _MOVES_MAX)
        self._levelling = bool(moves)
        if moves:
            _log.info("moving %d replicas, so that %d brokers hold equally many", len(moves), len(candidates))
        return moves

    async def _forget_the_gone(self) -> None:
        marks = dict(self._view.decommissioned)  # as of these loads: the view goes on during each commit
        for load in self.loads():
            if load.decommissioned and not load.registered and not load.replicas and not load.moving:
                key = decommission_key(load.broker_id)
                compares = [Compare(key, marks[load.broker_id]), Compare(broker_key(load.broker_id), 0)]
                if await self._commit(compares, [], [key]):
                    _log.info("broker %d is out of use, empty and gone", load.broker_id)

    # ------------------------------------------------------------ what operators ask for

    def loads(self) -> list[Load]:
        """Returns the load of every broker that is registered, has replicas, or is out of use."""
        view = self._view
        held: dict[int, list[int]] = {b: [0, 0, 0] for b in sorted({*view.brokers, *view.decommissioned})}
        for partition_id, entry in view.partitions.items():
            move = view.reassignments.get(partition_id)
            target = move.value.target if move is not None else entry.value.replicas
            for broker_id in {*entry.value.replicas, *target}:
                counts = held.setdefault(broker_id, [0, 0, 0])
                counts[0] += broker_id in entry.value.replicas
                counts[2] += (broker_id in entry.value.replicas) != (broker_id in target)
            if entry.value.leader is not None:
                held.setdefault(entry.value.leader.broker_id, [0, 0, 0])[1] += 1
        return [
            Load(broker_id, broker_id in view.brokers, broker_id in view.decommissioned, *counts)
            for broker_id, counts in sorted(held.items())
        ]

    async def decommission(self, broker_ids: Sequence[int]) -> None:
        """Takes brokers out of use, so that they are emptied. Safe to repeat. Raises `InvalidReplicaAssignmentError`."""
        known = {load.broker_id for load in self.loads()} | self._kept().missing
        unknown = [broker_id for broker_id in broker_ids if broker_id not in known]
        if unknown:
            raise InvalidReplicaAssignmentError(f"nobody knows broker {unknown[0]}", known=",".join(map(str, known)))
        left = [c.broker_id for c in self._candidates() if c.broker_id not in broker_ids]
        needed = max((len(replicas) for replicas in self._assignment().values()), default=1)
        if len(left) < needed:
            raise InvalidReplicaAssignmentError(
                f"{len(left)} brokers would be left, and some topic has {needed} replicas",
                left=",".join(map(str, left)),
            )
        new = [broker_id for broker_id in broker_ids if broker_id not in self._view.decommissioned]
        puts = [Put(decommission_key(broker_id), b"{}") for broker_id in new]
        if puts and not await self._commit([Compare(put.key, 0) for put in puts], puts):
            raise RequestTimedOutError("the cluster changed meanwhile: try again")

    async def recommission(self, broker_ids: Sequence[int]) -> None:
        """Puts brokers back in use. Moves that are under way are not undone. Raises `RequestTimedOutError`."""
        keys = [decommission_key(broker_id) for broker_id in broker_ids if broker_id in self._view.decommissioned]
        if keys and not await self._commit([], [], keys):
            raise RequestTimedOutError("the cluster changed meanwhile: try again")
