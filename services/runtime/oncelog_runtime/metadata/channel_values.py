"""The value of a channel's key in etcd: what the channel is, and how it delivers. Its state is kept by a coordinator.

    <root>/channels/<topic id>/<name>      Channel        controller

Rule 1: a channel that is deleted and made again has another `channel_id`, so nothing of the old one's state counts for it.
Rule 2: options are checked where they come in (`ChannelOptions.check`); what stands in etcd is legal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Final

from oncelog.core.names import check_topic_name
from oncelog.errors import InvalidRequestError
from oncelog_runtime.metadata.cluster_keys import ROOT, encode_value, unknown_fields

CHANNELS: Final = f"{ROOT}/channels/"
START_LATEST: Final = -1
START_EARLIEST: Final = -2
DAY_MS: Final = 86_400_000
_RANGES: Final = {
    "ack_wait_ms": (100, DAY_MS // 2),
    "max_deliveries": (0, 1_000_000),
    "retry_backoff_ms": (0, DAY_MS),
    "retry_backoff_max_ms": (0, DAY_MS),
    "max_unsettled": (1, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """How a channel delivers. Units and ranges are those of `ChannelOptions` in channel.proto."""

    ack_wait_ms: int = 30_000
    """A record that a worker neither settles nor touches for so long comes again."""
    max_deliveries: int = 0
    """A record that was delivered so often, and is not settled, is dead; 0 = no bound."""
    dead_letter_topic: str = ""
    """Where dead records are written; empty = they are dropped, and counted."""
    retry_backoff_ms: int = 0
    """The pause before the second delivery; it doubles with each further one."""
    retry_backoff_max_ms: int = 600_000
    order_by_key: bool = False
    """One record of a key at a time, in the order of the log."""
    ephemeral: bool = False
    """The channel vanishes with its last worker."""
    max_unsettled: int = 100_000
    """How far past the first unsettled record of a partition it delivers, in offsets."""

    def check(self) -> None:
        """Raises `InvalidRequestError` for a value out of its range, or `InvalidTopicError`."""
        for name, (lowest, highest) in _RANGES.items():
            if not lowest <= getattr(self, name) <= highest:
                raise InvalidRequestError(f"{name} is {lowest} to {highest}", given=getattr(self, name))
        if self.retry_backoff_max_ms < self.retry_backoff_ms:
            raise InvalidRequestError(
                f"retry_backoff_max_ms is at least retry_backoff_ms, which is {self.retry_backoff_ms}: give both",
                given=self.retry_backoff_max_ms,
            )
        if self.dead_letter_topic:
            check_topic_name(self.dead_letter_topic)

    def retry_pause_ms(self, deliveries: int) -> int:
        """Returns the pause before the next delivery of a record that was delivered so often already."""
        doublings = min(max(deliveries - 1, 0), 40)
        return int(min(self.retry_backoff_ms << doublings, self.retry_backoff_max_ms))


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of a topic."""

    topic_id: str
    name: str
    channel_id: str
    options: ChannelOptions
    paused: bool = False
    start_timestamp_ms: int = START_EARLIEST
    """Where it begins on each partition: `START_EARLIEST`, `START_LATEST`, else the first record at or after this time."""
    created_ms: int = 0
    unknown: dict[str, object] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> str:
        """The channel's key in etcd."""
        return channel_key(self.topic_id, self.name)

    def encode(self) -> bytes:
        """Returns the value for etcd."""
        return encode_value(self)

    @staticmethod
    def decode(data: bytes) -> Channel:
        """Reads the value from etcd. An option that an older version did not write has its default."""
        d = json.loads(data)
        known = {item.name for item in fields(ChannelOptions)}
        return Channel(
            str(d["topic_id"]),
            str(d["name"]),
            str(d["channel_id"]),
            ChannelOptions(**{name: value for name, value in d["options"].items() if name in known}),
            bool(d["paused"]),
            int(d["start_timestamp_ms"]),
            int(d["created_ms"]),
            unknown=unknown_fields(Channel, d),
        )


def channel_key(topic_id: str, name: str) -> str:
    """Returns the key of a channel."""
    return f"{CHANNELS}{topic_id}/{name}"


def channel_of(key: str) -> tuple[str, str]:
    """Returns (topic id, name) of a channel's key. Raises `ValueError` for a key of another form."""
    topic_id, name = key.removeprefix(CHANNELS).split("/")
    return topic_id, name
