"""Rows about the way: handshakes, metadata, tokens, messages, streams. They run against real processes alone."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from oncelog import errors
from oncelog.errors import ErrorCode
from oncelog.link import link_codec
from oncelog.link.credentials import Credentials
from oncelog.link.link_codec import Frame
from oncelog.v1 import errors_pb2, link_pb2
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from tests.conformance.names import Place
from tests.hostile_inputs.cores import HOSTILE_TEXTS
from tests.hostile_inputs.hands import check_sentence, refused
from tests.hostile_inputs.rows import Kind, row

METADATA = "/oncelog.v1.PartitionLeader/GetMetadata"
CONNECT = "/oncelog.v1.PartitionLeader/Connect"
HELLO = link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1))
MIB = 1 << 20
HANDSHAKE_LIMIT_S = 10


async def ask(s: Any, path: str = METADATA, data: bytes = b"", *, token: str | None = "", **how: Any) -> str:
    """One unary call; OK, or the status that it ended with. `token` empty: root's, None: none."""
    metadata = list(how.pop("metadata", ()))
    if token is not None:
        metadata.append(("authorization", f"Bearer {token or s.root_token}"))
    options = [("grpc.max_metadata_size", 4 * MIB), ("grpc.use_local_subchannel_pool", 1)]
    async with s.channel(options) as channel:
        call = channel.unary_unary(path)
        try:
            await call(data, metadata=metadata, timeout=how.pop("timeout", 20), **how)
        except grpc.aio.AioRpcError as error:
            for name, value in error.trailing_metadata() or ():
                if name == "oncelog-error-bin":
                    check_sentence(from_detail(errors_pb2.ErrorDetail.FromString(value)))
            return str(error.code().name)
        return "OK"


@contextlib.asynccontextmanager
async def stream(s: Any) -> AsyncIterator[Any]:
    """A link by hand, as root."""
    async with s.channel([("grpc.use_local_subchannel_pool", 1)]) as channel:
        link = channel.stream_stream(CONNECT)(metadata=[("authorization", f"Bearer {s.root_token}")])
        yield link
        link.cancel()


async def told(link: Any) -> ErrorCode:
    """The error that ends the link."""
    while (data := await asyncio.wait_for(link.read(), 20)) is not grpc.aio.EOF:
        for frame in link_codec.decode_envelope(data):
            if frame.kind == link_codec.ERROR:
                error = from_detail(errors_pb2.ErrorDetail.FromString(frame.header))
                check_sentence(error)
                return error.code
    raise AssertionError("the link ended without a word")


@row(62, says="messages that are too large, and small ones that unpack to what is", kind=Kind.DOOR)
async def too_large(s: Any, place: Place) -> None:
    before = s.rss_mib()
    assert await ask(s, data=bytes(65 * MIB), timeout=240) == "RESOURCE_EXHAUSTED"
    for size in (65 * MIB, 150 * MIB):
        found = await ask(s, data=bytes(size), compression=grpc.Compression.Gzip, timeout=240)
        assert found == "RESOURCE_EXHAUSTED", found
    assert s.rss_mib() < before + 300


@row(63, 74, says="metadata of 200 KiB, and a token of 1 MB", kind=Kind.DOOR)
async def large_metadata(s: Any, place: Place) -> None:
    for size in (200 << 10, MIB):
        found = await ask(s, metadata=[("x", "y" * size)])
        assert found in ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL"), found
        found = await ask(s, token="e" * size)
        assert found in ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL"), found
    assert await ask(s, token="e" * 12_289) == "UNAUTHENTICATED"


@row(64, says="paths that name no method", kind=Kind.DOOR)
async def paths(s: Any, place: Place) -> None:
    for path in ("Nothing", "../PartitionLeader/Produce", "", "Produce/", "Produce%00", "ping"):
        assert await ask(s, f"/oncelog.v1.PartitionLeader/{path}") == "UNIMPLEMENTED"
    for path in ("/", "/x", "/oncelog.v1.Nobody/Produce"):
        assert await ask(s, path) == "UNIMPLEMENTED"
    for path in ("Replicate", "WriteTxnMarkers", "Ping"):
        assert await ask(s, f"/oncelog.v1.PartitionLeader/{path}") == "PERMISSION_DENIED"


@row(65, says="unary messages that are none", kind=Kind.DOOR)
async def no_messages(s: Any, place: Place) -> None:
    for data in (b"\xff" * 100, b"\x0b" * 10_000 + b"\x0c" * 10_000, b"\x0a\x7f", b"\x0a\x02\xff\xfe"):
        assert await ask(s, data=data) == "INVALID_ARGUMENT"


