"""What every part of `client.admin` stands on."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog import methods
from oncelog.client.calls import Caller
from oncelog.client.context import Context
from oncelog.client.metadata import Metadata
from oncelog.v1 import partition_pb2 as pb


class AdminBase:
    """Ports of one client."""

    def __init__(self, context: Context, metadata: Metadata, caller: Caller) -> None:
        self._context = context
        self._caller = caller
        self._metadata = metadata

    async def _describe(self, topics: Sequence[str] = (), all_topics: bool = False) -> pb.GetMetadataReply:
        request = pb.GetMetadataRequest(topics=list(topics), all_topics=all_topics)
        return await self._caller.to_any_broker(methods.GET_METADATA, request)
