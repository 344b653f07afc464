"""The caller's end of a link, walked by hand: every move of its table, what is sent, and what is said of each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.client_core import HELLO_TIMEOUT_MS, Answered, Challenged, Ended, Failed, Left, Throttled
from oncelog.link.link_codec import Frame
from oncelog.link.link_core import NEVER_MS, error_frame
from oncelog.link.link_states import CLIENT_TRANSITIONS, Incident, LinkState
from oncelog.link.protocol import LINK_ITSELF
from oncelog.v1 import link_pb2
from tests.unit.sdk.link.link_ends import (
    HELLO,
    PING,
    Client,
    Pending,
    ask,
    client,
    envelope,
    frames_of,
    note,
    open_client,
    outcome,
    reply,
)

GOODBYE = envelope(error_frame(LINK_ITSELF, errors.ShuttingDownError()))
GONE = errors.NetworkError("the stream broke", address="server:1")


def hello(**fields: Any) -> bytes:
    return link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1, **fields))


def leaving_client() -> Client:
    """It waits for two answers, to call 1 and, for longer, to call 2."""
    core = open_client()
    ask(core)
    ask(core, timeout_ms=10_000)
    frames_of(core)
    core.receive(GOODBYE)
    return core


def over_client() -> Client:
    core = open_client()
    core.end(GONE)
    return core


IN_STATE: dict[LinkState, Callable[[], Client]] = {
    LinkState.HELLO: client,
    LinkState.OPEN: open_client,
    LinkState.LEAVING: leaving_client,
    LinkState.OVER: over_client,
}


def first_call(core: Client) -> Any:
    """A call that is open or waits; one that is over on a link that is."""
    if core.state is LinkState.OVER:
        other = open_client()
        call = ask(other)
        note(other.end(GONE))
        return call
    return next(iter(core._open.values()), None) or ask(core)


STEPS: dict[Incident, Callable[[Client], object]] = {
    Incident.HELLO: lambda core: core.greet("test", 0),
    Incident.REQUEST: ask,
    Incident.CANCEL: lambda core: core.cancel(
        ask(core) if core.state in (LinkState.HELLO, LinkState.OPEN) else first_call(core)
    ),
    Incident.CHALLENGE: lambda core: core.prove(b"proof"),
    Incident.WELCOME: lambda core: core.receive(HELLO),
    Incident.REFUSAL: lambda core: core.receive(GOODBYE),
    Incident.SILENCE: lambda core: core.tick(HELLO_TIMEOUT_MS),
    Incident.ANSWER: lambda core: (
        first_call(core),
        frames_of(core),
        core.receive(envelope(Frame(1, link_codec.REPLY + 90))),
    ),
    Incident.TIME_OUT: lambda core: (
        first_call(core),
        ask(core) if core.state is LinkState.OPEN else 0,
        core.tick(100),
    ),
    Incident.GOODBYE: lambda core: (first_call(core), core.receive(GOODBYE)),
    Incident.LAST_ANSWER: lambda core: core.receive(envelope(reply(1), reply(2))),
    Incident.BREACH: lambda core: core.receive(b"\xff\xff"),
    Incident.END: lambda core: core.end(GONE),
}


@pytest.mark.parametrize(
    ("state", "incident"),
    [(state, incident) for state, moves in CLIENT_TRANSITIONS.items() for incident in moves],
    ids=str,
)
def test_every_move_of_the_table_happens(state: LinkState, incident: Incident) -> None:
    core = IN_STATE[state]()
    assert core.state is state
    STEPS[incident](core)
    assert core.state is CLIENT_TRANSITIONS[state][incident]


def test_a_call_that_times_out_on_a_link_that_leaves_ends_it_only_as_the_last_one() -> None:
    core = open_client()
    calls = [ask(core, timeout_ms=timeout_ms) for timeout_ms in (100, 200)]
    frames_of(core)
    core.receive(GOODBYE)
    note(core.tick(100))
    assert core.state is LinkState.LEAVING
    note(core.tick(200))
    assert core.state is LinkState.OVER
    assert [type(outcome(call)) for call in calls] == [errors.RequestTimedOutError] * 2


def test_a_call_on_a_link_that_leaves_is_a_mistake_of_the_shell_and_leaves_no_trace() -> None:
    core = leaving_client()
    with pytest.raises(AssertionError, match="no request of a link that is leaving"):
        ask(core)
    assert (core.calls_open, core.calls_waiting) == (2, 0)


# ---------------------------------------------------------------- hello


def test_the_first_thing_said_is_the_hello_with_our_versions_and_cluster() -> None:
    core = client("ours")
    core.greet("tester", 0)
    [frame] = frames_of(core)
    said = frame.hello
    assert said is not None
    assert (frame.kind, said.protocol_min, said.protocol_max, said.software, said.cluster_id, said.mechanism) == (
        *(link_codec.HELLO, 1, 1, "tester", "ours"),
        "",
    )


def test_calls_wait_for_the_hello_and_go_out_in_their_order() -> None:
    core = client()
    calls = [ask(core, b"%d" % n) for n in range(3)]
    assert not core.has_output
    core.receive(HELLO)
    assert [frame.header for frame in frames_of(core)] == [b"0", b"1", b"2"]
    assert all(call.sent for call in calls)


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (envelope(error_frame(0, errors.ShuttingDownError())), errors.ShuttingDownError, ""),
        (hello(cluster_id="theirs"), errors.WrongClusterError, "another cluster"),
        (
            link_codec.hello_envelope(link_pb2.Hello(protocol_min=8, protocol_max=9)),
            errors.UnsupportedVersionError,
            "speaks protocol 8 to 9",
        ),
        (envelope(reply(1)), errors.NetworkError, "did not begin with a hello"),
        (b"", errors.NetworkError, "did not begin with a hello"),
        (b"\xff", errors.InvalidResponseError, "cannot be parsed"),
    ],
    ids=["refused", "another cluster", "another version", "an answer", "nothing", "garbage"],
)
def test_whatever_is_no_welcome_ends_the_link_and_nothing_was_sent(answer: bytes, kind: Any, says: str) -> None:
    core = client("ours")
    call = ask(core)
    ended, failed = note(core.receive(answer))
    assert isinstance(ended, Ended)
    assert not ended.was_up
    assert isinstance(failed, Failed)
    error = outcome(call)
    assert isinstance(error, kind)
    assert says in error.message
    assert error.context["unsent"] == "true"
    assert frames_of(core) == []


def test_a_hello_that_is_not_answered_ends_the_link_in_its_time() -> None:
    core = client()
    assert core.wake_at_ms == HELLO_TIMEOUT_MS
    call = ask(core, timeout_ms=60_000)
    assert core.tick(HELLO_TIMEOUT_MS - 1) == []
    note(core.tick(HELLO_TIMEOUT_MS))
    error = outcome(call)
    assert isinstance(error, errors.NetworkError)
    assert "did not answer the hello" in error.message


def test_what_comes_in_one_envelope_with_the_hello_counts() -> None:
    core = client()
    events = core.receive(HELLO + GOODBYE)
    assert [type(event) for event in events] == [Left, Ended]


class Exchange:
    """A password exchange that is content with b"final"."""

    def first(self) -> bytes:
        return b"first"

    def check(self, server_final: bytes) -> None:
        if server_final != b"final":
            raise errors.AuthenticationError("it may be a false one")


def proving_client() -> Client:
    core = client()
    core.greet("test", 0, "SCRAM", Exchange())
    return core


def test_a_password_is_proved_in_two_rounds() -> None:
    core = proving_client()
    [first] = frames_of(core)
    assert first.hello is not None
    assert (first.hello.mechanism, first.hello.authentication) == ("SCRAM", b"first")
    call = ask(core)
    assert core.receive(hello(authentication=b"challenge") + envelope(reply(1))) == [Challenged(b"challenge")]
    assert core.state is LinkState.HELLO
    core.prove(b"proof")
    [proof] = frames_of(core)
    assert proof.hello is not None
    assert (proof.hello.authentication, proof.hello.protocol_max) == (b"proof", 0)
    assert core.receive(hello(authentication=b"final")) == []
    assert core.state is LinkState.OPEN
    assert [frame.correlation_id for frame in frames_of(core)] == [call.correlation_id]


@pytest.mark.parametrize("rounds", [[b""], [b"challenge", b"something"], [b"challenge", b""]])
def test_a_server_that_does_not_prove_itself_gets_no_request(rounds: list[bytes]) -> None:
    core = proving_client()
    frames_of(core)
    call = ask(core)
    for message in rounds:
        note(core.receive(hello(authentication=message)))
        if core.state is LinkState.HELLO:
            core.prove(b"proof")
            frames_of(core)
    assert isinstance(outcome(call), errors.AuthenticationError)
    assert frames_of(core) == []


# ---------------------------------------------------------------- calls


def test_answers_find_their_calls_in_any_order() -> None:
    core = open_client()
    first, second = ask(core), ask(core)
    frames_of(core)
    note(core.receive(envelope(reply(2, b"two"), reply(1, b"one"))))
    assert (outcome(first), outcome(second)) == (b"one", b"two")
    assert (core.calls_open, core.bytes_open) == (0, 0)


def test_an_error_frame_fails_its_call_alone() -> None:
    core = open_client()
    first, second = ask(core), ask(core)
    frames_of(core)
    note(core.receive(envelope(error_frame(1, errors.FencedLeaderEpochError(current=7)))))
    error = outcome(first)
    assert isinstance(error, errors.FencedLeaderEpochError)
    assert "unsent" not in error.context
    assert not second.is_over


def test_what_answers_nobody_and_what_nobody_knows_is_passed_over() -> None:
    core = open_client()
    call = ask(core)
    frames_of(core)
    strange = (reply(7), Frame(0, link_codec.REPLY), Frame(1, 77), Frame(0, link_codec.CANCEL))
    assert core.receive(envelope(*strange)) == []
    note(core.receive(envelope(reply(1), reply(1))))
    assert outcome(call) == b""


def test_a_throttle_is_told_before_the_answer_that_brought_it() -> None:
    core = open_client()
    call = ask(core)
    frames_of(core)
    events = core.receive(envelope(reply(1)._replace(throttle_ms=30)))
    assert events == [Throttled(PING, 30), Answered(call, b"", b"")]


def test_callers_wait_for_room_in_order() -> None:
    core = open_client(max_calls=2)
    calls = [ask(core, b"%d" % n) for n in range(4)]
    assert [frame.header for frame in frames_of(core)] == [b"0", b"1"]
    assert (core.calls_open, core.calls_waiting) == (2, 2)
    core.cancel(calls[2])
    note(core.receive(envelope(reply(2))))
    assert [frame.header for frame in frames_of(core)] == [b"3"]


def test_a_waiting_call_of_which_nobody_wants_anything_gets_no_room() -> None:
    core = open_client(max_calls=1)
    _, waiting, last = ask(core), ask(core), ask(core)
    frames_of(core)
    waiting.waiter.is_done = True  # its task was cancelled, and has not run yet
    note(core.receive(envelope(reply(1))))
    assert [frame.correlation_id for frame in frames_of(core)] == [last.correlation_id]


def test_bytes_are_bounded_and_a_larger_call_goes_alone() -> None:
    core = open_client(max_bytes=1_000)
    for size in (5_000, 600, 300, 200):
        ask(core, payload=bytes(size))
    sent = []
    for number in range(1, 5):
        sent.append([len(frame.payload) for frame in frames_of(core)])
        note(core.receive(envelope(reply(number))))
    assert sent == [[5_000], [600, 300], [200], []]
    assert core.bytes_open == 0


def test_a_call_that_is_cancelled_before_it_left_is_never_heard_of() -> None:
    core = open_client()
    call, other = ask(core), ask(core)
    unheard = ask(core)
    assert core.cancel(call) == []
    unheard.waiter.is_done = True
    assert [frame.correlation_id for frame in frames_of(core)] == [other.correlation_id]


def test_a_call_that_is_cancelled_later_is_told_to_the_peer_once() -> None:
    core = open_client()
    call = ask(core)
    frames_of(core)
    core.cancel(call)
    core.cancel(call)
    assert [(frame.kind, frame.correlation_id) for frame in frames_of(core)] == [(link_codec.CANCEL, 1)]
    assert core.receive(envelope(reply(1))) == []
    assert not call.waiter.outcomes


def test_no_id_names_two_calls() -> None:
    """A late answer to a call that was cancelled must not meet another one."""
    core = open_client()
    used = []
    for n in range(10):
        call = ask(core)
        used.append(call.correlation_id)
        frames_of(core)
        core.cancel(call) if n % 2 else note(core.receive(envelope(reply(call.correlation_id))))
    assert used == list(range(1, 11))


def test_the_bytes_of_a_cancelled_call_are_given_back() -> None:
    core = open_client()
    call = ask(core, payload=bytes(1_000))
    core.cancel(call)
    assert call.frame.payload == b""
    assert core.bytes_open == 0


# ---------------------------------------------------------------- time


def test_a_call_that_was_sent_times_out_with_an_unknown_outcome() -> None:
    core = open_client()
    call = ask(core, timeout_ms=100, now_ms=50)
    frames_of(core)
    assert core.wake_at_ms == 150
    assert core.tick(149) == []
    note(core.tick(150))
    error = outcome(call)
    assert isinstance(error, errors.RequestTimedOutError)
    assert "unsent" not in error.context
    assert f"did not answer {PING} in 100 ms" in error.message
    assert [frame.kind for frame in frames_of(core)] == [link_codec.CANCEL]


def test_a_call_that_waits_times_out_unsent_and_says_nothing_to_the_peer() -> None:
    core = open_client(max_calls=1)
    ask(core, timeout_ms=500)
    frames_of(core)
    call = ask(core, timeout_ms=100)
    note(core.tick(100))
    error = outcome(call)
    assert isinstance(error, errors.RequestTimedOutError)
    assert error.context["unsent"] == "true"
    assert frames_of(core) == []


def test_the_core_says_when_it_wants_to_be_woken() -> None:
    core = open_client()
    assert core.tick(HELLO_TIMEOUT_MS) == []
    assert core.wake_at_ms == NEVER_MS
    calls = [ask(core, timeout_ms=timeout_ms) for timeout_ms in (300, 100, 200)]
    assert core.wake_at_ms == 100
    note(core.tick(100))
    assert core.wake_at_ms == 200
    calls[2].waiter.is_done = True
    assert core.tick(200) == []  # who does not wait any more is told nothing
    core.cancel(calls[2])
    note(core.tick(250))
    assert core.wake_at_ms == 300 or core.tick(300)


def test_a_longest_time_out_goes_out_as_the_longest_that_a_frame_can_say() -> None:
    core = open_client()
    ask(core, timeout_ms=2**40)
    ask(core, timeout_ms=0)
    assert [frame.timeout_ms for frame in frames_of(core)] == [link_codec.MAX_TIMEOUT_MS, 1]


# ---------------------------------------------------------------- the end


def test_only_what_certainly_was_not_sent_says_so_when_a_link_is_cut() -> None:
    core = open_client(max_calls=2)
    sent = ask(core)
    frames_of(core)
    in_outbox, waiting = ask(core), ask(core)
    ended, *failed = note(core.end(GONE))
    assert ended == Ended(GONE, was_up=True)
    assert len(failed) == 3
    found = [outcome(call) for call in (sent, in_outbox, waiting)]
    assert [error.context.get("unsent") for error in found] == [None, "true", "true"]  # type: ignore[union-attr]
    assert len({id(error) for error in found}) == 3
    assert not core.has_output


def test_an_end_is_told_once_and_nothing_is_read_after_it() -> None:
    core = open_client()
    call = ask(core)
    frames_of(core)
    assert len(note(core.end(GONE))) == 2
    assert core.end(GONE) == core.receive(envelope(reply(1))) == core.cancel(call) == core.tick(10_000) == []
    assert isinstance(outcome(call), errors.NetworkError)


def test_a_goodbye_leaves_open_calls_their_answers_and_fails_the_waiting_ones() -> None:
    core = open_client(max_calls=1)
    sent = ask(core)
    frames_of(core)
    waiting = ask(core)
    left, failed = note(core.receive(GOODBYE))
    assert isinstance(left, Left)
    assert isinstance(failed, Failed)
    error = outcome(waiting)
    assert isinstance(error, errors.ShuttingDownError)
    assert error.context["unsent"] == "true"
    events = note(core.receive(envelope(reply(1, b"late"))))
    assert outcome(sent) == b"late"
    assert isinstance(events[-1], Ended)
    assert events[-1].was_up


def test_a_call_in_the_outbox_still_leaves_after_a_goodbye() -> None:
    """It holds room already, and the peer answers what comes after its goodbye."""
    core = open_client()
    ask(core)
    core.receive(GOODBYE)
    assert [frame.correlation_id for frame in frames_of(core)] == [1]


def test_nothing_that_follows_a_goodbye_in_its_envelope_is_lost() -> None:
    core = open_client()
    first, second = ask(core), ask(core)
    frames_of(core)
    late = error_frame(2, errors.RequestTimedOutError())
    note(core.receive(GOODBYE + envelope(reply(1, b"x"), late) + GOODBYE))
    assert outcome(first) == b"x"
    assert isinstance(outcome(second), errors.RequestTimedOutError)
    assert core.state is LinkState.OVER


def test_garbage_ends_the_link_and_leaves_what_was_sent_in_doubt() -> None:
    core = open_client()
    call = ask(core)
    frames_of(core)
    note(core.receive(b"\xff\xff"))
    error = outcome(call)
    assert isinstance(error, errors.InvalidResponseError)
    assert "unsent" not in error.context
    assert Pending().outcomes == []
