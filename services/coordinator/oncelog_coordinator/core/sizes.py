"""How many bytes things take in a shard's log, so that no legal request makes a record that the log would refuse.

Rule 1: a bound is checked where something begins or grows (open, enrol, commit of offsets), never where it ends: a
        transaction that could be opened can always be ended.
Rule 2: the sum of all that a record may hold stays below `LOG_BATCH_BYTES`, which the internal topics take:
        what waits for markers, one open transaction and its winners, the tokens, and what is logged in the same append.
Rule 3: these are upper bounds, not exact lengths; text counts as it stands in JSON, where a character may take six bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

LOG_BATCH_BYTES: Final = 8 << 20
"""`max_message_bytes` of the internal topics."""
PARTITION_BYTES: Final = 70
"""A topic id of its own, a partition and a record count."""
_NAME_BYTES_MAX: Final = 3 * 1024 + 3
"""A group id of 1,024 bytes in JSON."""
ID_BYTES: Final = 21
"""A producer id among winners."""


def text_bytes(text: str) -> int:
    """Bytes of a text in JSON, with quotes."""
    return len(json.dumps(text))


def enrolled_bytes(partitions: int, groups: Iterable[str]) -> int:
    """Bytes of a transaction's partitions and groups, open or decided."""
    return partitions * PARTITION_BYTES + sum(text_bytes(group) + 1 for group in groups)


def may_exceed(partitions: int, groups: int, bound: int) -> bool:
    """False when so many partitions and groups are below the bound, whatever their names are."""
    return partitions * PARTITION_BYTES + groups * _NAME_BYTES_MAX > bound
