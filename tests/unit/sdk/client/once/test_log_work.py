"""A work takes records within its block only, and hands them over when that ends without an error."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.client.once.log_work import LogWork
from oncelog.errors import IllegalStateError
from tests.contracts.once_world import record


def made(committed: list[LogWork]) -> LogWork:
    async def commit(work: LogWork) -> None:
        committed.append(work)

    return LogWork(record(4), "id", 7, commit)


def test_what_was_sent_is_committed_at_the_end_of_the_block() -> None:
    async def main() -> None:
        committed: list[LogWork] = []
        async with made(committed) as work:
            work.send("bills", b"v", b"k", 3, 99, [("h", b"x")])
            assert committed == []
        assert committed == [work]
        assert [tuple(output) for output in work.outputs] == [("bills", b"v", b"k", 3, 99, [("h", b"x")])]
        assert (work.is_committed, work.fencing, work.record_id, work.record.offset) == (True, 7, "id", 4)

    asyncio.run(main())


def test_an_error_of_the_block_commits_nothing() -> None:
    async def main() -> None:
        committed: list[LogWork] = []
        work = made(committed)
        with pytest.raises(ZeroDivisionError):
            async with work:
                raise ZeroDivisionError
        assert (committed, work.is_committed, work.is_ended) == ([], False, True)

    asyncio.run(main())


def test_outside_of_the_block_nothing_is_sent() -> None:
    async def main() -> None:
        work = made([])
        with pytest.raises(IllegalStateError, match="within its block"):
            work.send("bills", b"v")
        async with work:
            pass
        with pytest.raises(IllegalStateError, match="within its block"):
            work.send("bills", b"v")
        with pytest.raises(IllegalStateError, match="entered once"):
            async with work:
                pass

    asyncio.run(main())
