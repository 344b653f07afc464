"""Drains this broker (controlled shutdown): on request, or because the process is about to end.

Rule 1: one broker drains at a time. The drain is one key in etcd without a lease, which names the incarnation; it ends when
        that incarnation is no longer registered. A broker that finds it held by a living one waits in line.
Rule 2: this broker drains while etcd says so: a lost answer, or a request that another process sent, changes nothing.
Rule 3: while it drains it gives away every leadership and the controller's role, as often as it gets one; it stays a
        follower. It gives a few leaderships at a time, users' first: the next leader needs milliseconds for each, and does
        not answer requests meanwhile.
Rule 4: every wait is bounded; a drain that runs out of time is logged as an error, with the work that was left.
Rule 5: a key that names a former incarnation of this broker is removed as soon as this one is registered.
Rule 6: a broker that ends without the key gives each leadership away once. One that comes back is from another broker that ends
        at the same time: the two would hand it to each other until both are killed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from oncelog.errors import DrainingElsewhereError, LeaderNotAvailableError, MetadataUnavailableError, OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.registration import learned
from oncelog_partition_leader.core.cluster.draining import (
    DrainFacts,
    Leaving,
    Remaining,
    Start,
    drains,
    is_left_over,
    known_brokers,
    leaving,
    remaining,
    start_step,
    turns,
    why_skipped,
)
from oncelog_partition_leader.replication.replica_manager import ReplicaManager
from oncelog_runtime.metadata.cluster_keys import (
    BROKER_DRAIN_KEY,
    BROKERS,
    INTERNAL_TOPICS,
    Drain,
    Partition,
    broker_key,
)
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Compare, MetadataStore, Put, WallClock
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_LOOK_S: Final = 0.1
_PAUSE_S: Final = 0.03
"""The pause after each commit that gives leaderships away."""
_RETRY_AFTER_MS: Final = 500
_TRIES: Final = 3
_CANCEL_SEEN_S: Final = 2.0


class Drainer:
    """The drain of one broker. `resign()` gives up the controller's role; `draining_is(bool)` is called at each change."""

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        clock: WallClock,
        tasks: TaskOwner,
        replicas: ReplicaManager,
        *,
        me: Callable[[], BrokerRef],
        resign: Callable[[], Awaitable[None]],
        draining_is: Callable[[bool], None],
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._clock = clock
        self._tasks = tasks
        self._replicas = replicas
        self._me = me
        self._resign = resign
        self._draining_is = draining_is
        self._working = False
        self._clearing = False
        self._giving = asyncio.Lock()
        view.listen(self._saw)

    # ------------------------------------------------------------ questions

    @property
    def active(self) -> bool:
        """True while this incarnation drains."""
        return drains(self._facts())

    def _facts(self) -> DrainFacts:
        view, entry = self._view, self._view.broker_drain
        holder = entry.value.broker if entry is not None else None
        is_registered = holder is not None and view.is_live(holder)
        return DrainFacts(self._me(), holder, is_registered, has_listing=view.revision > 0)

    def remaining(self) -> Remaining:
        """Counts the responsibilities that this broker must still hand over before it may be stopped."""
        return remaining(self._me(), self._states(), self._view.live(), self._replicas.min_insync_of)

    def why_skipped(self) -> str:
        """Says why a drain would be useless; empty when it is useful."""
        live = self._view.live()
        return why_skipped(self._me(), known_brokers(self._states(), live), live)

    def _states(self) -> Iterator[Partition]:
        return (entry.value for entry in self._view.partitions.values())

    # ------------------------------------------------------------ commands

    async def start(self) -> bool:
        """Starts the drain, unless it has been started. False: skipped, see `why_skipped`.

        Raises `DrainingElsewhereError`, `LeaderNotAvailableError` before registration, `MetadataUnavailableError`.
        """
        if self.why_skipped():
            return False
        for _ in range(_TRIES):
            if await self._try_to_start():
                return True
        raise DrainingElsewhereError("the drain's key changes all the time", retry_after_ms=_RETRY_AFTER_MS)

    async def _try_to_start(self) -> bool:
        facts, entry = self._facts(), self._view.broker_drain
        step = start_step(facts)
        if step is Start.NOT_REGISTERED:
            raise LeaderNotAvailableError("this broker is not registered yet", retry_after_ms=_RETRY_AFTER_MS)
        if step is Start.DRAINS:
            return True
        if step is Start.WAIT:
            assert facts.holder is not None, "another broker drains"
            raise _draining_elsewhere(facts.holder.broker_id)
        me = facts.me
        put = Put(BROKER_DRAIN_KEY, Drain(str(me.broker_id), me.incarnation, self._clock.now_ms()).encode())
        known = entry.mod_revision if entry is not None else 0
        compares = [Compare(BROKER_DRAIN_KEY, known), Compare(broker_key(me.broker_id), me.incarnation)]
        try:
            result = await self._metadata.commit(compares, [put])
        except MetadataUnavailableError as error:
            if error.context.get("unknown") != "true":
                raise
            await self._look_again()
            return self.active
        if result.succeeded:
            self._view.learn(learned(result.revision, [put]))
            return True
        await self._look_again()
        return False

    async def _look_again(self) -> None:
        """Reads the keys of the drain and of this broker, after a lost answer or when the view is behind."""
        found = await self._metadata.get(BROKER_DRAIN_KEY)
        if found is not None:
            self._view.learn([found])
        registered = await self._metadata.get(broker_key(self._me().broker_id))
        if registered is not None:
            self._view.learn([registered])

    async def cancel(self) -> None:
        """Ends this broker's drain, if there is one. Raises `MetadataUnavailableError`."""
        entry = self._view.broker_drain
        if entry is not None and entry.value.broker.broker_id == self._me().broker_id:
            await self._metadata.commit([Compare(BROKER_DRAIN_KEY, entry.mod_revision)], deletes=[BROKER_DRAIN_KEY])
            try:
                async with asyncio.timeout(_CANCEL_SEEN_S):
                    while self._view.broker_drain is entry:
                        await self._view.changed()
            except TimeoutError:
                pass  # etcd has it; the view will follow
            _log.info("the drain of broker %d was cancelled", self._me().broker_id)

    async def leave(self, budget_ms: int) -> None:
        """Drains before the process ends; returns when it is safe to stop, when waiting is useless, or in time."""
        given: set[PartitionId] = set()
        try:
            async with asyncio.timeout(max(budget_ms, 1) / 1000):
                in_line_until_ms = self._clock.monotonic_ms() + budget_ms // 2
                while not await self._may_stop(in_line_until_ms, given):
                    await self._wait()
        except TimeoutError:
            _log.error(
                "DRAIN TIMED OUT after %d ms: broker %d stops with %s; calls may fail until another one leads",
                budget_ms,
                self._me().broker_id,
                self.remaining(),
            )

    async def _may_stop(self, in_line_until_ms: int, given: set[PartitionId]) -> bool:
        try:
            if not self._me().incarnation:
                return True
            await self.start()
        except DrainingElsewhereError as error:
            if self._clock.monotonic_ms() < in_line_until_ms:
                return False
            _log.warning("handing over without being the one that drains: %s", error)
        except OncelogError as error:
            _log.warning("drain: %s", error)
        if self.active:
            given.clear()
        await self._give_away(given)
        left = self.remaining()
        may_stop = leaving(left, came_back=len(given & self._led_in_view()))
        if may_stop is Leaving.ALONE:
            _log.warning("nobody is there to take over: broker %d stops with %s", self._me().broker_id, left)
        return may_stop is not Leaving.WAIT

    # ------------------------------------------------------------ the work

    def _saw(self, keys: list[str]) -> None:
        if BROKER_DRAIN_KEY in keys or any(key.startswith(BROKERS) for key in keys):
            self.look()

    def look(self) -> None:
        """Acts on the drain's key and this broker's incarnation, which may have changed."""
        active = self.active
        self._draining_is(active)
        if active and not self._working:
            self._working = True
            self._tasks.spawn(self._work(), "drain")
        if self._is_left_over() and not self._clearing:
            self._clearing = True
            self._tasks.spawn(self._clear(), "clear-drain")

    async def _work(self) -> None:
        _log.info("broker %d drains: %s", self._me().broker_id, self.remaining())
        was_done = False
        try:
            while self.active:
                await self._give_away(set())
                left = self.remaining()
                if left.done != was_done:
                    was_done = left.done
                    _log.info("broker %d %s", self._me().broker_id, "is safe to stop" if was_done else f"waits: {left}")
                await self._wait()
        finally:
            self._working = False
        _log.info("broker %d drains no more", self._me().broker_id)
        self.look()

    def _led_in_view(self) -> set[PartitionId]:
        return {partition for partition, entry in self._view.partitions.items() if entry.value.leader == self._me()}

    async def _give_away(self, given: set[PartitionId]) -> None:
        """Gives away the controller's role, and the leaderships but for those that were `given` away before; notes them."""
        try:
            await self._resign()
        except OncelogError as error:
            _log.warning("giving up the controller's role: %s", error)
        async with self._giving:  # the writes of `leave` and `_work` would conflict
            await self._give_leaderships_away(given)

    async def _give_leaderships_away(self, given: set[PartitionId]) -> None:
        was_active = self.active
        led = [leadership for leadership in self._replicas.led if leadership.partition not in given]
        for number, together in enumerate(turns(led, lambda leadership: leadership.topic in INTERNAL_TOPICS)):
            if number:
                await asyncio.sleep(_PAUSE_S)
            if was_active and not self.active:
                return
            await self._replicas.hand_over.give_away(together, leaves=False)
            given |= {leadership.partition for leadership in together} - self._led_in_view()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._view.changed()
        except TimeoutError:
            pass

    def _is_left_over(self) -> bool:
        return is_left_over(self._facts())

    async def _clear(self) -> None:
        """Removes the drain's key that a former incarnation of this broker left."""
        try:
            while self._is_left_over() and (entry := self._view.broker_drain) is not None:
                _log.info("removing the drain of broker %d's former incarnation", self._me().broker_id)
                try:
                    compares = [Compare(BROKER_DRAIN_KEY, entry.mod_revision)]
                    await self._metadata.commit(compares, deletes=[BROKER_DRAIN_KEY])
                except OncelogError as error:
                    _log.warning("removing an old drain: %s", error)
                await self._wait()
        finally:
            self._clearing = False


def _draining_elsewhere(broker_id: int) -> DrainingElsewhereError:
    message = f"broker {broker_id} drains; wait until it is back, or `oncelog node undrain --node {broker_id}`"
    return DrainingElsewhereError(message, retry_after_ms=_RETRY_AFTER_MS, broker=broker_id)
