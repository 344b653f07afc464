"""Group commit: one sync in flight per log; the next one covers all requests that arrived meanwhile.

Rule 1: after a failed sync nothing may be assumed, and no second sync is tried: all waiting requests fail, and so do all
        later ones.
Rule 2: while the disk is stalled no request waits: new and waiting ones fail at once (`DiskWatch`). The sync that does not
        end goes on, and the offsets that it covers count when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oncelog.errors import LeaderNotAvailableError, OncelogError, StorageError
from oncelog_partition_leader.log.data_dir.disk_watch import STALLED, DiskWatch
from oncelog_runtime.process.tasks import TaskOwner


class GroupSync:
    """Syncs of one log. `sync` returns the synced end offset; `is_waited_for()`: acknowledgements wait for syncs."""

    def __init__(
        self,
        sync: Callable[[], Awaitable[int]],
        tasks: TaskOwner,
        on_synced: Callable[[int], None],
        on_failed: Callable[[OncelogError], None],
        watch: DiskWatch,
        is_waited_for: Callable[[], bool],
    ) -> None:
        self._sync = sync
        self._tasks = tasks
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._watch = watch
        self._is_waited_for = is_waited_for
        self._wanted = False
        self._running: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._error: OncelogError | None = None
        self.synced_end = 0
        self.alone = asyncio.Lock()
        """Each sync holds it; a task that truncates, trims or closes the log holds it meanwhile."""

    def request(self) -> None:
        """Starts a sync soon that covers everything appended before this call."""
        self._wanted = True
        if self._running is None and self._error is None:
            self._running = self._tasks.spawn(self._run(), "group-sync")

    async def wait(self, end: int) -> None:
        """Returns when everything below `end` is on disk.

        Raises `StorageError`, or `LeaderNotAvailableError` when the log was truncated below `end` meanwhile.
        """
        while self.synced_end < end:
            if self._error is not None:
                raise self._error
            self._watch.require_answering()
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((end, done))
            self.request()
            await done

    def cut(self, end: int) -> None:
        """Notes that the log was truncated to `end`: requests that wait for a later offset fail, since its bytes are gone."""
        self.synced_end = min(self.synced_end, end)
        gone = [done for wanted, done in self._waiting if wanted > end]
        self._waiting = [(wanted, done) for wanted, done in self._waiting if wanted <= end]
        for done in gone:
            if not done.done():
                done.set_exception(LeaderNotAvailableError("the log was cut"))

    def stalled(self) -> None:
        """Fails all waiting requests, since the disk is stalled."""
        self._fail_waiting(StorageError("the disk of this broker does not answer", reason=STALLED))

    async def _run(self) -> None:
        try:
            while self._wanted:
                async with self.alone:
                    self._wanted = False
                    with self._watch.sync(is_waited_for=bool(self._waiting) or self._is_waited_for()):
                        self.synced_end = max(self.synced_end, await self._sync())
                self._wake()
                self._on_synced(self.synced_end)
        except OncelogError as error:
            self._fail(error)
        except Exception:  # no request may wait without end; the owner of the task reports it
            self._fail(StorageError("a sync of this log failed", reason="bug"))
            raise
        finally:
            self._running = None

    def _wake(self) -> None:
        still: list[tuple[int, asyncio.Future[None]]] = []
        for end, done in self._waiting:
            if end > self.synced_end:
                still.append((end, done))
            elif not done.done():
                done.set_result(None)
        self._waiting = still

    def _fail(self, error: OncelogError) -> None:
        self._error = StorageError("a sync of this log failed", reason=error.context.get("reason", "io"))
        self._fail_waiting(self._error)
        self._on_failed(self._error)

    def _fail_waiting(self, error: OncelogError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if not done.done():
                done.set_exception(error)
