"""Where the partitions of a topic end when all that was decided is visible.

A commit returns when it is decided: the markers of the last transaction may come after the reader has asked for the ends.
"""

from __future__ import annotations

import time
from typing import Final

from oncelog.sync import Client

_WITHIN_S: Final = 60.0


def settled_ends(client: Client, topic: str) -> dict[int, int]:
    """Waits until no transaction is open on the topic, and returns the end of each partition. Call it when nobody writes."""
    deadline = time.monotonic() + _WITHIN_S
    while True:
        offsets = client.admin.partition_offsets(topic)
        opened = {number: o for number, o in offsets.items() if o.last_stable_offset != o.high_watermark}
        if not opened:
            return {number: o.high_watermark for number, o in offsets.items()}
        assert time.monotonic() < deadline, f"a transaction stays open: {opened}"
        time.sleep(0.05)
