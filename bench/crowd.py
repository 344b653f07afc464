"""`python -m bench.crowd [--producers 256] [--processes 16] [--records 80]`: many loops that wait for each acknowledgement.

Three brokers on this machine, one topic of one partition with three replicas, `acks=all`. Each loop sends a record of 100 bytes
and waits until it is acknowledged. First all loops are in one process, with one client; then as many are spread over processes
with a client each, which begin together. Prints one line of JSON: acknowledged records a second of both, in each round, in
thousands.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, cast

import uvloop

from bench.produce import RECORD_BYTES
from oncelog.client.client import Client
from oncelog.link.malloc import tune_malloc
from oncelog.sync import Client as Operator
from oncelog_cli.laptop.local_cluster import LocalCluster

TOPIC = "crowd"
_WARM_UP = 20


async def part(servers: str, producers: int, records: int) -> None:
    """One of the processes: connects, says that it is ready, begins when it is told to, and prints when it was done."""
    value = os.urandom(RECORD_BYTES)
    async with Client(servers) as client, client.producer() as producer:

        async def loop(count: int) -> None:
            for _ in range(count):
                await producer.send_and_wait(TOPIC, value, partition=0)

        await asyncio.gather(*(loop(_WARM_UP) for _ in range(producers)))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(loop(records) for _ in range(producers)))
        print(time.monotonic(), flush=True)


def rate(servers: str, producers: int, processes: int, records: int) -> float:
    """Records a second of all processes, from when they begin until the last one is done."""
    command = [sys.executable, "-m", "bench.crowd", "--part-of", servers]
    command += ["--producers", str(producers // processes), "--records", str(records)]
    parts = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    pipes = [(cast("IO[str]", one.stdin), cast("IO[str]", one.stdout)) for one in parts]
    for _, said in pipes:
        assert said.readline() == "ready\n"
    begin = time.monotonic()
    for told, _ in pipes:
        told.write("go\n")
        told.flush()
    ends = [float(said.readline()) for _, said in pipes]
    for one in parts:
        one.communicate()
    return producers * records / (max(ends) - begin)


def main() -> None:
    """Both, in turn."""
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument("--producers", type=int, default=256)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--records", type=int, default=80, help="of each loop")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part-of", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    tune_malloc()
    if args.part_of:
        uvloop.run(part(args.part_of, args.producers, args.records))
        return
    found: dict[int, list[float]] = {1: [], args.processes: []}
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder)) as cluster:
        servers = cluster.bootstrap_servers
        with Operator(servers) as client:
            client.admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        for _ in range(args.rounds):
            for processes, rates in found.items():
                rates.append(round(rate(servers, args.producers, processes, args.records) / 1e3, 1))
    print(json.dumps({f"{processes}_processes_k_per_s": rates for processes, rates in found.items()}))


if __name__ == "__main__":
    main()
