"""A restore of etcd that everybody notices: the logs alone decide who leads, by the leader epochs that they have reached.

Rules of this file: etcd goes back to its first value while everything runs, or stands.  Nothing of that value is believed any
more (`restored` is there until somebody is elected); a leader goes on until its process notices, and takes a new incarnation.
The other kind of restore, which nobody notices, is in `faults`.

A note says which epoch a log has reached though nobody wrote in it.  It is on the disk, and gone once the log is cut below
where that epoch began.  Only a restore asks for notes, so none is written when none can come.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explorer import Step
from tests.model.replication.rules import Rules
from tests.model.replication.state import BROKERS, NOBODY, Broker, Note, State, Value, name, put, show, spent, who

Steps = Iterator[tuple[Step, State]]
EPOCHS_LEFT_OUT = 1_000
"""An election from the logs leaves out epochs in which somebody may have led, written nothing, and ended."""


def faults(state: State) -> Steps:
    """The metadata goes back to the earlier state: its leader epoch, its ISR."""
    budget = spent(state.budget, "rollbacks")
    if budget is None or state.value == state.backup or state.restored != NOBODY:
        return
    lost = tuple(broker.incarnation for broker in state.brokers)
    step = Step("etcd goes back to epoch {0}, ISR {1}", (state.backup.epoch, show(state.backup.isr)), True)
    yield step, state._replace(budget=budget, value=state.backup, restored=lost)


def noticing(state: State) -> Steps:
    """Each process notices by itself, some time: it leads no more, and registers anew."""
    if state.restored == NOBODY:
        return
    for index, broker in enumerate(state.brokers):
        if broker.process == "up" and not has_noticed(state, index):
            incarnation = broker.incarnation + 1
            after = state.with_broker(index, broker._replace(incarnation=incarnation, leads=None))
            after = after._replace(registered=put(state.registered, index, incarnation))
            after = after._replace(heard=put(state.heard, index, True))
            step = Step("{0} notices that etcd went back: it is {1} now", (who(index), name(index, incarnation)))
            yield step, after._replace(controller=-1 if state.controller == index else state.controller)


def has_noticed(state: State, index: int) -> bool:
    """A process that came after the restore knows nothing of before."""
    return state.brokers[index].incarnation > state.restored[index]


def elect(state: State, rules: Rules) -> Steps:
    """The greatest (epoch reached, log end) of all replicas, once every one of them has noticed the restore."""
    answered = [
        index
        for index in BROKERS
        if state.answers(index, state.controller) and (has_noticed(state, index) or not rules.restore_is_noticed_first)
    ]
    if not answered or (len(answered) < len(BROKERS) and rules.all_are_asked_after_restore):
        return
    ends = {index: (state.brokers[index].reached_epoch, len(state.brokers[index].log)) for index in answered}
    best = [index for index in answered if ends[index] == max(ends.values())]
    isr = tuple(state.registered[index] if index in best else 0 for index in BROKERS)
    told = [max(state.brokers[index].known_epoch, ends[index][0]) for index in answered]
    epoch = max([state.value.epoch, *told]) + EPOCHS_LEFT_OUT
    for winner in best:
        about = (who(state.controller), name(winner, isr[winner]), epoch, show(isr))
        after = state._replace(value=Value(winner, isr[winner], epoch, isr), restored=NOBODY)
        yield Step("controller {0} elects {1} (the greatest log), epoch {2}: ISR {3}", about), forgotten(after)


# --- notes --------------------------------------------------------------------------------------------------------------


def noted(state: State, broker: Broker, epoch: int, start: int, rules: Rules) -> Broker:
    """With a note, if its log holds what the leader of this epoch began with."""
    if not rules.reached_epoch_counts or not _may_be_asked(state):
        return broker
    if len(broker.log) < start or broker.reached_epoch >= epoch:
        return broker
    return broker._replace(note=Note(epoch, start))


def cut(broker: Broker, end: int) -> Broker:
    """Whoever cuts a log below its note forgets the note first."""
    return broker._replace(note=None) if broker.note is not None and broker.note.at_offset > end else broker


def forgotten(state: State) -> State:
    """Notes that nobody will ask for need not be told apart from none."""
    if _may_be_asked(state):
        return state
    brokers = tuple(broker if broker.note is None else broker._replace(note=None) for broker in state.brokers)
    return state._replace(brokers=brokers)


def _may_be_asked(state: State) -> bool:
    return bool(state.budget.rollbacks) or state.restored != NOBODY
