"""Offsets by time, earliest or latest, of many partitions: one call per leader, tried again until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.metadata import Metadata
from oncelog.config import READ_COMMITTED
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
_UNKNOWN_TOPIC_GRACE_MS: Final = 1_000
"""A leader may hear of a new topic a little later than we do."""


class FoundOffset(NamedTuple):
    """`offset` -1: no record at or after the time. `timestamp_ms` of that record, -1: none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def isolation(name: str) -> types_pb2.IsolationLevel:
    """The wire value of "read_committed" or "read_uncommitted"."""
    return (
        types_pb2.ISOLATION_LEVEL_READ_COMMITTED
        if name == READ_COMMITTED
        else types_pb2.ISOLATION_LEVEL_READ_UNCOMMITTED
    )


class OffsetLookup:
    """See the module."""

    def __init__(self, context: Context, metadata: Metadata) -> None:
        self._context = context
        self._metadata = metadata

    async def find(
        self, wanted: Mapping[PartitionId, int], isolation_level: str, timeout_ms: int | None = None
    ) -> dict[PartitionId, FoundOffset]:
        """`wanted`: partition -> time in ms, or LATEST, EARLIEST, MAX_TIMESTAMP. Raises the last error at the deadline."""
        found, failed = await self.try_find(wanted, isolation_level, timeout_ms)
        for error in failed.values():
            raise error
        return {key: found[key] for key in wanted}

    async def try_find(
        self, wanted: Mapping[PartitionId, int], isolation_level: str, timeout_ms: int | None = None
    ) -> tuple[dict[PartitionId, FoundOffset], dict[PartitionId, errors.OncelogError]]:
        """As `find`, but what fails is returned beside what was found: each wanted partition is in one of the two."""
        deadline_ms = self._context.deadline_ms(timeout_ms)
        grace_ms = now_ms() + _UNKNOWN_TOPIC_GRACE_MS
        found: dict[PartitionId, FoundOffset] = {}
        failed: dict[PartitionId, errors.OncelogError] = {}
        attempt = 0
        left = dict(wanted)
        while left:
            errors_now = await self._round(left, isolation_level, found, deadline_ms)
            failed = {key: error for key, error in failed.items() if key not in left} | errors_now
            looked_for = now_ms() < grace_ms
            left = {key: wanted[key] for key, error in errors_now.items() if _may_pass(error, looked_for)}
            attempt += 1
            if not left or not await self._context.pause(attempt, deadline_ms):
                break
            await self._metadata.refresh(deadline_ms)
        return found, failed

    async def ask_once(
        self, wanted: Mapping[PartitionId, int], isolation_level: str
    ) -> tuple[dict[PartitionId, FoundOffset], dict[PartitionId, errors.OncelogError]]:
        """As `try_find`, and nothing is tried again."""
        found: dict[PartitionId, FoundOffset] = {}
        failed = await self._round(wanted, isolation_level, found, self._context.deadline_ms())
        return found, failed

    async def _round(
        self, wanted: Mapping[PartitionId, int], level: str, found: dict[PartitionId, FoundOffset], deadline_ms: int
    ) -> dict[PartitionId, errors.OncelogError]:
        failed: dict[PartitionId, errors.OncelogError] = {}
        by_leader: dict[str, list[PartitionId]] = {}
        for key in wanted:
            address = self._metadata.leader(key).address
            if address is None:
                failed[key] = errors.LeaderNotAvailableError(topic_id=key.topic_id, partition=key.partition)
            else:
                by_leader.setdefault(address, []).append(key)
        calls = [self._ask(a, keys, wanted, level, deadline_ms) for a, keys in by_leader.items()]
        for items in await asyncio.gather(*calls):
            for key, item in items.items():
                if isinstance(item, FoundOffset):
                    found[key] = item
                else:
                    failed[key] = item
        return failed

    async def _ask(
        self, address: str, keys: list[PartitionId], wanted: Mapping[PartitionId, int], level: str, deadline_ms: int
    ) -> dict[PartitionId, FoundOffset | errors.OncelogError]:
        request = pb.ListOffsetsRequest(
            isolation_level=isolation(level),
            partitions=[
                pb.ListOffsetsPartition(topic_id=k.topic_id, partition=k.partition, timestamp_ms=wanted[k])
                for k in keys
            ],
        )
        timeout_ms = self._context.call_timeout_ms(deadline_ms)
        try:
            reply, _ = await methods.LIST_OFFSETS.call(self._context.transport, address, request, timeout_ms)
        except errors.OncelogError as error:
            return dict.fromkeys(keys, error)
        answers: dict[PartitionId, FoundOffset | errors.OncelogError] = {
            PartitionId(item.topic_id, item.partition): from_detail(item.error)
            if item.HasField("error")
            else FoundOffset(item.offset, item.timestamp_ms, item.leader_epoch)
            for item in reply.partitions
        }
        return {key: _believed(answers.get(key), wanted[key]) for key in keys}


def _believed(answer: FoundOffset | errors.OncelogError | None, wanted: int) -> FoundOffset | errors.OncelogError:
    """Only the search for a time may find nothing."""
    if answer is None:
        return errors.InvalidResponseError("the leader did not answer for this partition")
    if isinstance(answer, FoundOffset) and answer.offset < (0 if wanted in (LATEST, EARLIEST) else -1):
        return errors.InvalidResponseError("the leader told an offset that cannot be", answered=answer.offset)
    return answer


def _may_pass(error: errors.OncelogError, unknown_topics_may_come: bool) -> bool:
    return error.retriable or (unknown_topics_may_come and isinstance(error, errors.UnknownTopicError))
