"""Checks that consumers can decode a client's batch.

Rule 1: a payload is unpacked and validated just as a consumer does it, so one that a consumer would refuse never enters a log.
        Else one batch would stop every consumer of the partition at its offset.
Rule 2: whole columns are looked at, never single records. Of plain records the bytes are looked at without pyarrow, more
        strictly (`plain_message`): 90 microseconds for 1 MiB in a broker, where pyarrow takes 170. To unpack it first, zstd
        takes 400 to 600.
Rule 3: `check_client_batch` comes first: it has checked the checksum, and bounded what the payload unpacks to.
Rule 4: batches of the cluster's own writers come from the internal listener, and are not checked.
"""

from __future__ import annotations

import pyarrow.compute  # noqa: F401  -- now: imported with the first record headers it would hold up all requests for 100 ms

from oncelog.core.batch.header import BatchHeader
from oncelog.core.batch.plain_batch import check_rows
from oncelog.errors import InvalidRecordError
from oncelog.types import Buffer
from oncelog_runtime.metadata.cluster_keys import SHARD_WRITER_BASE


def check_payload(
    header: BatchHeader, data: Buffer, max_uncompressed_bytes: int, *, is_compacted: bool = False
) -> None:
    """Raises `InvalidRecordError` for a payload that does not match the header, or that cannot be decoded.

    `is_compacted`: also for a record without a key, of which a compacted topic could never let go.
    """
    if header.producer_id >= SHARD_WRITER_BASE:
        return
    without_key = check_rows(data, header, max_uncompressed_bytes=max_uncompressed_bytes)
    if is_compacted and without_key:
        raise InvalidRecordError(
            "the topic is compacted, so every record needs a key: give one, or write to a topic with cleanup_policy=delete",
            records_without_key=without_key,
        )
