"""What compaction leaves of a shard's log."""

from __future__ import annotations

Log = list[tuple[str, bytes | None]]


def last_of_each_key(log: Log) -> Log:
    """Returns the last record of each key, each at its own place among the others: compaction moves no record.

    The order matters: which of two records with the same epoch is the witness of its transaction shard follows from it.
    """
    last = {key: place for place, (key, _) in enumerate(log)}
    return [record for place, record in enumerate(log) if last[record[0]] == place]
