"""Draining this coordinator: it hands every shard over and owns none while another coordinator is there.

Rule 1: one coordinator drains at a time: it holds a leased key in etcd, which disappears with the process. Others wait
        until the key is free.
Rule 2: a draining coordinator is not registered, so that every other coordinator, of whatever version, takes its
        shards.
Rule 3: once begun, a drain lasts until it is cancelled or the process ends, even if the lease was lost in between.
Rule 4: the only coordinator is not drained, since no other could take its shards. The reply says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from oncelog.errors import (
    DrainingElsewhereError,
    InvalidRequestError,
    MetadataUnavailableError,
    NotCoordinatorError,
    OncelogError,
)
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog_coordinator.core.draining import DrainFacts, DrainPhase, Start, is_moot, phase, reason, start_step
from oncelog_runtime.metadata.cluster_keys import COORDINATOR_DRAIN_KEY, Drain
from oncelog_runtime.metadata.cluster_view import ClusterView, ShardKey
from oncelog_runtime.ports import Compare, KeyValue, MetadataStore, Put, WallClock
from oncelog_runtime.serving.once import Once

_log = logging.getLogger(__name__)
_LOOK_S: Final = 0.05
_RETRY_AFTER_MS: Final = 500
_STATES: Final = {
    DrainPhase.NOT_DRAINING: types_pb2.DRAIN_STATE_NOT_DRAINING,
    DrainPhase.DRAINING: types_pb2.DRAIN_STATE_DRAINING,
    DrainPhase.DRAINED: types_pb2.DRAIN_STATE_DRAINED,
}


class CoordinatorDrain:
    """The state of this coordinator's drain. The shard ownership follows `wanted`. `draining_is(bool)` is called at
    each change.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        clock: WallClock,
        owned: Collection[ShardKey],
        draining_is: Callable[[bool], None],
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._clock = clock
        self._owned = owned
        self._draining_is = draining_is
        self.address = ""
        self.lease_id = 0
        self.wanted = False
        self._turn = asyncio.Lock()
        """A drain that is begun while etcd is slow ends, or not, before it is cancelled."""
        self._once = Once(lambda: NotCoordinatorError("the call was meant for another process at this address"))

    # ------------------------------------------------------------ questions

    def others(self) -> list[str]:
        """Returns the other registered coordinators, none of which drains."""
        return [address for address in self._view.coordinators if address != self.address]

    def unowned(self) -> int:
        """Returns the number of shards without an owner."""
        known = self._view.cluster
        if known is None:
            return 0
        return known.transaction_shards + known.group_shards - len(self._view.shard_owners)

    @property
    def done(self) -> bool:
        """True when every shard has another owner."""
        return phase(self._facts()) is DrainPhase.DRAINED

    def _facts(self) -> DrainFacts:
        return DrainFacts(self.wanted, len(self._owned), self.unowned(), self.lease_id != 0, bool(self.others()))

    # ------------------------------------------------------------ commands

    async def serve(self, request: co.DrainCoordinatorRequest) -> co.DrainCoordinatorReply:
        """Handles the remote method. Raises `DrainingElsewhereError`."""
        skipped = False
        if request.action == types_pb2.DRAIN_ACTION_START:
            skipped = not await self._once.run(request.call, self.lease_id, self.start)
        elif request.action == types_pb2.DRAIN_ACTION_CANCEL:
            await self._once.run(request.call, self.lease_id, self.cancel)
        elif request.action != types_pb2.DRAIN_ACTION_STATUS:
            raise InvalidRequestError("a drain is started, cancelled or looked at", action=request.action)
        facts = self._facts()
        return co.DrainCoordinatorReply(
            address=self.address,
            state=types_pb2.DRAIN_STATE_SKIPPED if skipped else _STATES[phase(facts)],
            shards=facts.owned,
            loading=max(0, facts.unowned),
            reason="no other coordinator is registered" if skipped else reason(facts),
            term=self.lease_id,
        )

    async def start(self) -> bool:
        """Begins to drain, unless it does already. False: skipped by rule 4. Raises `DrainingElsewhereError`."""
        async with self._turn:
            return await self._start()

    async def _start(self) -> bool:
        entry = self._view.coordinator_drain
        holder = entry.value.node if entry is not None else None
        step = start_step(self._facts(), holder, self.address)
        if step is Start.WAIT:
            raise DrainingElsewhereError(
                f"the coordinator at {holder} drains; wait until it is back, or cancel its drain",
                retry_after_ms=_RETRY_AFTER_MS,
                node=holder or "",
            )
        if step is not Start.TAKE_KEY:
            return step is Start.DRAINS
        await self._take_key()
        self.wanted = True
        self._draining_is(True)
        _log.info("the coordinator drains: %d shards to hand over", len(self._owned))
        return True

    async def cancel(self) -> None:
        """Takes shards again. Safe to repeat: a key left by an earlier attempt would keep all other coordinators from
        draining.
        """
        async with self._turn:
            await self._cancel()

    async def _cancel(self) -> None:
        if self.wanted:
            self.wanted = False
            self._draining_is(False)
            _log.info("the drain of the coordinator was cancelled")
        found = await self._metadata.get(COORDINATOR_DRAIN_KEY)
        if found is not None and Drain.decode(found.value).node == self.address:
            compares = [Compare(COORDINATOR_DRAIN_KEY, found.mod_revision)]
            await self._metadata.commit(compares, deletes=[COORDINATOR_DRAIN_KEY])

    async def _take_key(self) -> None:
        lease_id = self.lease_id
        if not lease_id:  # without one the key would have no end, and no other coordinator could drain
            raise MetadataUnavailableError("this coordinator has no lease at the moment: ask again", node=self.address)
        drain = Drain(self.address, lease_id, self._clock.now_ms())
        found = await self._metadata.get(COORDINATOR_DRAIN_KEY)
        if found is not None and not self._is_mine(found):
            holder = Drain.decode(found.value).node
            raise DrainingElsewhereError(
                f"the coordinator at {holder} drains; wait until it is back",
                retry_after_ms=_RETRY_AFTER_MS,
                node=holder,
            )
        if found is None:
            put = Put(COORDINATOR_DRAIN_KEY, drain.encode(), lease_id)
            result = await self._metadata.commit([Compare(COORDINATOR_DRAIN_KEY, 0)], [put])
            if not result.succeeded:
                raise DrainingElsewhereError("another coordinator began to drain", retry_after_ms=_RETRY_AFTER_MS)

    def _is_mine(self, found: KeyValue) -> bool:
        return self.lease_id != 0 and found.lease_id == self.lease_id

    async def leave(self, budget_ms: int) -> None:
        """Drains before the process stops: returns when every shard has another owner, when draining is impossible, or
        in time.
        """
        in_line_until_ms = self._clock.monotonic_ms() + budget_ms // 2
        try:
            async with asyncio.timeout(max(budget_ms, 1) / 1000):
                while not await self._may_stop(in_line_until_ms):
                    await self._wait()
        except TimeoutError:
            _log.error(
                "DRAIN TIMED OUT after %d ms: the coordinator stops with %d shards, %d have no owner",
                budget_ms,
                len(self._owned),
                self.unowned(),
            )

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._view.changed()
        except TimeoutError:
            pass

    async def _may_stop(self, in_line_until_ms: int) -> bool:
        if is_moot(self._facts()):
            return True
        try:
            return not await self.start() or self.done
        except DrainingElsewhereError as error:
            if self._clock.monotonic_ms() >= in_line_until_ms:
                _log.warning("stopping without having drained: %s", error)
                return True
        except OncelogError as error:
            _log.warning("drain: %s", error)
        return False
