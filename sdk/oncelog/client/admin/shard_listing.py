"""Lists that are spread over the shards of all coordinators: complete, or an error that names what is missing.

Rule 1: every shard is asked, and its answer counts only when it names that shard, in an epoch at least as high as the
        owner's that we know. So a shard that moves, loads, or lies behind a dead process is asked again, never left out.
Rule 2: at the deadline `CoordinatorNotAvailableError` says which shards did not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from google.protobuf.message import Message

from oncelog import errors
from oncelog.client.home.context import Context
from oncelog.client.routing.metadata import Metadata
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire.methods import MethodSpec

_ATTEMPT_MS: Final = 5_000
T = TypeVar("T")
Req = TypeVar("Req", bound=Message)
Rep = TypeVar("Rep", co.ListTransactionsReply, co.ListGroupsReply)


class ShardListing:
    """See the module."""

    def __init__(self, context: Context, metadata: Metadata) -> None:
        self._context = context
        self._metadata = metadata

    async def collect(
        self,
        kind: str,
        spec: MethodSpec[Req, Rep],
        request: Callable[[list[int]], Req],
        items: Callable[[Rep], Iterable[tuple[int, T]]],
    ) -> list[T]:
        """Items of all shards of `kind` ("transaction" or "group"). `items(reply)` gives (shard, item)."""
        deadline_ms = self._context.deadline_ms()
        found: dict[int, list[T]] = {}
        attempt = 0
        while True:
            await self._metadata.refresh(deadline_ms)
            count, owners = self._metadata.shard_owners(kind)
            missing = [shard for shard in range(count) if shard not in found]
            await self._round(missing, owners, spec, request, items, found, deadline_ms)
            missing = [shard for shard in missing if shard not in found]
            if count and not missing:
                return [item for shard in sorted(found) for item in found[shard]]
            attempt += 1
            if not await self._context.pause(attempt, deadline_ms):
                raise _incomplete(kind, missing)

    async def _round(
        self,
        missing: list[int],
        owners: dict[int, tuple[str, int]],
        spec: MethodSpec[Req, Rep],
        request: Callable[[list[int]], Req],
        items: Callable[[Rep], Iterable[tuple[int, T]]],
        found: dict[int, list[T]],
        deadline_ms: int,
    ) -> None:
        by_owner: dict[str, list[int]] = {}
        for shard in missing:
            if shard in owners:
                by_owner.setdefault(owners[shard][0], []).append(shard)
        calls = [self._ask(address, spec, request(shards), deadline_ms) for address, shards in by_owner.items()]
        for reply in await asyncio.gather(*calls):
            if reply is None:
                continue
            answered = {a.shard for a in reply.answered if a.epoch >= owners.get(a.shard, ("", 0))[1]}
            found.update((shard, []) for shard in answered)
            for shard, item in items(reply):
                if shard in answered:
                    found[shard].append(item)

    async def _ask(self, address: str, spec: MethodSpec[Req, Rep], request: Req, deadline_ms: int) -> Rep | None:
        """One try; None when it may go better the next time."""
        timeout_ms = min(_ATTEMPT_MS, self._context.call_timeout_ms(deadline_ms))
        try:
            reply, _ = await spec.call(self._context.transport, address, request, timeout_ms)
        except errors.OncelogError as error:
            if not error.retriable:
                raise
            return None
        return reply


def _incomplete(kind: str, missing: list[int]) -> errors.CoordinatorNotAvailableError:
    return errors.CoordinatorNotAvailableError(
        f"the list would be incomplete: {len(missing)} {kind} shards did not answer; see `oncelog cluster health`",
        shards=",".join(map(str, missing[:20])) + ("..." if len(missing) > 20 else ""),
    )
