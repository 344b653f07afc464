"""Invoices in a SQLite file, one for each order, although workers die between their work and its commit.

python examples/once.py [BOOTSTRAP_SERVERS [TOPIC [FILE]]]
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import oncelog

COUNT = 20
DIED = 9


def work_on(servers: str, topic: str, file: str, dies_after: int) -> None:
    """Writes an invoice for each order; dies in the middle of the next one after that many."""
    once = oncelog.Once(sqlite3.connect(file), "billing", lease_ms=1_000)
    once.create_table()
    with oncelog.SyncClient(servers) as client, client.consumer(topic, auto_offset_reset="earliest") as consumer:
        for done, work in enumerate(once.each(consumer)):
            with work:
                work.execute("INSERT INTO invoices VALUES (?)", (work.record.value,))
                if done == dies_after:
                    os._exit(DIED)  # the invoice is written, and not committed
            if work.record.value == b"the last order":
                return


def main(servers: str, topic: str, file: str) -> None:
    with oncelog.SyncClient(servers) as client:
        client.admin.create_topic(topic, partitions=1, if_not_exists=True)
        with client.producer() as producer:
            producer.send_many(topic, [*(f"order {i}" for i in range(COUNT - 1)), "the last order"])
    database = sqlite3.connect(file)
    database.execute("CREATE TABLE IF NOT EXISTS invoices (of_order)")
    code, workers = DIED, 0
    while code == DIED:
        workers += 1
        code = subprocess.run([sys.executable, __file__, servers, topic, file, "6"], check=False).returncode
    invoices = [row[0] for row in database.execute("SELECT of_order FROM invoices")]
    print(f"workers: {workers}, invoices: {len(invoices)}, different ones: {len(set(invoices))}")


if __name__ == "__main__":
    if len(sys.argv) == 5:
        servers, topic, file, dies_after = sys.argv[1:]
        work_on(servers, topic, file, int(dies_after))
    else:
        main(*sys.argv[1:], *["localhost:9092", "orders", "invoices.db"][len(sys.argv) - 1 :])