@row(65, 67, says="a link that begins with a request, with noise, or says hello twice", kind=Kind.DOOR)
async def links(s: Any, place: Place) -> None:
    request = link_codec.encode_envelope([Frame(1, link_codec.REQUEST, "PartitionLeader.GetMetadata", 1_000)])
    for first in (
        request,
        b"",
        b"\xff" * 50,
        b"\x0a\x00",
        link_pb2.Envelope(frames=[link_pb2.Frame(kind=77)]).SerializeToString(),
    ):
        async with stream(s) as link:
            await link.write(first)
            assert await told(link) == ErrorCode.INVALID_REQUEST
    for second in (HELLO, link_codec.encode_envelope([Frame(1, link_codec.REPLY)]), b"\x0a\x02\x10\x4d", b""):
        async with stream(s) as link:  # what a newer peer may say is passed over, noise is not
            await link.write(HELLO)
            assert await link.read() is not grpc.aio.EOF
            await link.write(second)
            await link.write(request)
            (answer,) = link_codec.decode_envelope(await link.read())
            assert (answer.kind, answer.correlation_id) == (link_codec.REPLY, 1)
            await link.write(b"\xff" * 50)
            assert await told(link) == ErrorCode.INVALID_REQUEST


@row(65, says="frames of a link with methods, numbers and headers that cannot be", kind=Kind.DOOR)
async def frames(s: Any, place: Place) -> None:
    header = pb.GetMetadataRequest().SerializeToString()
    bad = [
        Frame(1, link_codec.REQUEST, "PartitionLeader.Nothing", 1_000),
        Frame(2, link_codec.REQUEST, "Coordinator.InitProducerId", 1_000),
        Frame(3, link_codec.REQUEST, "\n", 1_000),
        Frame(4, link_codec.REQUEST, "PartitionLeader.Fetch", 1_000, header=b"\xff\xff"),
        Frame(5, link_codec.REQUEST, "PartitionLeader.Fetch", 1_000, traceparent="00-" + "x" * 5_000),
        Frame(6, link_codec.REQUEST, "PartitionLeader.Replicate", 1_000),
        Frame(7, link_codec.REQUEST, "m" * 100_000, 1_000),
    ]
    async with stream(s) as link:
        await link.write(HELLO)
        await link.read()
        await link.write(link_codec.encode_envelope(bad))
        answers: dict[int, int] = {}
        while len(answers) < len(bad):
            for frame in link_codec.decode_envelope(await asyncio.wait_for(link.read(), 20)):
                answers[frame.correlation_id] = frame.kind
                if frame.kind == link_codec.ERROR:
                    check_sentence(from_detail(errors_pb2.ErrorDetail.FromString(frame.header)))
        assert set(answers.values()) == {link_codec.ERROR}
        sound = Frame(9, link_codec.REQUEST, "PartitionLeader.GetMetadata", 5_000, header=header)
        await link.write(link_codec.encode_envelope([sound]))
        (frame,) = link_codec.decode_envelope(await asyncio.wait_for(link.read(), 20))
        assert (frame.correlation_id, frame.kind) == (9, link_codec.REPLY), "one bad frame costs one call"


@row(68, says="a token that ends while its link is open", kind=Kind.DOOR)
async def token_ends(s: Any, place: Place) -> None:
    async with s.transport_of(Credentials(token=s.token("root", lives_s=8))) as transport:
        request = pb.GetMetadataRequest()
        await methods.GET_METADATA.call(transport, s.any_broker(), request, 5_000)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                await methods.GET_METADATA.call(transport, s.any_broker(), request, 5_000)
            except (errors.TokenExpiredError, errors.AuthenticationError) as error:
                check_sentence(error)
                return
            await asyncio.sleep(0.5)
        raise AssertionError("a token that is over let its link go on")


@row(69, 70, says="plain text, HTTP/1 and noise at a port with TLS, and 500 sockets that say nothing", kind=Kind.DOOR)
async def silent(s: Any, place: Place) -> None:
    host, _, port = s.any_broker().rpartition(":")
    for words in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0" * 500,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\xff\xff",
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(words)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 3 * HANDSHAKE_LIMIT_S)
        writer.close()
    context = ssl.create_default_context(cafile=s.ca)
    context.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await asyncio.wait_for(reader.read(), 3 * HANDSHAKE_LIMIT_S)
    writer.close()
    sockets = [await asyncio.open_connection(host, int(port)) for _ in range(500)]
    began = time.monotonic()
    assert await ask(s) == "OK"
    assert time.monotonic() - began < HANDSHAKE_LIMIT_S, "a good client waits for no silent one"

    async def ended(reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 6 * HANDSHAKE_LIMIT_S)

    await asyncio.gather(*(ended(reader) for reader, _ in sockets))
    for _, writer in sockets:
        writer.close()


