"""What comes in by a connection: envelopes, frames, requests, metadata of calls, scrapes of metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from oncelog.errors import AuthenticationError, InvalidRequestError, OncelogError
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.trace.tracing import is_sampled
from oncelog.v1 import coordinator_pb2, link_pb2
from oncelog.wire import methods
from oncelog_coordinator.rpc import wire as coordinator_wire
from oncelog_partition_leader.rpc import security_wire
from oncelog_runtime.adapters.grpc.grpc_server import join_bulk, split_bulk
from oncelog_runtime.adapters.metrics_server import MetricsServer
from oncelog_runtime.core.security.method_table import TABLE
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.serving.peer_key import peer_of
from tests.fuzz.target import Target, add

ROWS = sorted(methods.ALL)


MEANT: dict[str, str] = {
    "topic_id": "0123456789abcdef0123456789abcdef",
    "principal": "User:ann",
    "resource_type": "TOPIC",
    "pattern_type": "LITERAL",
    "permission": "ALLOW",
    "host": "*",
    "operation": "READ",
    "operations": "READ",
    "states": "ONGOING",
}
"""What stands in fields whose text means something."""


def filled(message: Message, depth: int = 0) -> Message:
    """With something in every field."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            if depth < 4:
                value = getattr(message, field.name)
                filled(value.add() if field.is_repeated else value, depth + 1)
                if not field.is_repeated:
                    value.SetInParent()
            continue
        kinds: dict[int, Any] = {field.CPPTYPE_STRING: "text", field.CPPTYPE_BOOL: True, field.CPPTYPE_ENUM: 1}
        given: Any = (
            MEANT.get(field.name, kinds.get(field.cpp_type, 7)) if field.cpp_type == field.CPPTYPE_STRING else None
        )
        given = kinds.get(field.cpp_type, 7) if given is None else given
        if field.type == field.TYPE_BYTES:
            given = b"bytes"
        if field.is_repeated:
            getattr(message, field.name).append(given)
        else:
            setattr(message, field.name, given)
    return message


# ---------------------------------------------------------------- envelopes


def envelope(data: bytes) -> list[Frame]:
    frames = link_codec.decode_envelope(data)
    assert len(frames) <= link_codec.FRAMES_MAX
    plain = [frame._replace(payload=bytes(frame.payload)) for frame in frames if frame.hello is None]
    assert link_codec.decode_envelope(link_codec.encode_envelope(plain)) == plain, "a round trip changes nothing"
    return frames


def large_envelope(data: bytes) -> list[Frame]:
    """The way of large payloads: the same bytes behind a payload that is too large for protobuf."""
    first = Frame(1, link_codec.REQUEST, "PartitionLeader.Produce", 1_000, header=b"h", payload=bytes(70_000))
    return envelope(link_codec.encode_envelope([first]) + data)


def envelopes() -> Iterator[bytes]:
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    request = Frame(7, link_codec.REQUEST, "PartitionLeader.Fetch", 1_000, trace, b"head", b"p" * 30)
    yield link_codec.encode_envelope([request, request._replace(kind=link_codec.REPLY, method="")])
    yield link_codec.encode_envelope([Frame(0, link_codec.ERROR, header=b"\x08\x2a"), Frame(9, link_codec.CANCEL)])
    yield link_codec.hello_envelope(
        link_pb2.Hello(protocol_min=1, protocol_max=2, software="x", features=["a"], mechanism="m")
    )
    yield b""


add(Target("envelope", envelope, (InvalidRequestError,), envelopes, max_bytes=40_000))
add(Target("envelope_large", large_envelope, (InvalidRequestError,), envelopes))


# ---------------------------------------------------------------- requests


