"""What both ends do alike: frames are gathered into envelopes, in order, and errors travel as frames."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.link_codec import USUAL_OVERHEAD_BYTES, Frame
from oncelog.link.link_core import error_frame, error_in
from tests.unit.sdk.link.link_ends import ask, envelope, open_client, open_server, reply, request, told


def sizes(core: object) -> list[list[int]]:
    """The ids in each envelope."""
    found = []
    while data := core.data_to_send():  # type: ignore[attr-defined]
        found.append([frame.correlation_id for frame in link_codec.decode_envelope(data)])
    return found


def test_all_that_waits_travels_in_one_envelope() -> None:
    core = open_client()
    for _ in range(5):
        ask(core)
    assert core.has_output
    assert sizes(core) == [[1, 2, 3, 4, 5]]
    assert not core.has_output


@pytest.mark.parametrize("size", [99, 100, 101, 10_000])
def test_an_envelope_is_full_at_its_bound_and_a_larger_frame_goes_alone(size: int) -> None:
    """Both ends reckon alike."""
    bound = 2 * (100 + USUAL_OVERHEAD_BYTES)
    caller = open_client(envelope_bytes=bound)
    serving = open_server()
    serving._envelope_bytes = bound
    for number in range(1, 4):
        ask(caller, payload=bytes(size))
        [event] = told(serving, request(number))
        serving.answer(event.request, Frame(number, link_codec.REPLY, payload=bytes(size)))  # type: ignore[union-attr]
    expected = [[1, 2], [3]] if size <= 100 else [[1], [2], [3]]
    assert sizes(caller) == expected
    assert sizes(serving) == expected


def test_a_large_frame_does_not_overtake_the_small_ones_before_it() -> None:
    core = open_client(envelope_bytes=1_000)
    for size in (1, 5_000, 1):
        ask(core, payload=bytes(size))
    assert sizes(core) == [[1], [2], [3]]


def test_an_error_comes_back_as_it_was() -> None:
    error = errors.FencedLeaderEpochError("an older epoch", retry_after_ms=70, current=7)
    frame = error_frame(9, error, throttle_ms=3)
    assert (frame.correlation_id, frame.kind, frame.throttle_ms) == (9, link_codec.ERROR, 3)
    [sent] = link_codec.decode_envelope(envelope(frame))
    found = error_in(sent, "there")
    assert (type(found), found.message, found.context, found.retry_after_ms) == (
        errors.FencedLeaderEpochError,
        "an older epoch",
        {"current": "7"},
        70,
    )


def test_an_error_of_garbage_leaves_the_outcome_open() -> None:
    error = error_in(reply(1, b"\xff" * 9), "there")
    assert isinstance(error, errors.InvalidResponseError)
    assert error.retriable
