"""Works on records once, in a process of its own: python -m tests.integration.once_worker SERVERS GROUP TOPIC FILE

An effect is a row of the table `effects` in the SQLite file, with the record's place and the worker's process id. It prints one
line of JSON per event: {"what": "wrote", "place": [partition, offset]} between the work and its commit, and "begun" before the
work. After each of these lines it waits for a line of its input, "go", while there is a file FILE.step; else it goes on.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path

import oncelog
from oncelog.errors import OncelogError

LEASE_MS = 1_000


def tell(what: str, step: Path, **more: object) -> None:
    """One line; waits for an answer in steps."""
    is_step = step.exists()
    print(json.dumps({"what": what, **more}), flush=True)
    if is_step:
        sys.stdin.readline()


def work(servers: str, group: str, topic: str, file: str) -> None:
    """Works until it is killed."""
    step = Path(file + ".step")
    connection = sqlite3.connect(file, timeout=10)
    once = oncelog.Once(connection, group, lease_ms=LEASE_MS, wait_ms=60_000)
    with (
        oncelog.SyncClient(servers) as client,
        client.consumer(group_id=group, auto_offset_reset="earliest", enable_auto_commit=True) as consumer,
    ):
        consumer.subscribe(topic)
        for each in once.each(consumer):
            place = each.record.partition, each.record.offset
            try:
                with each:
                    tell("begun", step, place=place)
                    each.execute("INSERT INTO effects VALUES (?, ?, ?, ?)", (*place, os.getpid(), each.fencing))
                    tell("wrote", step, place=place)
            except OncelogError as error:
                tell("refused", step, error=type(error).__name__, place=place)


if __name__ == "__main__":
    work(*sys.argv[1:])
