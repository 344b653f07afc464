"""Two questions to an etcd without a client: who it is, and what stands under a key; no answer is an answer."""

from __future__ import annotations

import json
import socketserver
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from oncelog_runtime.adapters.etcd.etcd_gateway import EtcdGateway
from oncelog_runtime.adapters.etcd.etcd_process import free_port


class Etcd:
    """Answers every question with the same bytes, and keeps the questions."""

    def __init__(self) -> None:
        self.says, self.asked, etcd = b"{}", list[tuple[str, Any]](), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = self.rfile.read(int(self.headers["content-length"]))
                etcd.asked.append((self.path, json.loads(question)))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(etcd.says)

            def log_message(self, *_args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.gateway = EtcdGateway(f"127.0.0.1:{self.server.server_port}")


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    etcd = Etcd()
    thread = threading.Thread(target=etcd.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield etcd
    etcd.server.shutdown()
    thread.join()
    etcd.server.server_close()


def test_members_say_their_names(etcd: Etcd) -> None:
    etcd.says = b'{"members": [{"name": "a"}, {"ID": "7"}]}'
    assert etcd.gateway.member_names() == ["a", ""]
    assert etcd.asked == [("/v3/cluster/member/list", {})]


def test_a_value_is_asked_for_by_its_key(etcd: Etcd) -> None:
    etcd.says = json.dumps({"kvs": [{"value": b64encode(b"found").decode()}]}).encode()
    assert etcd.gateway.get("/oncelog/cluster") == b"found"
    assert etcd.asked == [("/v3/kv/range", {"key": b64encode(b"/oncelog/cluster").decode()})]


@pytest.mark.parametrize(
    "says",
    [
        *(b"", b"{}", b"[]", b"null", b"not json", b"\xff", b'{"members": 7, "kvs": 7}', b'{"members": ["a"]}'),
        *(b'{"kvs": []}', b'{"kvs": [{}]}', b'{"kvs": [{"value": 7}]}', b'{"kvs": [{"value": "a"}]}'),
    ],
)
def test_what_is_no_answer_is_nobody_and_nothing(etcd: Etcd, says: bytes) -> None:
    etcd.says = says
    assert etcd.gateway.member_names() == []
    assert etcd.gateway.get("/oncelog/cluster") is None


def test_an_etcd_that_is_not_there_is_nobody_and_has_nothing() -> None:
    gateway = EtcdGateway(f"127.0.0.1:{free_port()}")
    assert (gateway.member_names(), gateway.get("/oncelog/cluster")) == ([], None)


@pytest.mark.parametrize("says", [b"no http\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}"])
def test_another_program_on_its_port_is_nobody_and_has_nothing(says: bytes) -> None:
    class Other(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(says)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        gateway = EtcdGateway(f"127.0.0.1:{server.server_address[1]}")
        assert (gateway.member_names(), gateway.get("/oncelog/cluster")) == ([], None)
        server.shutdown()
        thread.join()
