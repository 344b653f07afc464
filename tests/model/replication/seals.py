"""A leader whose ISR is below the minimum seals its log, so that it can lead alone after a power cut, too.

Rules of this file: sealing is one step.  What happens between the sync and the durable file (crashes, further records) comes
to the same as the step before or after it, since nothing is committed meanwhile; and so it is with the removal.  Whoever may
seal need not do so soon, or at all.  Only a power cut asks for a seal, so none is written when no power cut can come.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explorer import Step
from tests.model.replication.rules import Rules
from tests.model.replication.state import NOBODY, Broker, Leadership, Seal, State, count, who

Steps = Iterator[tuple[Step, State]]


def is_sealed(broker: Broker, leads: Leadership) -> bool:
    """Whether a leader's disk says that it commits nothing."""
    return broker.seal is not None and broker.seal.epoch == leads.epoch


def proves(broker: Broker, ref: int, epoch: int, rules: Rules) -> bool:
    """Whether its seal says that a broker holds all that was committed, if etcd names this incarnation and epoch."""
    seal = broker.seal
    if seal is None or seal.incarnation != ref:
        return False
    if rules.seal_tells_its_end and len(broker.log) < seal.end:
        return False
    return seal.epoch == epoch or not rules.seal_is_of_one_epoch


def forgotten(state: State, rules: Rules) -> State:
    """Seals of older epochs prove nothing any more, so they need not be told apart from none."""
    if not rules.seal_is_of_one_epoch:
        return state
    brokers = tuple(broker if broker.seal is None else broker._replace(seal=None) for broker in state.brokers)
    return state._replace(brokers=brokers)


def steps(state: State, rules: Rules) -> Steps:
    """What leaders may do with their seals now."""
    for index, broker in enumerate(state.brokers):
        if broker.process == "up" and broker.leads is not None:
            yield from _of_leader(state, index, broker, broker.leads, rules)


def _of_leader(state: State, index: int, broker: Broker, leads: Leadership, rules: Rules) -> Steps:
    """A leader seals below the minimum, by what it believes; and removes the seal when it could commit again."""
    enough = count(leads.isr) >= leads.min_insync
    if is_sealed(broker, leads):
        if enough and leads.eligible == NOBODY:
            step = Step("{0} removes its seal of epoch {1}", (who(index), leads.epoch))
            yield step, state.with_broker(index, broker._replace(seal=None))
    elif not enough and state.budget.power_cuts and _is_of_use(state, leads, rules):
        synced = len(broker.log) if rules.sealed_is_synced else broker.synced
        sealed = broker._replace(synced=synced, seal=Seal(leads.incarnation, leads.epoch, len(broker.log)))
        step = Step("{0} syncs its log and seals it in epoch {1} up to {2}", (who(index), leads.epoch, len(broker.log)))
        yield step, state.with_broker(index, sealed)


def _is_of_use(state: State, leads: Leadership, rules: Rules) -> bool:
    return leads.epoch == state.value.epoch or not rules.seal_is_of_one_epoch
