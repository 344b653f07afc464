"""Checks metadata, since a client connects to the addresses in it, and remembers the rest.

Rule: addresses are `host:port` and nothing else that a resolver would take (`unix:`, `dns://server/name`); partitions are
0 to n-1, each once, n bounded; shards lie within their count, which never changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from oncelog.errors import InvalidResponseError

PARTITIONS_MAX: Final = 200_000
SHARDS_MAX: Final = 65_535
_ADDRESS_MAX: Final = 300
_ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._-]+)?\]|[0-9A-Za-z._-]+):([0-9]{1,5})")


def check_address(address: str) -> None:
    """Raises `InvalidResponseError` for what is no `host:port`. Empty: a process that has no address here."""
    found = _ADDRESS.fullmatch(address) if len(address) <= _ADDRESS_MAX else None
    if address and (found is None or not 0 < int(found[1]) < 65_536):
        raise InvalidResponseError("metadata names an address that is no host:port", answered=ascii(address[:100]))


def check_partitions(topic: str, numbers: Collection[int]) -> None:
    """Raises `InvalidResponseError`."""
    count = len(numbers)
    if count > PARTITIONS_MAX:
        raise InvalidResponseError(
            "metadata names more partitions than a topic may have", topic=topic, partitions=count
        )
    if count and (len(set(numbers)) != count or min(numbers) != 0 or max(numbers) != count - 1):
        raise InvalidResponseError(
            "metadata does not name each partition of a topic once", topic=topic, partitions=count
        )


def check_shards(kind: str, known: int, count: int, shards: Collection[int]) -> None:
    """Raises `InvalidResponseError`. 0: not known, not told."""
    if not 0 <= count <= SHARDS_MAX or (known and count and known != count):
        raise InvalidResponseError(f"metadata tells another number of {kind} shards", known=known, answered=count)
    if len(set(shards)) != len(shards) or any(not 0 <= shard < (count or known or SHARDS_MAX) for shard in shards):
        raise InvalidResponseError(f"metadata names {kind} shards that cannot be", shards=len(shards))
