"""The client's end of a real link against a server that does not keep to the protocol, or does not prove who it is.

Whatever is sent: a named error within the call's time, what was sent has an unknown outcome, and a password's proof is given to
nobody who could use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from oncelog import errors
from oncelog.core.scram import ScramServer, make_credential
from oncelog.link import link_codec
from oncelog.link.credentials import Credentials
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.v1 import link_pb2
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods

CREDENTIAL = make_credential("pencil", b"0123456789abcdef", 4096)
HELLO = link_pb2.Hello(protocol_min=1, protocol_max=1)
Answers = Callable[[link_pb2.Envelope], bytes | None]
"""What the server says to each envelope; None = nothing."""


class _Server(grpc.GenericRpcHandler):
    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(self._connect)

    async def _connect(self, requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        async for data in requests:
            answer = self._answers(link_pb2.Envelope.FromString(data))
            if answer is not None:
                yield answer


@contextlib.asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Server(answers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def outcome(answers: Answers, credentials: Credentials | None = None) -> errors.OncelogError:
    """How a call ends, and that it ends in time."""

    async def main() -> errors.OncelogError:
        async with serving(answers) as address:
            transport = GrpcTransport(credentials=credentials)
            began = time.monotonic()
            try:
                with pytest.raises(errors.OncelogError) as caught:
                    await methods.PING.call(transport, address, pb.PingRequest(), 20_000)
                assert time.monotonic() - began < 30
                return caught.value
            finally:
                await transport.close()

    return asyncio.run(main())


def honest_hello_then(answer: Callable[[link_pb2.Frame], bytes | None]) -> Answers:
    def answers(envelope: link_pb2.Envelope) -> bytes | None:
        (frame,) = envelope.frames
        return link_codec.hello_envelope(HELLO) if frame.kind == link_pb2.FRAME_KIND_HELLO else answer(frame)

    return answers


def frame_of(asked: link_pb2.Frame, **fields: Any) -> bytes:
    frame = link_pb2.Frame(correlation_id=asked.correlation_id, **fields)
    return bytes(link_pb2.Envelope(frames=[frame]).SerializeToString())


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (lambda _: b"\xff" * 50, "sent what cannot be parsed"),
        (lambda _: b"", "did not begin with a hello"),
        (lambda _: link_pb2.Envelope(frames=[link_pb2.Frame(kind=3)]).SerializeToString(), "did not begin with a hello"),
        (lambda _: link_pb2.Envelope(frames=[link_pb2.Frame(kind=4, header=b"\xff")]).SerializeToString(), "cannot be parsed"),
        (honest_hello_then(lambda _: b"\xff" * 50), "sent what cannot be parsed"),
        (honest_hello_then(lambda f: frame_of(f, kind=3, header=b"\xff" * 9)), "PartitionLeader.Ping cannot be parsed"),
        (honest_hello_then(lambda f: frame_of(f, kind=4, header=b"\xff" * 9)), "sent an error that cannot be parsed"),
    ],
    ids=["garbage", "nothing", "an answer first", "an error of garbage", "then garbage", "a reply of garbage", "an error"],
)  # fmt: skip
def test_what_no_link_sends_is_named_and_ends_it(answers: Answers, says: str) -> None:
    """The error leaves the outcome open: a sender does not take it for a refusal."""
    error = outcome(answers)
    assert says in str(error)
    assert error.retriable
    assert isinstance(error, errors.InvalidResponseError | errors.NetworkError)


def test_an_endless_error_is_cut_and_does_not_send_the_caller_to_sleep() -> None:
    from oncelog.v1 import errors_pb2

    detail = errors_pb2.ErrorDetail(code=1010, message="x" * 1_000_000, retry_after_ms=1 << 50)
    for number in range(1_000):
        detail.context.add(name=f"n{number}" * 100, value="v" * 10_000)
    error = outcome(honest_hello_then(lambda f: frame_of(f, kind=4, header=detail.SerializeToString())))
    assert isinstance(error, errors.ResourceExhaustedError)
    assert len(str(error)) < 300_000
    assert error.retry_after_ms <= 300_000


# ---------------------------------------------------------------- servers that do not know the password


class FalseServer:
    """One password exchange, as `change` has it. `proofs`: what the client gave away."""

    def __init__(self, **how: Any) -> None:
        self._how = how
        self._scram = ScramServer("n" * 24)
        self.proofs = 0

    def __call__(self, envelope: link_pb2.Envelope) -> bytes | None:
        (frame,) = envelope.frames
        assert frame.kind == link_pb2.FRAME_KIND_HELLO, "no request is sent before the server has proved itself"
        said = frame.hello.authentication
        if b",p=" in said:
            self.proofs += 1
            return self._hello(self._how.get("final", b"v=" + b64encode(b"\0" * 64)))
        self._scram.user(said)
        first = self._scram.first(CREDENTIAL.salt, self._how.get("iterations", CREDENTIAL.iterations))
        return self._hello(self._how.get("first", first))

    @staticmethod
    def _hello(message: bytes) -> bytes:
        return link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1, authentication=message))


@pytest.mark.parametrize(
    ("how", "says", "proofs"),
    [
        ({}, "it may be a false one", 1),
        ({"final": b""}, "another form", 1),
        ({"final": b"v=" + b64encode(b"x")}, "it may be a false one", 1),
        ({"final": b"e=other-error"}, "another form", 1),
        ({"first": b""}, "asks for no password", 0),
        ({"first": b"r=" + b"z" * 60 + b",s=QUJD,i=4096"}, "another password exchange", 0),
        ({"first": b"\xff" * 40}, "no text", 0),
        ({"first": b"x" * 100_000}, "too long", 0),
        ({"iterations": 1}, "too few or too many", 0),
        ({"iterations": 900_000_000}, "too few or too many", 0),
    ],
    ids=str,
)
def test_a_server_that_does_not_prove_itself_gets_nothing(how: dict[str, Any], says: str, proofs: int) -> None:
    """What it may see of a proof is worth nothing without the salted password: it is of this exchange alone."""
    server = FalseServer(**how)
    error = outcome(server, Credentials(username="ann", password="pencil"))
    assert type(error) is errors.AuthenticationError
    assert says in str(error)
    assert "pencil" not in str(error)
    assert server.proofs == proofs
