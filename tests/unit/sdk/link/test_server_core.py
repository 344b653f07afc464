"""The server's end of a link, walked by hand: every move of its table, and what is said about each request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.link.link_core import NEVER_MS, error_in
from oncelog.link.link_states import SERVER_TRANSITIONS, Incident, LinkState
from oncelog.link.protocol import LINK_ITSELF
from oncelog.link.server_core import Breached, Cancelled, Expired, Greeted, Proved
from oncelog.v1 import link_pb2
from tests.unit.sdk.link.link_ends import (
    HELLO,
    Server,
    asked,
    envelope,
    frames_of,
    open_server,
    reply,
    request,
    server,
    told,
)

BYE = errors.ShuttingDownError()
PROOF = link_codec.hello_envelope(link_pb2.Hello(authentication=b"proof"))


def leaving_server() -> Server:
    core = open_server()
    core.goodbye(BYE)
    return core


def over_server() -> Server:
    core = open_server()
    core.end()
    return core


IN_STATE: dict[LinkState, Callable[[], Server]] = {
    LinkState.HELLO: server,
    LinkState.OPEN: open_server,
    LinkState.LEAVING: leaving_server,
    LinkState.OVER: over_server,
}


def one_request(core: Server) -> None:
    [found] = asked(told(core, request(1)))
    core.is_awaited(found)
    core.answer(found, reply(1))


def late_answer(core: Server) -> None:
    other = open_server()
    [found] = asked(told(other, request(1)))
    core.answer(found, reply(1))


STEPS: dict[Incident, Callable[[Server], object]] = {
    Incident.HELLO: lambda core: list(core.receive(HELLO, 0)),
    Incident.CHALLENGE: lambda core: core.challenge(b"challenge"),
    Incident.WELCOME: lambda core: core.welcome(),
    Incident.REFUSAL: lambda core: core.refuse_link(BYE),
    Incident.REQUEST: lambda core: told(core, request(1)),
    Incident.CANCEL: lambda core: told(core, Frame(1, link_codec.CANCEL)),
    Incident.ANSWER: lambda core: late_answer(core) if core.state is LinkState.OVER else one_request(core),
    Incident.TIME_OUT: lambda core: (told(core, request(1)), core.tick(100)),
    Incident.GOODBYE: lambda core: core.goodbye(BYE),
    Incident.HALF_CLOSE: lambda core: core.half_close(),
    Incident.BREACH: lambda core: list(core.receive(b"\xff\xff", 0)),
    Incident.END: lambda core: core.end(),
}


@pytest.mark.parametrize(
    ("state", "incident"),
    [(state, incident) for state, moves in SERVER_TRANSITIONS.items() for incident in moves],
    ids=str,
)
def test_every_move_of_the_table_happens(state: LinkState, incident: Incident) -> None:
    core = IN_STATE[state]()
    assert core.state is state
    STEPS[incident](core)
    assert core.state is SERVER_TRANSITIONS[state][incident]


# ---------------------------------------------------------------- hello


def test_the_answer_to_a_hello_names_versions_software_and_cluster() -> None:
    core = server(cluster_id="ours", software="oncelog")
    [event] = core.receive(HELLO, 0)
    assert isinstance(event, Greeted)
    assert event.hello.cluster_id == "ours"
    assert not core.has_output
    core.welcome()
    [frame] = frames_of(core)
    assert frame.hello is not None
    said = frame.hello
    assert (said.protocol_min, said.protocol_max, said.software, said.cluster_id) == (1, 1, "oncelog", "ours")


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (link_codec.hello_envelope(link_pb2.Hello(protocol_min=8, protocol_max=9)), errors.UnsupportedVersionError),
        (
            link_codec.hello_envelope(link_pb2.Hello(protocol_min=1, protocol_max=1, cluster_id="theirs")),
            errors.WrongClusterError,
        ),
        (b"", errors.InvalidRequestError),
        (envelope(request(1)), errors.InvalidRequestError),
    ],
    ids=["version", "cluster", "nothing", "a request"],
)
def test_who_may_not_come_in_is_told_why_and_nothing_of_it_runs(first: bytes, kind: type[errors.OncelogError]) -> None:
    core = server()
    with pytest.raises(kind) as caught:
        next(core.receive(first, 0))
    core.refuse_link(caught.value)
    [frame] = frames_of(core)
    assert frame.correlation_id == LINK_ITSELF
    assert isinstance(error_in(frame, "it"), kind)
    assert (core.state, core.requests) == (LinkState.OVER, {})


def test_garbage_instead_of_a_hello_is_for_the_shell_to_refuse() -> None:
    core = server()
    [event] = core.receive(b"\xff", 0)
    assert isinstance(event, Breached)
    core.refuse_link(event.error)
    assert len(frames_of(core)) == 1


def test_a_refusal_is_all_that_a_peer_hears() -> None:
    core = server()
    core.goodbye(BYE)
    core.refuse_link(errors.ResourceExhaustedError())
    assert [type(error_in(frame, "it")) for frame in frames_of(core)] == [errors.ResourceExhaustedError]


def test_a_password_is_proved_before_anything_is_asked() -> None:
    core = server()
    [event] = core.receive(HELLO, 0)
    assert isinstance(event, Greeted)
    core.challenge(b"challenge")
    [challenge] = frames_of(core)
    assert challenge.hello is not None
    assert challenge.hello.authentication == b"challenge"
    assert list(core.receive(PROOF, 0)) == [Proved(b"proof")]
    core.welcome(b"final")
    [welcome] = frames_of(core)
    assert welcome.hello is not None
    assert welcome.hello.authentication == b"final"


@pytest.mark.parametrize("answer", [PROOF + PROOF, envelope(request(1)), b""])
def test_anything_but_a_proof_breaks_the_password_exchange_off(answer: bytes) -> None:
    core = server()
    assert len(list(core.receive(HELLO, 0))) == 1
    core.challenge(b"challenge")
    assert list(core.receive(answer, 0)) == [Proved(None)]


def test_requests_that_come_with_the_hello_wait_for_the_welcome() -> None:
    core = server()
    [event] = core.receive(HELLO + envelope(request(1), request(2)), 0)
    assert isinstance(event, Greeted)
    assert core.requests == {}
    core.welcome()
    assert [found.correlation_id for found in asked(core.early(5))] == [1, 2]
    assert asked(core.early(5)) == []


def test_a_goodbye_to_who_is_not_in_yet_follows_the_hello() -> None:
    core = server()
    assert len(list(core.receive(HELLO, 0))) == 1
    core.goodbye(BYE)
    core.welcome()
    assert core.state is LinkState.LEAVING
    hello, goodbye = frames_of(core)
    assert hello.hello is not None
    assert isinstance(error_in(goodbye, "it"), errors.ShuttingDownError)


# ---------------------------------------------------------------- requests


def test_answers_leave_in_the_order_in_which_handlers_finish() -> None:
    core = open_server()
    first, second = asked(told(core, request(1), request(2)))
    for found in (second, first):
        assert core.is_awaited(found)
        core.answer(found, reply(found.correlation_id))
    assert [frame.correlation_id for frame in frames_of(core)] == [2, 1]


def test_an_error_and_a_throttle_travel_with_the_answer() -> None:
    core = open_server()
    first, second, third = asked(told(core, request(1), request(2), request(3)))
    core.answer(first, errors.FencedLeaderEpochError(), 7)
    core.answer(second, reply(2), 8)
    core.refuse(third, errors.ThrottlingQuotaExceededError(), 9)
    found = frames_of(core)
    assert [(frame.correlation_id, frame.throttle_ms) for frame in found] == [(1, 7), (2, 8), (3, 9)]
    assert isinstance(error_in(found[0], "it"), errors.FencedLeaderEpochError)


def test_an_answer_that_fits_into_no_message_becomes_an_error() -> None:
    core = open_server(max_message_bytes=10_000)
    [found] = asked(told(core, request(1)))
    core.answer(found, Frame(1, link_codec.REPLY, payload=bytes(9_000)))
    [frame] = frames_of(core)
    assert isinstance(error_in(frame, "it"), errors.MessageTooLargeError)


def test_an_id_is_free_when_its_answer_has_left() -> None:
    core = open_server()
    [found] = asked(told(core, request(1)))
    core.answer(found, reply(1))
    assert core.data_to_send()
    assert core.requests
    assert core.sent() == [found]
    assert core.requests == {}
    assert core.sent() == []
    assert len(asked(told(core, request(1)))) == 1


def test_an_id_that_was_refused_is_free_at_once() -> None:
    core = open_server()
    events = core.receive(envelope(request(1), request(1)), 0)
    [first] = asked([next(events)])
    core.refuse(first, errors.ResourceExhaustedError())
    assert len(asked(events)) == 1


@pytest.mark.parametrize("number", [1, LINK_ITSELF])
def test_an_id_that_is_taken_breaks_the_protocol_after_what_came_before_it(number: int) -> None:
    core = open_server()
    first, second, breach = told(core, request(1), request(2), request(number), request(3))
    assert len(asked([first, second])) == 2
    assert isinstance(breach, Breached)
    core.answer(core.requests[1], reply(1))
    accusation, answer = frames_of(core)
    assert accusation.correlation_id == LINK_ITSELF
    assert isinstance(error_in(accusation, "it"), errors.InvalidRequestError)
    assert answer.correlation_id == 1


def test_what_no_caller_sends_is_passed_over() -> None:
    core = open_server()
    strange = (reply(1), Frame(1, link_codec.ERROR), Frame(1, 77), Frame(9, link_codec.CANCEL))
    assert told(core, *strange) == []


def test_bytes_that_wait_are_counted_until_they_have_left() -> None:
    core = open_server()
    for found in asked(told(core, request(1), request(2))):
        core.answer(found, Frame(found.correlation_id, link_codec.REPLY, header=b"h", payload=bytes(99)))
    assert (core.outbox_frames, core.outbox_bytes) == (2, 200)
    core.data_to_send()
    assert (core.outbox_frames, core.outbox_bytes) == (0, 200)
    core.sent()
    assert core.outbox_bytes == 0


# ---------------------------------------------------------------- cancel and time


def test_a_cancelled_request_is_finished_and_not_answered() -> None:
    core = open_server()
    first, second, cancelled = told(core, request(1), request(2), Frame(1, link_codec.CANCEL))
    assert isinstance(cancelled, Cancelled)
    [one, two] = asked([first, second])
    assert cancelled.request is one
    assert not core.is_awaited(one)
    core.forget(one)
    assert core.is_awaited(two)
    assert core.tick(100) == []
    assert list(core.requests) == [2]


def test_the_id_of_a_cancelled_request_is_taken_while_its_handler_runs() -> None:
    core = open_server()
    told(core, request(1), Frame(1, link_codec.CANCEL))
    assert isinstance(told(core, request(1))[0], Breached)


def test_a_request_that_times_out_is_told_once_and_holds_its_place() -> None:
    core = open_server()
    [found] = asked(told(core, request(1, 100), now_ms=5))
    assert core.wake_at_ms == 105
    assert core.tick(104) == []
    assert core.tick(105) == [Expired(found)]
    assert core.tick(999) == []
    [frame] = frames_of(core)
    assert isinstance(error_in(frame, "it"), errors.RequestTimedOutError)
    assert core.sent() == []
    assert core.requests == {1: found}
    assert not core.is_awaited(found)


def test_who_names_no_time_gets_the_servers() -> None:
    core = open_server(default_timeout_ms=700)
    told(core, request(1, 0), request(2, 900))
    assert core.wake_at_ms == 700
    assert len(core.tick(700)) == 1
    assert core.wake_at_ms == 900


def test_a_handler_that_is_done_does_not_time_out_while_its_answer_waits() -> None:
    core = open_server()
    [found] = asked(told(core, request(1)))
    assert core.is_awaited(found)
    assert core.tick(100) == []
    assert core.wake_at_ms == NEVER_MS


# ---------------------------------------------------------------- the end


def test_a_goodbye_drops_no_answer_that_is_due() -> None:
    core = open_server()
    first, second = asked(told(core, request(1), request(2)))
    core.answer(first, reply(1))
    core.goodbye(BYE)
    assert core.is_awaited(second)
    core.answer(second, reply(2))
    assert [frame.correlation_id for frame in frames_of(core)] == [1, LINK_ITSELF, 2]


def test_nobody_hears_anything_after_the_end() -> None:
    core = open_server()
    first, second = asked(told(core, request(1), request(2)))
    core.answer(first, reply(1))
    core.end()
    core.goodbye(BYE)
    assert not core.is_awaited(second)
    assert not core.has_output
    assert core.tick(1_000) == []


def test_what_is_read_after_the_end_is_passed_over() -> None:
    """A write fails first, and then comes what had arrived before it, or the end of what the peer sends."""
    core = open_server()
    core.end()
    assert told(core, request(1)) == []
    core.half_close()
    assert core.requests == {}
