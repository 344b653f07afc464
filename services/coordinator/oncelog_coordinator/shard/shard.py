"""One shard that this process owns: it runs in one epoch after the other, until the ownership ends.

Rule 1: the first run uses the epoch that the take-over won; each restart wins a new epoch by compare-and-swap on the
        owner and epoch keys, so a process that is no longer the owner never restarts the shard.
Rule 2: a shard serves everything or nothing: while it loads, callers get CoordinatorLoadInProgressError.
Rule 3: after repeated failures the restarts are further and further apart, and the last error is reported
        (`core/vitality.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from oncelog.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    OncelogError,
)
from oncelog_coordinator.config import ShardConfig
from oncelog_coordinator.core.decision import Command, Effect, Reply
from oncelog_coordinator.core.vitality import Vitality
from oncelog_coordinator.shard.log_port import LogLostError, LogPort
from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock
from oncelog_coordinator.shard.shard_observer import ShardObserver
from oncelog_coordinator.shard.shard_runtime import ShardLife, Table, Watched, first_cause

_log = logging.getLogger(__name__)
_REPORTED_IN_FULL = 3
"""This many failures in a row are logged with a traceback; later ones with one line."""


class EffectRunner(Protocol):
    """Runs the effects of one epoch of a shard."""

    def run(self, effect: Effect) -> None:
        """Starts an effect and returns at once."""
        ...

    async def close(self) -> None:
        """Ends the effects in progress."""
        ...


class LifeParts(NamedTuple):
    """The parts that each life of a shard is made of."""

    make_table: Callable[[], Table]
    open_log: Callable[[str, int, int], LogPort]
    """`open_log(kind, number, epoch)`."""
    make_runner: Callable[[Shard, ShardLife], EffectRunner]
    next_epoch: Callable[[str, int, int], Awaitable[int | None]]
    """`next_epoch(kind, number, above)` returns None when another process owns the shard."""


class Shard:
    """Restarts the shard's runtime after each failure; `run` is its task."""

    def __init__(
        self,
        kind: str,
        number: int,
        config: ShardConfig,
        clock: SteadyClock,
        parts: LifeParts,
        observer: ShardObserver | None = None,
    ) -> None:
        self.kind = kind
        self.number = number
        self.epoch = 0
        self._config = config
        self._clock = clock
        self._parts = parts
        self._newest_epoch = 0
        """The newest epoch found in the log; above etcd's after a restore if an owner's clock was ahead."""
        self._observer = observer or ShardObserver()
        self._life: ShardLife | None = None
        self._log: LogPort | None = None
        self._last_error = ""
        self.lives = 0
        self.vitality = Vitality(config.life_backoff_ms, config.life_backoff_max_ms, config.life_stable_ms)

    @property
    def name(self) -> str:
        """Kind and number, for logs."""
        return f"{self.kind}-{self.number}"

    @property
    def life(self) -> ShardLife:
        """The runtime that serves now. Raises `CoordinatorLoadInProgressError` while there is none."""
        if self._life is None:
            raise CoordinatorLoadInProgressError(self._why_not(), retry_after_ms=20, shard=self.name)
        return self._life

    def _why_not(self) -> str:
        trouble = self._log.trouble if self._log is not None else ""
        if not trouble and self.vitality.failed_in_a_row:
            trouble = self._last_error
        return f"the shard cannot serve without its log: {trouble}" if trouble else "the shard is replaying its log"

    @property
    def is_serving(self) -> bool:
        """True while commands are accepted."""
        return self._life is not None

    async def ask(self, command: Command[Reply]) -> Reply:
        """Returns the committed answer to a command. Raises the core's refusal."""
        return await self.life.submit(command)

    def look_at_clock(self) -> None:
        """Starts what is due by the clock; called by the ticker of the process."""
        if self.vitality.failed_in_a_row:
            self.vitality.look(self._clock.now_ms())
        if self._life is not None:
            self._life.look_at_clock()

    async def run(self, epoch: int) -> None:
        """Runs the shard in one epoch after the other until cancelled, or until another process owns it."""
        next_epoch: int | None = epoch
        while next_epoch is not None:
            assert next_epoch > self.epoch, "an epoch never comes twice"
            self.epoch = next_epoch
            self.lives += 1
            await self._live_once(next_epoch)
            wait_ms = self.vitality.ended(self._last_error, self._clock.now_ms())
            if self.vitality.failed_in_a_row:
                self._observer.life_failed(self.kind)
            await asyncio.sleep(wait_ms / 1000)
            next_epoch = await self._win_epoch()
        _log.info("shard %s belongs to another process now", self.name)

    async def _live_once(self, epoch: int) -> None:
        log = self._log = self._parts.open_log(self.kind, self.number, epoch)
        effects: list[Effect] = []
        life = ShardLife(
            self._parts.make_table(),
            log,
            epoch,
            self._config,
            self._clock,
            effects.append,
            Watched(self.name, self._observer),
        )
        runner = self._parts.make_runner(self, life)
        error: OncelogError | None = None
        try:
            await life.load()
            life.on_effect = runner.run
            self._life = life
            self.vitality.serves(self._clock.now_ms())
            _log.info("shard %s serves in epoch %d: %d records replayed in %d ms", self.name, epoch, *life.replayed)
            for effect in effects:
                runner.run(effect)
            await life.serve()
        except asyncio.CancelledError:
            error = NotCoordinatorError("this process no longer owns the shard", shard=self.name)
            raise
        except (Exception, BaseExceptionGroup) as failure:
            error = self._end_of(failure, epoch)
        finally:
            self._life = None
            try:
                await life.close(error)
            finally:
                await runner.close()  # also when the ownership ends meanwhile: it would send markers in a deposed epoch

    def _end_of(self, failure: BaseException, epoch: int) -> OncelogError:
        """Logs why the runtime ended, and returns the error for callers that still wait."""
        cause = first_cause(failure)
        self._last_error = str(cause) if isinstance(cause, OncelogError | LogLostError) else repr(cause)
        if isinstance(cause, LogLostError):
            _log.warning("shard %s in epoch %d lost its log: %s", self.name, epoch, cause)
            self._newest_epoch = max(self._newest_epoch, cause.newest_epoch)
            if cause.fenced:
                return NotCoordinatorError("a newer owner of the shard exists", shard=self.name)
        else:
            seldom = self.vitality.failed_in_a_row < _REPORTED_IN_FULL
            _log.error(
                "shard %s in epoch %d is dropped: %r", self.name, epoch, cause, exc_info=cause if seldom else None
            )
        return CoordinatorNotAvailableError(
            f"the shard restarts: {self._last_error}", retry_after_ms=20, shard=self.name
        )

    async def _win_epoch(self) -> int | None:
        while True:
            try:
                return await self._parts.next_epoch(self.kind, self.number, self._newest_epoch)
            except OncelogError as error:
                _log.warning("shard %s cannot win an epoch: %s", self.name, error)
                await asyncio.sleep(self._config.retry_backoff_max_ms / 1000)
