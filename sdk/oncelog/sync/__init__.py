"""The same client for code without an event loop: notebooks, scripts, Spark tasks. Same names, no `await`.

    with oncelog.sync.Client("broker-0:9092") as client, client.producer() as producer:
        producer.send("orders", value=b"42").result()

Rule 1: all clients of a process share one daemon thread with one event loop; calls may come from any thread.
Rule 2: every blocking call can be interrupted (Ctrl-C); what it waited for is then cancelled on the loop.
Rule 3: after a fork the child has no such thread: clients that it inherited raise `ForkedClientError`.
Rule 4: what was sent by a producer that was not closed is still written when the interpreter ends, within 5 s, if its links are
        there already. A forked child of `multiprocessing` ends without the interpreter's end: close what it makes.

Each class has a file, generated from the asynchronous class (scripts/gen_sync.py); `by_hand` has what is not.
"""

from __future__ import annotations

from oncelog.sync.admin import Admin
from oncelog.sync.by_hand import BatchDelivery, ChannelMessage, Delivery, LogWork
from oncelog.sync.client import Client
from oncelog.sync.consumer import Consumer
from oncelog.sync.once_in_log import OnceInLog
from oncelog.sync.participant import Participant
from oncelog.sync.producer import Producer
from oncelog.sync.transaction import Transaction
from oncelog.sync.worker import Worker

__all__ = [
    "Admin",
    "BatchDelivery",
    "ChannelMessage",
    "Client",
    "Consumer",
    "Delivery",
    "LogWork",
    "OnceInLog",
    "Participant",
    "Producer",
    "Transaction",
    "Worker",
]
