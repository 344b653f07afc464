"""The brokers that the controller suspects or has declared dead.

Theory of operation: a broker that reports another one, or the controller's own watch, makes it a suspect. Suspects are probed
until they answer, or their registration is gone. Only a verdict (`reachability.judge`), or the take-over of its role, makes a
broker dead; from then on no election counts on it. An answer, to whichever question, makes it alive again.

Rule 1: every step is in `TRANSITIONS`; `_move` asserts that, and nothing else writes a state.
Rule 2: a broker is probed by one task at a time: in the states SUSPECT and DEAD.
Rule 3: what is known of dead brokers ends with the term in which it was found.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.reachability import Verdict


class SuspectState(StrEnum):
    """The state of one incarnation of a broker, as the controller knows it."""

    TRUSTED = "TRUSTED"
    """Nothing speaks against it."""
    SUSPECT = "SUSPECT"
    """It is probed; nothing is proven."""
    DEAD = "DEAD"
    """It is dead, and probed on, since it may come back under the same registration."""
    DEAD_UNPROBED = "DEAD_UNPROBED"
    """It is dead, and no task probes it."""


class Trigger(StrEnum):
    """The event that moves a broker from one state to the next."""

    REPORTED = "a broker, or this one, did not reach it"
    JUDGED_DEAD = "the verdict of a probe"
    ANSWERED = "it answered a probe"
    HEARD = "it answered another call"
    GONE = "its registration is gone, or this broker lost the role"
    BROKEN_OFF = "its probe was broken off"
    OVERTHROWN = "this broker took the controller's role from it"
    NEW_TERM = "this broker won the role again"


_S = SuspectState
_T = Trigger

TRANSITIONS: Final[dict[tuple[SuspectState, SuspectState], tuple[Trigger, ...]]] = {
    (_S.TRUSTED, _S.SUSPECT): (_T.REPORTED,),
    (_S.TRUSTED, _S.DEAD_UNPROBED): (_T.OVERTHROWN,),
    (_S.SUSPECT, _S.TRUSTED): (_T.ANSWERED, _T.GONE, _T.BROKEN_OFF),
    (_S.SUSPECT, _S.DEAD): (_T.JUDGED_DEAD, _T.OVERTHROWN),
    (_S.DEAD, _S.TRUSTED): (_T.ANSWERED, _T.GONE),
    (_S.DEAD, _S.SUSPECT): (_T.HEARD, _T.NEW_TERM),
    (_S.DEAD, _S.DEAD_UNPROBED): (_T.BROKEN_OFF,),
    (_S.DEAD_UNPROBED, _S.TRUSTED): (_T.HEARD, _T.NEW_TERM),
    (_S.DEAD_UNPROBED, _S.DEAD): (_T.REPORTED,),
}
_IS_DEAD: Final = (_S.DEAD, _S.DEAD_UNPROBED)


class AfterVerdict(Enum):
    """The next step of a probe after its verdict."""

    STOP = 1
    STOP_ALIVE_AGAIN = 2
    """It stops, and elections may count on the broker again."""
    PROBE_SOON = 3
    PROBE_LATER = 4
    PROBE_LATER_DEAD = 5
    """It goes on, and elections may no longer count on the broker."""


class Suspects:
    """The states of all brokers of one controller. `dead` stays the same object, so that elections see each change."""

    def __init__(self) -> None:
        self._states: dict[BrokerRef, SuspectState] = {}
        self.dead: dict[BrokerRef, None] = {}

    def state(self, ref: BrokerRef) -> SuspectState:
        """Returns the state of a broker."""
        return self._states.get(ref, SuspectState.TRUSTED)

    def reported(self, ref: BrokerRef) -> bool:
        """Notes a report. True when a probe must begin."""
        state = self.state(ref)
        if state is SuspectState.TRUSTED:
            self._move(ref, SuspectState.SUSPECT)
        elif state is SuspectState.DEAD_UNPROBED:
            self._move(ref, SuspectState.DEAD)
        else:
            return False
        return True

    def judged(self, ref: BrokerRef, verdict: Verdict) -> AfterVerdict:
        """Takes a verdict of the probe of `ref`."""
        was_dead = self.state(ref) is SuspectState.DEAD
        if verdict is Verdict.ANSWERS:
            self._move(ref, SuspectState.TRUSTED)
            return AfterVerdict.STOP_ALIVE_AGAIN if was_dead else AfterVerdict.STOP
        if was_dead:
            return AfterVerdict.PROBE_LATER
        if verdict is Verdict.DEAD:
            self._move(ref, SuspectState.DEAD)
            return AfterVerdict.PROBE_LATER_DEAD
        return AfterVerdict.PROBE_SOON

    def heard(self, ref: BrokerRef) -> bool:
        """Notes that a broker answers. True when it had been dead."""
        state = self.state(ref)
        if state is SuspectState.DEAD:
            self._move(ref, SuspectState.SUSPECT)
        elif state is SuspectState.DEAD_UNPROBED:
            self._move(ref, SuspectState.TRUSTED)
        return state in _IS_DEAD

    def gone(self, ref: BrokerRef) -> None:
        """Ends the probe of a broker that is not registered any more, or is not this controller's concern."""
        self._move(ref, SuspectState.TRUSTED)

    def broken_off(self, ref: BrokerRef) -> None:
        """Notes that a probe ended without a verdict."""
        is_dead = self.state(ref) is SuspectState.DEAD
        self._move(ref, SuspectState.DEAD_UNPROBED if is_dead else SuspectState.TRUSTED)

    def new_term(self, overthrown: BrokerRef | None) -> None:
        """Begins a term: the only dead broker is the one whose role was taken, if it was."""
        for ref in list(self.dead):
            self.heard(ref)
        if overthrown is not None:
            is_probed = self.state(overthrown) is SuspectState.SUSPECT
            self._move(overthrown, SuspectState.DEAD if is_probed else SuspectState.DEAD_UNPROBED)

    def _move(self, ref: BrokerRef, to: SuspectState) -> None:
        assert (self.state(ref), to) in TRANSITIONS, f"no step leads from {self.state(ref)} to {to}"
        self._states.pop(ref, None)
        self.dead.pop(ref, None)
        if to is not SuspectState.TRUSTED:
            self._states[ref] = to
        if to in _IS_DEAD:
            self.dead[ref] = None
