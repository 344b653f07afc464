"""The order of the records of a key: only the first unsettled one of each may be with a worker.

Rule 1: a record is at the head when no earlier unsettled record has the hash of its key. Two keys with the same hash wait for
    each other, which costs time and breaks nothing.
Rule 2: records without a key are always at the head.
"""

from __future__ import annotations

from typing import Final

NO_KEY: Final = -1
"""The hash of a record without a key."""
