"""Commits that are made at the same time go together, and each caller gets the answer of its own commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog_partition_leader.replication.merged_commits import OPERATIONS_MAX, MergedCommits
from oncelog_runtime.ports import CommitResult, Compare, Put
from oncelog_runtime.process.tasks import TaskOwner


class Store:
    """Keys with revisions. `down`: so many commits fail with an unknown outcome."""

    def __init__(self) -> None:
        self.revisions: dict[str, int] = {}
        self.revision = 100
        self.sizes: list[int] = []
        self.down = 0

    async def commit(self, compares: Sequence[Compare], puts: Sequence[Put]) -> CommitResult:
        await asyncio.sleep(0.001)
        assert len({put.key for put in puts}) == len(puts), "no key twice in a transaction"
        assert len({compare.key for compare in compares}) <= OPERATIONS_MAX
        self.sizes.append(len(puts))
        if self.down:
            self.down -= 1
            raise MetadataUnavailableError("no answer", unknown="true")
        if any(self.revisions.get(compare.key, 0) != compare.mod_revision for compare in compares):
            return CommitResult(False, self.revision)
        self.revision += 1
        self.revisions.update((put.key, self.revision) for put in puts)
        return CommitResult(True, self.revision)


def run(scenario: Callable[[Store, MergedCommits], Awaitable[None]]) -> None:
    async def main() -> None:
        bugs: list[BaseException] = []
        tasks, store = TaskOwner(bugs.append), Store()
        await scenario(store, MergedCommits(cast(Any, store), tasks))
        await tasks.stop()
        assert not bugs

    asyncio.run(main())


def one(commits: MergedCommits, key: str, revision: int = 0, *more: Compare) -> Awaitable[CommitResult]:
    return commits.commit([Compare(key, revision), *more], Put(key, b"x"))


def test_a_thousand_commits_go_in_few_transactions() -> None:
    async def scenario(store: Store, commits: MergedCommits) -> None:
        broker = Compare("broker", 7)
        store.revisions["broker"] = 7
        results = await asyncio.gather(*(one(commits, f"p{n}", 0, broker) for n in range(1_000)))
        assert all(result.succeeded for result in results)
        assert [store.revisions[f"p{n}"] for n in range(1_000)] == [result.revision for result in results]
        assert len(store.sizes) < 15

    run(scenario)


def test_a_commit_whose_condition_fails_fails_alone() -> None:
    async def scenario(store: Store, commits: MergedCommits) -> None:
        store.revisions["p3"] = 5
        results = await asyncio.gather(*(one(commits, f"p{n}") for n in range(6)))
        assert [result.succeeded for result in results] == [True, True, True, False, True, True]
        assert store.revisions["p3"] == 5

    run(scenario)


def test_commits_that_contradict_each_other_do_not_go_together() -> None:
    async def scenario(store: Store, commits: MergedCommits) -> None:
        store.revisions["broker"] = 8
        seven, eight = Compare("broker", 7), Compare("broker", 8)
        old, new, same = await asyncio.gather(
            one(commits, "a", 0, seven), one(commits, "b", 0, eight), one(commits, "a", 0, eight)
        )
        assert (old.succeeded, new.succeeded, same.succeeded) == (False, True, True)

    run(scenario)


def test_a_lost_answer_is_lost_for_each_and_later_commits_go_on() -> None:
    async def scenario(store: Store, commits: MergedCommits) -> None:
        store.down = 1
        lost = await asyncio.gather(one(commits, "a"), one(commits, "b"), return_exceptions=True)
        assert all(isinstance(error, MetadataUnavailableError) for error in lost)
        assert (await one(commits, "a")).succeeded

    run(scenario)


def test_a_bug_leaves_nobody_waiting() -> None:
    async def scenario() -> None:
        class Broken(Store):
            async def commit(self, compares: Sequence[Compare], puts: Sequence[Put]) -> CommitResult:
                await asyncio.sleep(0)
                raise ZeroDivisionError

        bugs: list[BaseException] = []
        commits = MergedCommits(cast(Any, Broken()), TaskOwner(bugs.append))
        async with asyncio.timeout(10):
            with pytest.raises(MetadataUnavailableError):
                await one(commits, "a")
        await asyncio.sleep(0)
        assert [type(bug) for bug in bugs] == [ZeroDivisionError]

    asyncio.run(scenario())
