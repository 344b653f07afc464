"""The states of a record that a worker was given, and every move between them: one table. Nothing else changes a state.

WAITING   The record has come, and the caller does not have it yet.
HELD      The caller has it, and settles it.
SETTLING  Its settlement was sent to the broker, which has not confirmed it yet.
SETTLED   The broker has confirmed it, or it is acknowledged in a transaction. This delivery has ended.
LOST      The broker has given it to another worker, or will: its deadline has passed, or its leader has changed.

Rule: an incident that a state does not list is refused (`next_state` returns None), and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class MessageState(StrEnum):
    """See the module. A StrEnum, since each move looks it up in a table, and Python computes the hash of an Enum."""

    WAITING = "waiting"
    HELD = "held"
    SETTLING = "settling"
    SETTLED = "settled"
    LOST = "lost"


class MessageIncident(StrEnum):
    """The incidents in the life of a record with its worker."""

    HANDED_OUT = "handed out"
    """The caller gets it."""
    VERDICT = "verdict"
    """The caller settles it, or the worker does."""
    CONFIRMED = "confirmed"
    """The broker has carried out the settlement."""
    REFUSED = "refused"
    """The broker has not done it, or that is not known: the caller may say it again."""
    TAKEN_AWAY = "taken away"
    """The broker says that it is not this worker's, or the worker knows that by itself."""


_S, _I = MessageState, MessageIncident

MESSAGE_TRANSITIONS: Final[Mapping[MessageState, Mapping[MessageIncident, MessageState]]] = {
    _S.WAITING: {
        _I.HANDED_OUT: _S.HELD,
        _I.VERDICT: _S.SETTLING,  # expired, or released by a close
        _I.TAKEN_AWAY: _S.LOST,
    },
    _S.HELD: {
        _I.VERDICT: _S.SETTLING,
        _I.TAKEN_AWAY: _S.LOST,
    },
    _S.SETTLING: {
        _I.CONFIRMED: _S.SETTLED,
        _I.REFUSED: _S.HELD,
        _I.TAKEN_AWAY: _S.LOST,
    },
    _S.SETTLED: {},
    _S.LOST: {},
}
"""The only place of a move."""


def next_state(state: MessageState, incident: MessageIncident) -> MessageState | None:
    """Returns where the incident leads; None: it is not legal in this state."""
    return MESSAGE_TRANSITIONS[state].get(incident)
