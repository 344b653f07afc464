"""Finds the shards of this process for handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress

from oncelog.core.batch.hashing import shard_for
from oncelog.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidPidMappingError,
    NotCoordinatorError,
    OncelogError,
    RetriableError,
)
from oncelog_coordinator.core.channels.channel_table import ChannelTable
from oncelog_coordinator.core.decision import Command, Reply
from oncelog_coordinator.core.group_shard.shard_table import GroupShardTable
from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.effects.markers import MarkerSender
from oncelog_coordinator.shard.shard import Shard
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView, ShardKey
from oncelog_runtime.serving.signpost import Signpost


class NodeShards:
    """Routes calls to the shards of this process. `owned_shards` is the dict that the ownership maintains."""

    def __init__(
        self, view: ClusterView, owned_shards: dict[ShardKey, Shard], address: str, signpost: Signpost
    ) -> None:
        self._view = view
        self._signpost = signpost
        self._owned = owned_shards
        self._senders: dict[ShardLife, MarkerSender] = {}
        self.address = address

    @property
    def topic_names(self) -> Mapping[str, str]:
        """Maps topic ids to names."""
        return self._view.topic_names

    # ------------------------------------------------------------ routing

    def owned(self, kind: str, number: int) -> Shard:
        """Returns a shard of this process. Raises `NotCoordinatorError`, with the owner's address when it is known."""
        shard = self._owned.get((kind, number))
        if shard is None:
            address = self._signpost.owner(kind, number)
            raise NotCoordinatorError("this process does not own the shard", kind=kind, shard=number, go_to=address)
        return shard

    def transaction_shard(self, transactional_id: str) -> Shard:
        """Returns the shard of a transactional id. Raises `NotCoordinatorError`."""
        cluster = self._view.cluster
        if cluster is None:
            raise CoordinatorNotAvailableError("the cluster is not set up yet", retry_after_ms=100)
        return self.owned(KIND_TXN, shard_for(transactional_id, cluster.transaction_shards))

    def transaction_shard_number(self, transactional_id: str) -> int:
        """Returns the number of a transactional id's shard, whether or not it is owned here."""
        cluster = self._view.cluster
        if cluster is None:
            raise CoordinatorNotAvailableError("the cluster is not set up yet", retry_after_ms=100)
        return shard_for(transactional_id, cluster.transaction_shards)

    def require_shard_of(self, transactional_id: str, shard: int) -> None:
        """Raises `InvalidPidMappingError` unless this is the shard that decides about the transactional id.

        A leader that finds the transaction later knows its shard from the batches alone, and would ask the wrong one.
        """
        number = self.transaction_shard_number(transactional_id)
        if shard != number:
            raise InvalidPidMappingError(
                "the batch names another transaction shard than its transactional id belongs to: take the one that "
                "InitProducerId answered",
                transactional_id=transactional_id,
                txn_shard=shard,
                expected_shard=number,
            )

    def group_shard(self, group_id: str) -> Shard:
        """Returns the shard of a group. Raises `NotCoordinatorError`."""
        cluster = self._view.cluster
        if cluster is None:
            raise CoordinatorNotAvailableError("the cluster is not set up yet", retry_after_ms=100)
        return self.owned(KIND_GROUP, shard_for(group_id, cluster.group_shards))

    def all_owned(self, kind: str) -> list[Shard]:
        """Returns all owned shards of a kind, by number."""
        return [shard for (of_kind, _), shard in sorted(self._owned.items()) if of_kind == kind]

    async def ask_each(
        self, kind: str, numbers: Collection[int], command: Command[Reply]
    ) -> AsyncIterator[tuple[int, int, Reply]]:
        """Yields (shard, its epoch, answer) for each shard that serves here; `numbers` empty = all of them.

        A shard that is loading, closing, overloaded, or not owned here is left out: the caller sees that it is missing and
        asks again.
        """
        shards = [shard for shard in self.all_owned(kind) if not numbers or shard.number in numbers]
        asked = []
        for shard in shards:
            if shard.is_serving:
                with suppress(RetriableError):
                    asked.append((shard, shard.life.epoch, shard.life.submit(command)))
        for shard, epoch, answer in asked:
            try:
                yield shard.number, epoch, await answer
            except OncelogError as error:
                if not error.retriable:
                    raise

    # ------------------------------------------------------------ looks into a core

    def knows(self, shard: Shard, transactional_id: str) -> bool:
        """True when the id exists and so has a producer id. Raises `CoordinatorLoadInProgressError`."""
        table = shard.life.table
        assert isinstance(table, TransactionTable)
        return table.knows(transactional_id)

    def producer_id_of(self, shard: Shard, transactional_id: str) -> int | None:
        """Returns the producer id of a transactional id; None when it has none. Raises `CoordinatorLoadInProgressError`."""
        table = shard.life.table
        assert isinstance(table, TransactionTable)
        record = table.index.find(transactional_id)
        return record.producer_id if record is not None else None

    def offsets_of(self, life: ShardLife) -> OffsetTable:
        """Returns the committed offsets of a group shard, to look at."""
        assert isinstance(life.table, GroupShardTable)
        return life.table.offsets

    def channels_of(self, life: ShardLife) -> ChannelTable:
        """Returns what a group shard remembers of channels, to look at."""
        assert isinstance(life.table, GroupShardTable)
        return life.table.channels

    def is_visible(self, shard: Shard, transactional_id: str, txn_no: int) -> bool:
        """True when n is decided and all its markers are committed."""
        table = shard.life.table
        assert isinstance(table, TransactionTable)
        record = table.index.find(transactional_id)
        return record is not None and table.index.is_visible(record, txn_no)

    # ------------------------------------------------------------ visibility

    def follow(self, life: ShardLife, sender: MarkerSender) -> MarkerSender:
        """Registers the marker sender of a shard's current epoch, until it is closed."""
        self._senders[life] = sender
        sender.on_close = lambda: self._senders.pop(life, None)
        return sender

    async def wait_visible(self, shard: Shard, transactional_id: str, txn_no: int) -> None:
        """Returns when n became visible, or when the caller should look again because the shard has begun another epoch."""
        try:
            sender = self._senders.get(shard.life)
        except CoordinatorLoadInProgressError:
            sender = None
        if sender is None:
            await asyncio.sleep(0.02)
            return
        await sender.wait_visible(transactional_id, txn_no)
