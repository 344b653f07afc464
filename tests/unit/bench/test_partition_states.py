"""What is known of all partitions follows from etcd's answers alone."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from bench.partition_states import PartitionStates
from oncelog.types import BrokerRef
from oncelog_runtime.metadata.cluster_keys import Partition, partition_key

A, B = BrokerRef(0, 11), BrokerRef(1, 12)


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


class Etcd:
    """Answers as etcd's gateway does. `keys`: key -> (value, mod revision)."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[bytes, int]] = {}
        self.revision = 1
        self.sent: list[int] = []
        etcd = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                data = json.dumps(etcd.answer(question)).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    def answer(self, question: dict[str, str]) -> dict[str, Any]:
        first, end = (base64.b64decode(question[name]).decode() for name in ("key", "range_end"))
        kvs = [
            {"key": encoded(key.encode()), "value": encoded(value), "mod_revision": str(revision)}
            for key, (value, revision) in self.keys.items()
            if first <= key < end and revision >= int(question["min_mod_revision"])
        ]
        self.sent.append(len(kvs))
        return {"header": {"revision": str(self.revision)}, **({"kvs": kvs} if kvs else {})}

    def put(self, number: int, leader: BrokerRef | None, *isr: BrokerRef) -> None:
        self.revision += 1
        value = Partition("t", (0, 1), leader, 0, isr).encode()
        self.keys[partition_key("0" * 32, number)] = (value, self.revision)


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    made = Etcd()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_leaders_and_whole_isrs_are_counted_and_only_changes_are_sent(etcd: Etcd) -> None:
    states = PartitionStates(f"127.0.0.1:{etcd.server.server_port}")
    etcd.put(0, A, A, B)
    etcd.put(1, B, B)
    etcd.put(2, None, A, B)
    etcd.keys["/oncelog/topics/t"] = (b"{}", 1)
    states.look()
    assert (states.led(), states.led_by(0), states.led_by(1), states.whole(3)) == (2, 1, 1, 2)
    etcd.put(0, B, B)
    states.look()
    assert (states.led(), states.led_by(0), states.led_by(1), states.whole(3)) == (2, 0, 2, 1)
    assert etcd.sent == [3, 1]


def test_waiting_ends_by_a_change_or_with_an_error_that_says_how_far_it_came(etcd: Etcd) -> None:
    states = PartitionStates(f"127.0.0.1:{etcd.server.server_port}")
    etcd.put(0, None, A, B)
    threading.Timer(0.1, lambda: etcd.put(0, A, A, B)).start()
    assert states.wait_until(lambda now: now.led() == 1, 10) >= 0.05
    with pytest.raises(TimeoutError, match="1 of 1 partitions are led"):
        states.wait_until(lambda now: not now.led(), 0.05)