@row(
    72,
    says="callers without a certificate, with an expired or a foreign one, or without TLS, at the services' port",
    kind=Kind.DOOR,
)
async def certificates(s: Any, place: Place) -> None:
    _, _, port = s.inside_address().rpartition(":")
    address = f"127.0.0.1:{port}"
    good = s.certificate()
    for name, pair in s.bad_certificates().items():
        credentials = grpc.ssl_channel_credentials(good.ca, *pair)
        async with grpc.aio.secure_channel(address, credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            assert await _status(channel) == "UNAVAILABLE", name
    async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        assert await _status(channel) == "UNAVAILABLE"
    credentials = grpc.ssl_channel_credentials(good.ca, good.key, good.cert)
    async with grpc.aio.secure_channel(address, credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        assert await _status(channel) == "OK"


async def _status(channel: grpc.aio.Channel) -> str:
    try:
        await channel.unary_unary(METADATA)(b"", timeout=10)
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


@row(
    73,
    says="tokens without a signature, for others, expired, and not what they seem",
    kind=Kind.DOOR,
)
async def tokens(s: Any, place: Place) -> None:
    sound = s.token("root")
    head, claims, signature = sound.split(".")
    none = base64.urlsafe_b64encode(json.dumps({"alg": "none", "kid": "k1"}).encode()).decode().rstrip("=")
    forged = base64.urlsafe_b64encode(json.dumps({"sub": "root", "exp": 1 << 40}).encode()).decode().rstrip("=")
    bad = [
        *(
            "",
            " ",
            "x",
            "..",
            "a.b.c",
            f"{none}.{claims}.",
            f"{none}.{claims}.{signature}",
            f"{head}.{forged}.{signature}",
        ),
        *(f"{head}.{claims}.", f"{head}.{claims}.{signature[:-4]}AAAA", sound + "x" * 100, f"{sound}.{sound}"),
        *(
            s.hmac_token("root"),
            s.token("root", lives_s=-5),
            s.token("root", aud="other"),
            s.token("root", iss="https://evil"),
        ),
        *(s.token("root", nbf=1 << 40), s.token(7), s.token("root", exp=None), s.token("a\nb"), s.token("*")),
        *(s.token("root", headers={"crit": ["x"], "x": 1}), s.token("root", headers={"kid": "other"})),
    ]
    for token in bad:
        if token.strip():
            assert await ask(s, token=token) == "UNAUTHENTICATED", token[:40]
    assert await ask(s, token=sound) == "OK"


@row(76, says="two tokens, another scheme, and headers that say who one is", kind=Kind.DOOR)
async def headers(s: Any, place: Place) -> None:
    sound = ("authorization", f"Bearer {s.root_token}")
    for metadata in (
        [sound, sound],
        [("authorization", "Basic cm9vdDpyb290")],
        [("authorization", s.root_token)],
        [("authorization", "")],
    ):
        assert await ask(s, token=None, metadata=metadata) == "UNAUTHENTICATED"
    claims = [
        (name, "User:root") for name in ("principal", "x-principal", "x-forwarded-user", "x-forwarded-client-cert")
    ]
    delete = pb.DeleteTopicRequest(topic=place.topic).SerializeToString()
    found = await ask(s, "/oncelog.v1.PartitionLeader/DeleteTopic", delete, token=None, metadata=claims)
    assert found in ("PERMISSION_DENIED", "NOT_FOUND"), found
    assert await ask(s, token=None, metadata=[("authorization", f"bEARER {s.root_token}")]) == "OK"


@row(80, says="a deadline that has already passed, and none at all", kind=Kind.DOOR)
async def deadlines(s: Any, place: Place) -> None:
    assert await ask(s, timeout=-1) == "DEADLINE_EXCEEDED"
    for timeout in (0, 1e-6):
        found = await ask(s, timeout=timeout)
        assert found in ("DEADLINE_EXCEEDED", "OK"), found  # gRPC's timer may come later than the answer
    assert await ask(s, timeout=None) == "OK"
    for timeout_ms in (-1, 0, -(1 << 31), (1 << 31) - 1):
        request = pb.FetchRecordsRequest(topic=place.topic, isolation_level=1, max_wait_ms=min(timeout_ms, 500))
        with contextlib.suppress(errors.InvalidRequestError):
            await s.call(s.leader(place), methods.FETCH_RECORDS, request)


@row(
    83,
    says="ends of lines and colours, as names and in metadata: the logs of the processes stay lines of JSON",
    kind=Kind.DOOR,
)
async def logs(s: Any, place: Place) -> None:
    for text in HOSTILE_TEXTS:
        await refused(s.session(text), errors.InvalidRequestError)
        create = pb.CreateTopicRequest(topic=text, partitions=1)
        await refused(s.call(s.any_broker(), methods.CREATE_TOPIC, create), errors.InvalidTopicError)
        with contextlib.suppress(errors.OncelogError):
            await s.as_stranger(s.any_broker(), methods.CREATE_TOPIC, create)
    hello = link_pb2.Hello(protocol_min=1, protocol_max=1, software="".join(HOSTILE_TEXTS), cluster_id="a\nb")
    async with stream(s) as link:
        await link.write(link_codec.hello_envelope(hello))
        assert await told(link) == ErrorCode.WRONG_CLUSTER
    for line in s.log_lines():
        assert line.startswith("{"), f"somebody else wrote this line: {line!r}"
        json.loads(line)
        assert line.isprintable(), ascii(line)
