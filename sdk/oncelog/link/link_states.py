"""The states of a link, and every move between them: one table for each end. Nothing else changes a state.

HELLO    Each end says who it is. A user proves a password in further hellos. Nothing is asked yet.
OPEN     The caller's end sends requests, the server's end answers each of them once, in any order.
LEAVING  The server has said goodbye, the caller has closed its direction, or one of them broke the protocol: nothing new
         should be asked on this link, and the answers that are due still come.
OVER     Nothing is read any more, and no call waits.

Rule 1: an incident that a state does not list is a mistake of the code around the core, so it is an `AssertionError`.
        What a peer may do wrong is a listed incident of its own (`BREACH`).
Rule 2: the tables say where a link goes, the cores say what is done on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final


class LinkState(Enum):
    """See the module."""

    HELLO = "hello"
    OPEN = "open"
    LEAVING = "leaving"
    OVER = "over"


class Incident(StrEnum):
    """The events of a link. The first group comes from the peer or from time, the second from this end's own process."""

    HELLO = "hello"
    """The first frame of the peer."""
    CHALLENGE = "challenge"
    """A round of the password exchange."""
    WELCOME = "welcome"
    """The hello of the peer was accepted."""
    REFUSAL = "refusal"
    """The hello was refused."""
    SILENCE = "silence"
    """The hello was not answered in time."""
    REQUEST = "request"
    ANSWER = "answer"
    CANCEL = "cancel"
    TIME_OUT = "time-out"
    GOODBYE = "goodbye"
    """An ERROR frame about the link itself."""
    LAST_ANSWER = "last answer"
    """No call is open any more on a link that the peer leaves."""
    HALF_CLOSE = "half close"
    """The caller sends nothing more."""
    BREACH = "breach"
    """The peer broke the protocol."""
    END = "end"
    """The stream broke or was closed."""


Moves = Mapping[Incident, LinkState]
Table = Mapping[LinkState, Moves]

CLIENT_TRANSITIONS: Final[Table] = {
    LinkState.HELLO: {
        Incident.HELLO: LinkState.HELLO,
        Incident.REQUEST: LinkState.HELLO,  # it waits until the link is open
        Incident.CANCEL: LinkState.HELLO,
        Incident.TIME_OUT: LinkState.HELLO,
        Incident.CHALLENGE: LinkState.HELLO,
        Incident.WELCOME: LinkState.OPEN,
        Incident.REFUSAL: LinkState.OVER,
        Incident.SILENCE: LinkState.OVER,
        Incident.BREACH: LinkState.OVER,
        Incident.END: LinkState.OVER,
    },
    LinkState.OPEN: {
        Incident.REQUEST: LinkState.OPEN,
        Incident.ANSWER: LinkState.OPEN,
        Incident.CANCEL: LinkState.OPEN,
        Incident.TIME_OUT: LinkState.OPEN,
        Incident.GOODBYE: LinkState.LEAVING,
        Incident.BREACH: LinkState.OVER,
        Incident.END: LinkState.OVER,
    },
    LinkState.LEAVING: {
        Incident.ANSWER: LinkState.LEAVING,
        Incident.CANCEL: LinkState.LEAVING,
        Incident.TIME_OUT: LinkState.LEAVING,
        Incident.GOODBYE: LinkState.LEAVING,
        Incident.LAST_ANSWER: LinkState.OVER,
        Incident.BREACH: LinkState.OVER,
        Incident.END: LinkState.OVER,
    },
    LinkState.OVER: {
        Incident.CANCEL: LinkState.OVER,  # a caller that gives up in the moment in which the link ends
        Incident.END: LinkState.OVER,
    },
}
"""The caller's end."""

SERVER_TRANSITIONS: Final[Table] = {
    LinkState.HELLO: {
        Incident.HELLO: LinkState.HELLO,
        Incident.CHALLENGE: LinkState.HELLO,
        Incident.WELCOME: LinkState.OPEN,
        Incident.REFUSAL: LinkState.OVER,
        Incident.GOODBYE: LinkState.HELLO,  # it is said after the hello
        Incident.END: LinkState.OVER,
    },
    LinkState.OPEN: {
        Incident.REQUEST: LinkState.OPEN,
        Incident.CANCEL: LinkState.OPEN,
        Incident.ANSWER: LinkState.OPEN,
        Incident.TIME_OUT: LinkState.OPEN,
        Incident.GOODBYE: LinkState.LEAVING,
        Incident.HALF_CLOSE: LinkState.LEAVING,
        Incident.BREACH: LinkState.LEAVING,
        Incident.END: LinkState.OVER,
    },
    LinkState.LEAVING: {
        Incident.REQUEST: LinkState.LEAVING,  # the peer had not heard the goodbye yet
        Incident.CANCEL: LinkState.LEAVING,
        Incident.ANSWER: LinkState.LEAVING,
        Incident.TIME_OUT: LinkState.LEAVING,
        Incident.GOODBYE: LinkState.LEAVING,
        Incident.HALF_CLOSE: LinkState.LEAVING,
        Incident.BREACH: LinkState.LEAVING,
        Incident.END: LinkState.OVER,
    },
    LinkState.OVER: {
        Incident.ANSWER: LinkState.OVER,  # the peer does not get it
        Incident.GOODBYE: LinkState.OVER,
        Incident.END: LinkState.OVER,
    },
}
"""The server's end."""
