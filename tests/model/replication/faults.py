"""What the adversary may do, within its budget, and what undoes it by itself.

Rules of this file: everything that comes back by itself is progress, not a fault: leases of dead processes run out,
processes are started again, frozen ones go on, cuts heal.  A clean stop is not a step of its own: it is a kill of
which the lease ends at once, and whose log no power cut can shorten.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explorer import Step
from tests.model.replication import rollbacks
from tests.model.replication.leader import tidy
from tests.model.replication.state import BROKERS, NOBODY, Acked, Broker, State, name, put, spent, who

Steps = Iterator[tuple[Step, State]]


def recoveries(state: State) -> Steps:
    """What comes back by itself."""
    for index, broker in enumerate(state.brokers):
        if broker.process in ("down", "gone") and state.registered[index]:
            after = state._replace(registered=put(state.registered, index, 0))
            yield Step("{0}'s lease runs out", (who(index),)), _without_controller(after, index)
        if broker.process == "down":
            yield Step("{0} is started again", (name(index, broker.incarnation + 1),)), _registered(state, index)
        if broker.process == "frozen":
            yield Step("{0} goes on", (who(index),)), state.with_broker(index, broker._replace(process="up"))
    if state.cut >= 0:
        yield Step("{0} is connected again", (who(state.cut),)), state._replace(cut=-1)
    yield from rollbacks.noticing(state)


def _registered(state: State, index: int) -> State:
    """A process registers, started anew or not.  It knows etcd as of then, for who speaks to it must know that too."""
    broker = state.brokers[index]
    incarnation = broker.incarnation + 1
    started = broker._replace(incarnation=incarnation, process="up")
    if broker.process == "down":
        started = started._replace(known_epoch=max(state.value.epoch, broker.reached_epoch))
    after = state.with_broker(index, started)._replace(
        registered=put(state.registered, index, incarnation), heard=put(state.heard, index, True)
    )
    return _without_controller(after, index)


def _without_controller(state: State, index: int) -> State:
    """The key of a controller whose registration has changed is gone with its lease."""
    return state._replace(controller=-1) if state.controller == index else state


# --- faults -------------------------------------------------------------------------------------------------------------


def faults(state: State, fsync: bool) -> Steps:
    """Whatever the budget still allows."""
    if not state.budget.faults:
        return
    for index, broker in enumerate(state.brokers):
        if broker.process == "gone":
            continue
        yield from _stops(state, index, broker)
        yield from _power_cuts(state, index, broker, fsync)
        yield from _volume_losses(state, index, broker)
        if (after := _spend(state, "expiries")) and broker.process == "up":
            step = Step("{0} lives on, but its lease ran out: it is {1} now", (*_names(index, broker),), True)
            yield step, _registered(after, index)
    if (after := _spend(state, "cuts")) and state.cut < 0:
        for index in BROKERS:
            yield Step("{0} is cut off from the other brokers", (who(index),), True), after._replace(cut=index)
    if after := _spend(state, "minimums"):
        yield _minimum_changed(after)
    if after := _spend(state, "restores"):
        yield from _restored(after)
    yield from rollbacks.faults(state)


def _names(index: int, broker: Broker) -> tuple[str, str]:
    return name(index, broker.incarnation), name(index, broker.incarnation + 1)


def _spend(state: State, kind: str) -> State | None:
    budget = spent(state.budget, kind)
    return None if budget is None else state._replace(budget=budget)


def _stops(state: State, index: int, broker: Broker) -> Steps:
    """A kill: the kernel keeps what was written.  A freeze.  A machine that never comes back."""
    if broker.process != "down":
        if after := _spend(state, "kills"):
            yield Step("{0} is killed", (who(index),), True), after.with_broker(index, _stopped(broker))
        if broker.process == "up" and (after := _spend(state, "freezes")):
            yield Step("{0} freezes", (who(index),), True), after.with_broker(index, broker._replace(process="frozen"))
    if after := _spend(state, "goners"):
        gone = _losing(_stopped(broker), 0)._replace(process="gone")
        yield Step("{0} is gone for ever", (who(index),), True), forgiven(after.with_broker(index, gone))


def _stopped(broker: Broker) -> Broker:
    return broker._replace(process="down", leads=None)


def _power_cuts(state: State, index: int, broker: Broker, fsync: bool) -> Steps:
    """Any part of what is not synced is gone.  A machine may lose power when the process is down already."""
    after = _spend(state, "power_cuts")
    if after is None:
        return
    for kept in range(broker.synced, len(broker.log) + 1):
        cut = _stopped(broker)._replace(intact_since=broker.incarnation + 1)
        cut = cut._replace(log=cut.log[:kept]) if fsync else _losing(cut, kept)
        step = Step("{0} loses power, {1} records are left", (who(index), kept), True)
        yield step, forgiven(after.with_broker(index, cut))


def _volume_losses(state: State, index: int, broker: Broker) -> Steps:
    if after := _spend(state, "volumes"):
        incarnation = broker.incarnation + 1
        empty = _losing(_stopped(broker), 0)._replace(synced=0, seal=None, intact_since=incarnation, born=incarnation)
        yield Step("{0} loses its volume", (who(index),), True), forgiven(after.with_broker(index, empty))


def _losing(broker: Broker, kept: int) -> Broker:
    """Without the end of its log, which counts against the promise."""
    lost = frozenset((offset, entry) for offset, entry in enumerate(broker.log) if offset >= kept)
    shorter = broker._replace(log=broker.log[:kept], synced=min(broker.synced, kept), lost=broker.lost | lost)
    return rollbacks.cut(shorter, kept)


def forgiven(state: State) -> State:
    """Nothing is promised of a record that as many replicas have lost as had to have it."""
    acked = frozenset(one for one in state.acked if state.losers(one.offset, one.entry) < one.min_insync)
    return tidy(state._replace(acked=acked))


def _minimum_changed(state: State) -> tuple[Step, State]:
    """The operator's word.  A lower minimum promises less, also of what is there already."""
    minimum = 3 - state.min_insync
    acked = frozenset(Acked(one.offset, one.entry, min(one.min_insync, minimum)) for one in state.acked)
    after = state._replace(min_insync=minimum, acked=acked)
    return Step("the topic's minimum is set to {0}", (minimum,), True), forgiven(after)


def _restored(state: State) -> Steps:
    """All brokers stop, and etcd is restored from a backup made before the last change of leaders, which changed no more.

    Nobody notices that, and what the backup says is believed; `rollbacks` has the kind that is noticed.
    """
    value = state.value
    if value.epoch < 2:
        return
    stopped = tuple(broker if broker.process == "gone" else _stopped(broker) for broker in state.brokers)
    for index, ref in enumerate(value.isr):
        if ref and index != value.leader:
            older = value._replace(leader=index, leader_incarnation=ref, epoch=value.epoch - 1)
            step = Step("all stop, and etcd goes back: {0} led in epoch {1}", (who(index), older.epoch), True)
            yield step, state._replace(value=older, brokers=stopped, registered=NOBODY, controller=-1)
