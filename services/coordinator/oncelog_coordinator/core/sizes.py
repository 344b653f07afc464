"""Upper bounds for the bytes of things in a shard's log, so that no legal request makes a record that the log would
refuse.

Rule 1: a bound is checked where something begins or grows (open, enrol, commit of offsets), never where it ends: a
        transaction that could be opened can always be ended.
Rule 2: the sum of all that a record may hold stays below `LOG_BATCH_BYTES`, which the internal topics accept:
        transactions that wait for markers, one open transaction and its winners, the tokens, and other records of the
        same append.
Rule 3: these are upper bounds, not exact lengths; text counts as in JSON, where a character may take six bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

LOG_BATCH_BYTES: Final = 8 << 20
"""`max_message_bytes` of the internal topics."""
PARTITION_BYTES: Final = 70
"""One partition with a topic id of its own and a record count."""
_NAME_BYTES_MAX: Final = 3 * 1024 + 3
"""The longest group id, 1,024 bytes, in JSON."""
ID_BYTES: Final = 21
"""One producer id in a list of winners."""


def text_bytes(text: str) -> int:
    """Returns the bytes of a text in JSON, with quotes."""
    return len(json.dumps(text))


def enrolled_bytes(partitions: int, groups: Iterable[str]) -> int:
    """Returns the bytes of a transaction's partitions and groups, whether it is open or decided."""
    return partitions * PARTITION_BYTES + sum(text_bytes(group) + 1 for group in groups)


def may_exceed(partitions: int, groups: int, bound: int) -> bool:
    """False when this many partitions and groups stay below the bound, whatever their names are; cheap, so it is asked
    first.
    """
    return partitions * PARTITION_BYTES + groups * _NAME_BYTES_MAX > bound
