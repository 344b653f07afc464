"""A broker is dead only by a verdict or by the take-over of its role, and alive again by any answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.reachability import Verdict
from oncelog_partition_leader.core.cluster.suspects import (
    TRANSITIONS,
    AfterVerdict,
    Suspects,
    SuspectState,
)

S, A = SuspectState, AfterVerdict
REF, OTHER = BrokerRef(1, 7), BrokerRef(2, 8)

PATHS: dict[SuspectState, tuple[Callable[[Suspects], object], ...]] = {
    S.TRUSTED: (),
    S.SUSPECT: (lambda s: s.reported(REF),),
    S.DEAD: (lambda s: s.reported(REF), lambda s: s.judged(REF, Verdict.DEAD)),
    S.DEAD_UNPROBED: (lambda s: s.new_term(REF),),
}


def at(state: SuspectState) -> Suspects:
    """Suspects of which REF is in this state."""
    suspects = Suspects()
    for step in PATHS[state]:
        step(suspects)
    assert suspects.state(REF) is state
    return suspects


STEPS: dict[str, Callable[[Suspects], object]] = {
    "reported": lambda s: s.reported(REF),
    "answers": lambda s: s.judged(REF, Verdict.ANSWERS),
    "is dead": lambda s: s.judged(REF, Verdict.DEAD),
    "is cut off": lambda s: s.judged(REF, Verdict.CUT_OFF),
    "is undecided": lambda s: s.judged(REF, Verdict.UNDECIDED),
    "heard": lambda s: s.heard(REF),
    "gone": lambda s: s.gone(REF),
    "broken off": lambda s: s.broken_off(REF),
    "new term": lambda s: s.new_term(None),
    "overthrown": lambda s: s.new_term(REF),
}
BUG = "a bug"
LEADS: dict[str, dict[SuspectState, tuple[SuspectState, object] | str]] = {
    "reported": {
        S.TRUSTED: (S.SUSPECT, True),
        S.SUSPECT: (S.SUSPECT, False),
        S.DEAD: (S.DEAD, False),
        S.DEAD_UNPROBED: (S.DEAD, True),
    },
    "answers": {
        S.TRUSTED: BUG,
        S.SUSPECT: (S.TRUSTED, A.STOP),
        S.DEAD: (S.TRUSTED, A.STOP_ALIVE_AGAIN),
    },
    "is dead": {S.SUSPECT: (S.DEAD, A.PROBE_LATER_DEAD), S.DEAD: (S.DEAD, A.PROBE_LATER), S.TRUSTED: BUG},
    "is cut off": {S.SUSPECT: (S.SUSPECT, A.PROBE_SOON), S.DEAD: (S.DEAD, A.PROBE_LATER)},
    "is undecided": {S.SUSPECT: (S.SUSPECT, A.PROBE_SOON), S.DEAD: (S.DEAD, A.PROBE_LATER)},
    "heard": {
        S.TRUSTED: (S.TRUSTED, False),
        S.SUSPECT: (S.SUSPECT, False),
        S.DEAD: (S.SUSPECT, True),
        S.DEAD_UNPROBED: (S.TRUSTED, True),
    },
    "gone": {S.SUSPECT: (S.TRUSTED, None), S.DEAD: (S.TRUSTED, None), S.TRUSTED: BUG},
    "broken off": {S.SUSPECT: (S.TRUSTED, None), S.DEAD: (S.DEAD_UNPROBED, None), S.TRUSTED: BUG},
    "new term": {
        S.TRUSTED: (S.TRUSTED, None),
        S.SUSPECT: (S.SUSPECT, None),
        S.DEAD: (S.SUSPECT, None),
        S.DEAD_UNPROBED: (S.TRUSTED, None),
    },
    "overthrown": {
        S.TRUSTED: (S.DEAD_UNPROBED, None),
        S.SUSPECT: (S.DEAD, None),
        S.DEAD: (S.DEAD, None),
        S.DEAD_UNPROBED: (S.DEAD_UNPROBED, None),
    },
}
"""Step -> from -> (to, what it returns). Verdicts are of brokers that are probed: the other states have none."""


@pytest.mark.parametrize(("step", "state"), [pair for pair in product(STEPS, S) if pair[1] in LEADS[pair[0]]])
def test_every_step_in_every_state(step: str, state: SuspectState) -> None:
    suspects, expected = at(state), LEADS[step][state]
    if isinstance(expected, str):
        with pytest.raises(AssertionError, match="no step leads"):
            STEPS[step](suspects)
        assert suspects.state(REF) is state
        return
    to, result = expected
    assert STEPS[step](suspects) == result
    assert suspects.state(REF) is to
    assert list(suspects.dead) == ([REF] if to in (S.DEAD, S.DEAD_UNPROBED) else [])


def test_the_table_has_these_steps_and_no_other() -> None:
    taken = {(old, led[0]) for leads in LEADS.values() for old, led in leads.items() if not isinstance(led, str)}
    assert {(old, new) for old, new in taken if old is not new} == set(TRANSITIONS)


def test_elections_see_each_change_in_the_same_object() -> None:
    suspects = at(S.DEAD)
    dead = suspects.dead
    suspects.new_term(OTHER)
    assert dead is suspects.dead
    assert list(dead) == [OTHER], "what an earlier term found does not count"
