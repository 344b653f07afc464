"""The base of every part of `client.admin`."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.home.stays_here import StaysHere
from oncelog.client.routing.calls import Caller
from oncelog.client.routing.metadata import Metadata
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods


class AdminBase(StaysHere):
    """Ports of one client."""

    def __init__(self, context: Context, metadata: Metadata, caller: Caller) -> None:
        self._context = context
        self._caller = caller
        self._metadata = metadata
        self._told_revision = 0

    async def _describe(self, topics: Sequence[str] = (), all_topics: bool = False) -> pb.GetMetadataReply:
        """Returns what some broker knows; one that lags behind what this client has seen is not believed.

        Raises `MetadataUnavailableError` when no other broker answers.
        """
        request = pb.GetMetadataRequest(topics=list(topics), all_topics=all_topics)
        deadline_ms = self._context.deadline_ms()
        known = max(self._told_revision, self._metadata.revision)
        attempt = 0
        while True:
            left_ms = max(1, deadline_ms - now_ms())
            reply = await self._caller.to_any_broker(methods.GET_METADATA, request, left_ms)
            if reply.revision >= known:
                break
            attempt += 1
            if not await self._context.pause(attempt, deadline_ms):
                raise errors.MetadataUnavailableError(
                    "the brokers that answer know less than this client was told before, so they are cut off from etcd; try "
                    "again, and see their logs",
                    known_revision=known,
                    answered=reply.revision,
                )
        self._told_revision = max(self._told_revision, reply.revision)
        return reply
