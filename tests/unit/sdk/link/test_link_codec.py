"""Envelopes are protobuf's bytes, whoever writes or reads them."""

from __future__ import annotations

import tracemalloc

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import InvalidRequestError
from oncelog.link import link_codec
from oncelog.link.link_codec import SLICE_BYTES, Frame
from oncelog.v1 import link_pb2

LARGE = SLICE_BYTES * 5

SIZES = (0, 1, 100, SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, LARGE)

frames = st.builds(
    Frame,
    correlation_id=st.integers(0, 2**64 - 1),
    kind=st.integers(0, 5),
    method=st.text(max_size=200),
    timeout_ms=st.integers(0, 2**32 - 1),
    traceparent=st.text(max_size=60),
    header=st.binary(max_size=300),
    payload=st.sampled_from(SIZES).map(str),  # the size only: a failing example must be readable
    hello=st.none(),
    throttle_ms=st.sampled_from((0, 0, 0, 700, 2**32 - 1)),
)


def filled(items: list[Frame]) -> list[Frame]:
    return [f._replace(payload=b"p" * int(str(f.payload))) for f in items]


def with_protobuf(items: list[Frame]) -> bytes:
    envelope = link_pb2.Envelope(
        frames=[
            link_pb2.Frame(
                correlation_id=f.correlation_id,
                kind=f.kind,
                method=f.method,
                timeout_ms=f.timeout_ms,
                traceparent=f.traceparent,
                header=f.header,
                payload=bytes(f.payload),
                throttle_ms=f.throttle_ms,
            )
            for f in items
        ]
    )
    return bytes(envelope.SerializeToString())


def plain(items: list[Frame]) -> list[Frame]:
    return [f._replace(payload=bytes(f.payload)) for f in items]


@settings(max_examples=150, deadline=None)
@given(st.lists(frames, max_size=6))
def test_both_ways_of_writing_give_the_same_bytes_and_both_ways_of_reading_the_same_frames(items: list[Frame]) -> None:
    items = filled(items)
    data = with_protobuf(items)
    parts: list[bytes | memoryview] = []
    for item in items:
        link_codec._append_frame(parts, item)
    same = [
        b"".join(parts) == data,
        link_codec.encode_envelope(items) == data,
        plain(link_codec.decode_envelope(data)) == items,
    ]
    assert same == [True] * 3
    if any(item.throttle_ms for item in items):  # rare: for protobuf
        with pytest.raises(link_codec._UnusualError):
            link_codec._decode_plain(data)
    else:
        assert plain(link_codec._decode_plain(data)) == items


@settings(max_examples=300, deadline=None)
@given(st.lists(frames, min_size=1, max_size=3), st.data())
def test_damaged_bytes_mean_what_protobuf_says_they_mean(items: list[Frame], data: st.DataObject) -> None:
    damaged = bytearray(with_protobuf([Frame(1, 2, payload=b"L" * LARGE), *filled(items)]))
    place = data.draw(st.one_of(st.integers(0, 30), st.integers(LARGE, len(damaged) - 1)))
    damaged[place] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))])
    try:
        expected = [
            (f.correlation_id, int(f.kind), f.method, f.header, f.payload)
            for f in link_pb2.Envelope.FromString(cut).frames
        ]
    except DecodeError:
        with pytest.raises(InvalidRequestError):
            link_codec.decode_envelope(cut)
        return
    found = link_codec.decode_envelope(cut)
    same = [(f.correlation_id, f.kind, f.method, f.header, bytes(f.payload)) for f in found] == expected
    assert same


def test_a_large_payload_is_a_view_and_a_small_one_beside_it_is_not() -> None:
    data = with_protobuf([Frame(1, 2, payload=b"L" * LARGE), Frame(2, 2, payload=b"s" * 100)])
    large, small = link_codec.decode_envelope(data)
    assert isinstance(large.payload, memoryview)
    assert large.payload.obj is data
    assert small.payload == b"s" * 100
    assert isinstance(small.payload, bytes)


def test_a_view_is_written_as_its_bytes() -> None:
    view = memoryview(b"x" * (LARGE + 10))[5:-5]
    for size in (10, LARGE):
        [frame] = link_codec.decode_envelope(link_codec.encode_envelope([Frame(1, 2, payload=view[:size])]))
        assert bytes(frame.payload) == b"x" * size


def test_a_hello_travels_beside_frames() -> None:
    hello = link_pb2.Hello(protocol_min=1, protocol_max=3, cluster_id="c", features=["a"])
    data = link_codec.hello_envelope(hello) + link_codec.encode_envelope([Frame(9, link_codec.REQUEST)])
    first, second = link_codec.decode_envelope(data)
    assert (first.kind, first.hello) == (link_codec.HELLO, hello)
    assert (second.correlation_id, second.hello) == (9, None)


def test_the_kinds_are_those_of_the_contract() -> None:
    for name in ("HELLO", "REQUEST", "REPLY", "ERROR", "CANCEL"):
        assert getattr(link_codec, name) == link_pb2.FrameKind.Value(f"FRAME_KIND_{name}")


def test_the_overhead_bound_holds_for_the_largest_frame() -> None:
    frame = Frame(2**64 - 1, 2, "S" * 200 + ".m", 2**32 - 1, "t" * 60, b"h" * 70000, b"p" * 70000)
    assert len(link_codec.encode_envelope([frame])) - 140000 < link_codec.FRAME_OVERHEAD_BYTES


@pytest.mark.parametrize("empty", [b"\x0a\x00", b"\x0a\x02\x08\x01", b"\x10\x00"])
def test_millions_of_tiny_frames_are_refused_before_there_are_objects_of_them(empty: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequestError):
            link_codec.decode_envelope(empty * 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_as_many_frames_as_a_client_of_ours_ever_sends_are_read() -> None:
    frames = [Frame(number, link_codec.CANCEL) for number in range(1, link_codec.FRAMES_MAX)]
    assert len(link_codec.decode_envelope(link_codec.encode_envelope(frames))) == len(frames)


@pytest.mark.parametrize("kind", [-1, -128, -(2**31)])
@pytest.mark.parametrize("size", [0, LARGE], ids=["small", "large"])
def test_a_kind_that_is_unknown_may_be_negative_and_comes_back_as_it_was(kind: int, size: int) -> None:
    """Found by fuzzing: beside a large payload it was written as another kind, or not at all."""
    sent = [Frame(1, link_codec.REQUEST, payload=bytes(size)), Frame(2, kind)]
    read = link_codec.decode_envelope(link_codec.encode_envelope(sent))
    assert [(frame.correlation_id, frame.kind) for frame in read] == [(1, link_codec.REQUEST), (2, kind)]
