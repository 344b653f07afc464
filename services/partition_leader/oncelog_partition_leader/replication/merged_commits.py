"""Merges small commits that are made at the same time into few transactions of the metadata store.

A broker that comes back joins the ISRs of thousands of partitions: one commit for each, of its own leader, within a second.

Rule 1: each caller gets the answer that its own commit alone would have got: a transaction that merges several and fails is
        repeated commit by commit. What is merged is written by all of them or none, so one that succeeds holds for each.
Rule 2: an answer that is lost is lost for each: it is unknown whether the commit was written (`MetadataStore.commit`).
Rule 3: commits wait only while `_AT_ONCE` transactions are under way, and go in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.errors import MetadataUnavailableError, OncelogError
from oncelog_runtime.ports import CommitResult, Compare, MetadataStore, Put
from oncelog_runtime.process.tasks import TaskOwner

_AT_ONCE: Final = 2
OPERATIONS_MAX: Final = 120
"""etcd takes 128 conditions, and as many writes, in one transaction."""


@dataclass(frozen=True, slots=True, eq=False)
class _Commit:
    compares: Sequence[Compare]
    put: Put
    done: asyncio.Future[CommitResult]


class MergedCommits:
    """Makes the commits of one key each, for all partitions of a broker."""

    def __init__(self, metadata: MetadataStore, tasks: TaskOwner) -> None:
        self._metadata = metadata
        self._tasks = tasks
        self._waiting: deque[_Commit] = deque()
        self._running = 0

    async def commit(self, compares: Sequence[Compare], put: Put) -> CommitResult:
        """Writes one key if every condition holds. Raises as `MetadataStore.commit` does."""
        done: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Commit(compares, put, done))
        if self._running < _AT_ONCE:
            self._running += 1
            self._tasks.spawn(self._run(), "merged-commits")
        return await done

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._write(self._take())
        finally:
            self._running -= 1

    def _take(self) -> list[_Commit]:
        """Returns the next commits that fit into one transaction and do not contradict each other."""
        taken: list[_Commit] = []
        compares: dict[str, int] = {}
        keys: set[str] = set()
        while self._waiting:
            commit = self._waiting[0]
            wanted = {compare.key: compare.mod_revision for compare in commit.compares}
            fits = len(compares.keys() | wanted.keys()) <= OPERATIONS_MAX and len(taken) < OPERATIONS_MAX
            agrees = all(compares.get(key, revision) == revision for key, revision in wanted.items())
            if taken and not (fits and agrees and commit.put.key not in keys):
                break
            taken.append(self._waiting.popleft())
            compares |= wanted
            keys.add(commit.put.key)
        return taken

    async def _write(self, commits: Sequence[_Commit]) -> None:
        compares = list(dict.fromkeys(compare for commit in commits for compare in commit.compares))
        try:
            result = await self._metadata.commit(compares, [commit.put for commit in commits])
        except OncelogError as error:
            _refuse(commits, error)
            return
        except BaseException:
            _refuse(commits, MetadataUnavailableError("the commit was given up", unknown="true"))
            raise
        if result.succeeded or len(commits) == 1:
            for commit in commits:
                if not commit.done.done():
                    commit.done.set_result(result)
            return
        for number, commit in enumerate(commits):
            try:
                await self._write([commit])
            except BaseException:
                _refuse(commits[number:], MetadataUnavailableError("the commit was given up", unknown="true"))
                raise


def _refuse(commits: Sequence[_Commit], error: OncelogError) -> None:
    for commit in commits:
        if not commit.done.done():
            commit.done.set_exception(error)
