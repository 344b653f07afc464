"""Which states behave alike, so that only one of them need be visited.

Rules of this file: nothing in the model depends on the names of brokers, so two states which differ by them alone are
alike.  Incarnations are only asked whether they are equal, and what their log is worth now; epochs only which is
greater.  So the key says these things and no numbers.  What is synced only matters while a power cut may come.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tests.model.replication import rollbacks
from tests.model.replication.state import BROKERS, NOBODY, Broker, Leadership, State


def key(state: State) -> Hashable:
    """Equal for states that behave alike."""
    epochs = _ranks(state)
    codes = [_codes(state, index) for index in BROKERS]
    seen = [_seen_alone(state, index, epochs, codes[index]) for index in BROKERS]
    order = sorted(BROKERS, key=lambda index: seen[index])
    place = [0, 0, 0]
    for position, index in enumerate(order):
        place[index] = position

    def refs(of: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([codes[index][of[index]] for index in order])

    leads = tuple([_leading(state.brokers[index].leads, refs, codes, order, epochs) for index in order])
    cut = state.cut
    controller = state.controller
    return (
        tuple([seen[index] for index in order]),
        leads,
        place[controller] if controller >= 0 else -1,
        place[cut] if cut >= 0 else -1,
        state.restored != NOBODY,
        (state.min_insync, state.controller_min, state.appends_left, state.overthrown, epochs[state.value.epoch]),
        state.budget,
        frozenset([(acked.offset, acked.entry.value, acked.min_insync) for acked in state.acked]),
    )


def _ranks(state: State) -> dict[int, int]:
    epochs = {state.value.epoch}
    if state.budget.rollbacks:
        epochs.add(state.backup.epoch)
    for broker in state.brokers:
        epochs.add(broker.known_epoch)
        if broker.leads is not None:
            epochs.add(broker.leads.epoch)
        for entry in broker.log:
            epochs.add(entry.epoch)
        if broker.seal is not None:
            epochs.add(broker.seal.epoch)
        if broker.note is not None:
            epochs.add(broker.note.epoch)
        for _, entry in broker.lost:
            epochs.add(entry.epoch)
    for acked in state.acked:
        epochs.add(acked.entry.epoch)
    return {epoch: rank for rank, epoch in enumerate(sorted(epochs))}


def _codes(state: State, index: int) -> dict[int, int]:
    """For each incarnation of a broker that is named anywhere: which of them it is, and what the log is worth to it."""
    broker = state.brokers[index]
    value = state.value
    named = {broker.incarnation, state.registered[index], value.isr[index], value.eligible[index]}
    if value.leader == index:
        named.add(value.leader_incarnation)
    if state.budget.rollbacks:
        named.add(state.backup.isr[index] or state.backup.eligible[index])
    if broker.leads is not None:
        named.add(broker.leads.incarnation)
    for other in state.brokers:
        leads = other.leads
        if leads is not None:
            named.add(leads.isr[index])
            named.add(leads.eligible[index])
            if leads.proposed is not None:
                named.add(leads.proposed[index])
            session = leads.sessions[index]
            if session is not None:
                named.add(session.incarnation)
    named.discard(0)
    codes = {0: 0}
    for rank, ref in enumerate(sorted(named, reverse=True)):
        codes[ref] = 1 + 3 * rank + (ref >= broker.born) + (ref >= broker.intact_since)
    return codes


def _seen_alone(state: State, index: int, epochs: dict[int, int], codes: dict[int, int]) -> tuple[Any, ...]:
    """All that can be said of a broker without naming another one; it is sorted by."""
    broker: Broker = state.brokers[index]
    value = state.value
    leads = broker.leads
    return (
        value.leader_incarnation and codes.get(value.leader_incarnation, -1) if value.leader == index else -2,
        codes[value.isr[index]],
        codes[value.eligible[index]],
        codes[state.registered[index]],
        codes[broker.incarnation],
        state.heard[index],
        broker.process,
        index == state.controller,
        index == state.cut,
        epochs[leads.epoch] if leads is not None else -1,
        epochs[broker.known_epoch] if broker.process != "down" else -1,
        broker.synced if state.budget.power_cuts else 0,
        _sealed(state, broker, epochs, codes),
        state.restored != NOBODY and rollbacks.has_noticed(state, index),
        () if broker.note is None else (epochs[broker.note.epoch], broker.note.at_offset),
        tuple([(epochs[entry.epoch], entry.value) for entry in broker.log]),
        tuple(sorted([(offset, entry.value) for offset, entry in broker.lost])) if broker.lost else (),
    )


def _sealed(state: State, broker: Broker, epochs: dict[int, int], codes: dict[int, int]) -> tuple[int, ...]:
    """A seal of an incarnation that is named nowhere proves nothing; nor does one of a log that is and stays intact."""
    seal, leads = broker.seal, broker.leads
    if seal is None or seal.incarnation not in codes:
        return ()
    stays_intact = seal.incarnation >= broker.intact_since and not state.budget.power_cuts
    if stays_intact and (leads is None or leads.epoch != seal.epoch):
        return ()
    return (codes[seal.incarnation], epochs[seal.epoch], seal.end)


def _leading(
    leads: Leadership | None,
    refs: Callable[[tuple[int, ...]], tuple[int, ...]],
    codes: list[dict[int, int]],
    order: list[int],
    epochs: dict[int, int],
) -> Hashable:
    if leads is None:
        return None
    sessions = []
    for index in order:
        session = leads.sessions[index]
        sessions.append(None if session is None else (codes[index][session.incarnation], session.end))
    return (
        epochs[leads.epoch],
        leads.start,
        leads.high_watermark,
        leads.min_insync,
        refs(leads.isr),
        refs(leads.eligible),
        None if leads.proposed is None else refs(leads.proposed),
        tuple(sessions),
    )