def request(data: bytes) -> object:
    """The first byte names the method. Decoded, asked about rights, and taken apart as its service does."""
    if not data:
        return None
    spec = methods.ALL[ROWS[data[0] % len(ROWS)]]
    header, payload = split_bulk(spec, data[1:])
    found = spec.decode_request(header)
    row = TABLE.get(spec.name)
    if row is not None and row.asks is not None:
        for alternatives in row.asks(found):
            assert alternatives
    if row is not None and row.each is not None and (row.each.applies is None or row.each.applies(found)):
        for item in getattr(found, row.each.field):
            assert list(row.each.questions(item))
    _taken_apart(found)
    reply = spec.reply.FromString(join_bulk(spec, b"", payload))
    assert not spec.reply_bulk or getattr(reply, spec.reply_bulk) == payload
    return payload


def _taken_apart(found: Any) -> None:
    """By whatever converts these fields to the values of a core."""
    fields = found.DESCRIPTOR.fields_by_name
    steps = {
        "name": coordinator_wire.txn_name,
        "member": coordinator_wire.member,
        "nonce": coordinator_wire.nonce,
        "counts": coordinator_wire.counts,
        "states": coordinator_wire.states,
        "outcome": coordinator_wire.is_commit,
    }
    for field, step in steps.items():
        if field in fields and not (field == "name" and isinstance(found.name, str)):
            step(getattr(found, field))
    for item in getattr(found, "winners", ()):
        coordinator_wire.winner(item)
    for item in getattr(found, "offsets", ()):
        if not isinstance(item, coordinator_pb2.OffsetEntry):
            break  # the offsets of records
        value = coordinator_wire.offset_value(item)
        assert coordinator_wire.offset_value(coordinator_wire.offset_entry(value)) == value
    for field, convert, back in (
        ("acls", security_wire.acl_from, security_wire.acl_to),
        ("bindings", security_wire.binding_from, security_wire.binding_to),
        ("roles", security_wire.role_from, None),
    ):
        for item in getattr(found, field, ()):
            if not isinstance(item, str):
                made: Any = convert(item)
                assert back is None or convert(back(made)) == made


def requests() -> Iterator[bytes]:
    for number, name in enumerate(ROWS):
        yield bytes([number]) + filled(methods.ALL[name].request()).SerializeToString()


add(Target("request", request, (OncelogError,), requests))


# ---------------------------------------------------------------- metadata of calls


def call_metadata(data: bytes) -> object:
    """What is made of headers before anybody is known: the token's header, the peer, the trace."""
    from oncelog_runtime.adapters.grpc.authentication import bearer_of, host_of
    from oncelog_runtime.serving.call_context import CallInfo

    text = data.decode("utf-8", "replace")
    peer_of(CallInfo(text, (), "client"))
    host_of(text)
    is_sampled(text)
    pairs: list[tuple[str, Any]] = []
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        pairs.append((name, value if len(line) % 7 else value.encode()))
    token = bearer_of(pairs)
    return token is None or len(token)


def call_metadatas() -> Iterator[bytes]:
    yield b"authorization:Bearer a.b.c"
    yield b"Authorization:bearer x\nauthorization: Bearer y"
    yield b"ipv6:%5B::ffff:127.0.0.1%5D:4"
    yield b"ipv4:127.0.0.1:55555"
    yield b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


add(
    Target(
        "call_metadata",
        call_metadata,
        (AuthenticationError,),
        call_metadatas,
        words=(b"%5B", b"fe80::1%25eth0", b"unix:"),
    )
)


# ---------------------------------------------------------------- scrapes


class _Taken:
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        return


def scrape(data: bytes) -> object:
    async def answered() -> bytes:
        taken = _Taken()
        await MetricsServer(NodeMetrics(), "127.0.0.1", 0)._answer(data, taken)  # type: ignore[arg-type]
        return taken.written

    written = asyncio.run(answered())
    assert written.startswith(b"HTTP/1.1 ")
    assert b"\r\n\r\n" in written
    return written


def scrapes() -> Iterator[bytes]:
    yield b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text; version=1.0.0; q=0.5,*/*;q=0.1\r\n\r\n"
    yield b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n"
    yield b"POST / HTTP/1.1\r\n\r\n"


add(Target("scrape", scrape, (), scrapes, words=(b"q=", b"Accept:", b";version=1.0.0", b"\r\n")))
