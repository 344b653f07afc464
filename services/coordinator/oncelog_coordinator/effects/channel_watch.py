"""Tells the group shards of this process which channels there are, when they begin to serve and when channels change.

Rule: a shard gets no list before this process has read the cluster's metadata, and waits for none. A shard forgets a channel
only when it is missing in all lists of a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog_coordinator.core.channels.channel_commands import SeeChannels
from oncelog_coordinator.shard.shard import Shard
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_runtime.metadata.channel_values import CHANNELS
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP
from oncelog_runtime.metadata.cluster_view import ClusterView, ShardKey


class ChannelWatch:
    """Follows the channels. `look` is called by the ticker of the process; `shards` is the dict of the ownership."""

    def __init__(self, view: ClusterView, shards: Mapping[ShardKey, Shard]) -> None:
        self._view = view
        self._shards = shards
        self._has_changed = True
        self._channel_ids: frozenset[str] | None = None
        self._told: dict[ShardKey, tuple[ShardLife, frozenset[str]]] = {}
        view.listen(self._changed)

    def _changed(self, keys: Iterable[str]) -> None:
        self._has_changed = self._has_changed or any(key.startswith(CHANNELS) for key in keys)

    def look(self) -> None:
        """Tells every group shard that serves, and was not told yet, what there is now."""
        if self._view.revision and self._has_changed:
            self._has_changed = False
            found = frozenset(entry.value.channel_id for entry in self._view.channels.values())
            self._channel_ids = self._channel_ids if found == self._channel_ids else found
        if self._channel_ids is None:
            return
        self._told = {key: told for key, told in self._told.items() if key in self._shards}
        for key, shard in self._shards.items():
            if key[0] != KIND_GROUP or not shard.is_serving:
                continue
            life, told = shard.life, self._told.get(key)
            if told is None or told[0] is not life or told[1] is not self._channel_ids:
                self._told[key] = (life, self._channel_ids)
                life.tell(SeeChannels(self._channel_ids))
