"""Several processes write the parts of one batch, and another one commits them all: every row is there once.

The first attempt loses a worker amid its part, so the batch is written again, under another `write_attempt`.

python examples/two_phase_sink.py [BOOTSTRAP_SERVERS [TOPIC]]
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import uuid
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import oncelog

PARTS = 3
ROWS = 100  # of each part
BATCH = 17
ATTEMPTS = ("1", "2", "3")  # each sorts after the one before it
SPAWN = multiprocessing.get_context("spawn")  # a forked child cannot use gRPC beside its parent


def write_part(servers: str, topic: str, batch: oncelog.SharedBatch, part: int) -> oncelog.ParticipantResult | None:
    """A worker: it writes one part and returns what it wrote, which can be pickled. It commits nothing."""
    rows = [f"part {part}, row {i}" for i in range(ROWS)]
    with (
        oncelog.SyncClient(servers) as client,
        client.join_transaction(batch) as participant,
    ):
        if participant.already_committed:
            return None
        participant.send_many(topic, rows[: ROWS // 2])
        participant.flush()  # in the logs by now, and yet no read_committed consumer sees it
        if (batch.write_attempt, part) == ("1", 1):
            os.kill(os.getpid(), signal.SIGKILL)  # a machine is gone
        participant.send_many(topic, rows[ROWS // 2 :])
        return participant.flush()  # raises what was refused


def write_batch(servers: str, topic: str, batch: oncelog.SharedBatch) -> list[oncelog.ParticipantResult]:
    """What the workers wrote. Raises `BrokenProcessPool` when one of them died, and ends the others."""
    with ProcessPoolExecutor(PARTS, mp_context=SPAWN) as workers:
        parts = [workers.submit(write_part, servers, topic, batch, part) for part in range(PARTS)]
        return [result for part in parts if (result := part.result()) is not None]


def commit_batch(client: oncelog.SyncClient, servers: str, topic: str) -> oncelog.BatchCommit:
    """The one process that decides: it commits the results of an attempt in which no worker was lost."""
    run = uuid.uuid4().hex  # a later run takes over the transaction's name, and this one is refused from then on
    for attempt in ATTEMPTS:
        batch = oncelog.SharedBatch(f"sink-{topic}", run, topic, BATCH, attempt)
        try:
            results = write_batch(servers, topic, batch)
        except BrokenProcessPool:
            print(f"attempt {attempt}: a worker died")
            continue
        txn_no = results[0].txn_no if results else 0  # no results: the batch is committed already
        return client.commit_transaction(batch, txn_no, results, wait="visible")
    sys.exit("given up: what was written is aborted when its lease ends")


def main(servers: str, topic: str) -> None:
    with oncelog.SyncClient(servers) as client:
        client.admin.create_topic(topic, partitions=3, if_not_exists=True)
        answer = commit_batch(client, servers, topic)
        print(f"{'was' if answer.already_committed else 'is'} committed: {answer.committed_rows} rows")
        with client.consumer(topic, auto_offset_reset="earliest") as consumer:  # read_committed by default
            ends = consumer.end_offsets(consumer.assignment())
            tables = [table for where, end in ends.items() for table in consumer.read_range(where, 0, end)]
        read = [value for table in tables for value in table.column("value").to_pylist()]
        print(f"read {len(read)} rows, {len(set(read))} different ones")


if __name__ == "__main__":
    main(*sys.argv[1:], *["localhost:9092", "nightly"][len(sys.argv) - 1 :])
