"""The controller: who may take the role, and whom it elects.

Rules of this file: a controller knows what etcd holds and who has answered it, and nothing else.  What it does not
know yet, or hears too late, is a choice: any part of those whom it might have heard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tests.model.explorer import Step
from tests.model.replication import rollbacks, seals
from tests.model.replication.rules import Rules
from tests.model.replication.state import BROKERS, NOBODY, Broker, Refs, State, Value, count, name, parts, show, who

Steps = Iterator[tuple[Step, State]]
Soundness = Literal["INTACT", "UNCLEAN", "LOST"]


def steps(state: State, rules: Rules) -> Steps:
    """Everything that controllers may do now."""
    yield from _take_over(state, rules)
    controller = state.controller
    if controller < 0 or state.brokers[controller].process != "up":
        return
    if state.restored != NOBODY and rules.restored_value_is_not_believed:
        yield from rollbacks.elect(state, rules)
        return
    if state.controller_min != state.min_insync:
        step = Step("the controller hears of a minimum of {0}", (state.min_insync,))
        yield step, state._replace(controller_min=state.min_insync)
    if rules.config_is_compared and state.controller_min != state.min_insync:
        return
    if _leader_is_gone(state, rules):
        yield from _elect(state, rules)
    else:
        yield from _drop_members(state, rules)


# --- pure decisions -----------------------------------------------------------------------------------------------------


def eligible_after(isr: Refs, eligible: Refs, after: Refs, min_insync: int, rules: Rules) -> Refs:
    """Who is eligible beside a new ISR: below the minimum everybody who was in the ISR when it fell."""
    if not rules.eligible_is_kept or (rules.eligible_is_cleared and count(after) >= min_insync):
        return NOBODY
    return tuple(0 if now else was or kept for was, kept, now in zip(isr, eligible, after, strict=True))


def soundness(ref: int, epoch: int, broker: Broker, rules: Rules) -> Soundness:
    """What a broker's answer says of the log that it held in the incarnation which ISR or eligible set of an epoch names."""
    if rules.seal_counts_as_intact and seals.proves(broker, ref, epoch, rules):
        return "INTACT"
    if ref >= broker.intact_since:
        return "INTACT"
    if ref < broker.born:
        return "LOST" if rules.empty_disk_is_noticed else "INTACT"
    return "UNCLEAN" if rules.power_cut_is_noticed else "INTACT"


# --- the role -----------------------------------------------------------------------------------------------------------


def _take_over(state: State, rules: Rules) -> Steps:
    for index in BROKERS:
        if index == state.controller or not state.answers(index, index):
            continue
        if state.controller >= 0:
            if state.answers(state.controller, index) or not _may_declare_dead(state, index, rules):
                continue
        lives = tuple(
            state.registered[other] == broker.incarnation and broker.process in ("up", "frozen")
            for other, broker in enumerate(state.brokers)
        )
        step = Step("{0} becomes the controller", (who(index),))
        yield step, state._replace(controller=index, heard=lives, controller_min=state.min_insync)


def _may_declare_dead(state: State, index: int, rules: Rules) -> bool:
    """Whether this broker reaches a majority of those that are registered."""
    if not rules.majority_declares_dead:
        return True
    reached = sum(state.answers(other, index) for other in BROKERS)
    return 2 * reached > count(state.registered)


def is_dead(state: State, index: int, rules: Rules) -> bool:
    """Whether the controller holds a registered broker for dead: it does not answer."""
    if state.answers(index, state.controller):
        return False
    return _may_declare_dead(state, state.controller, rules)


# --- elections ----------------------------------------------------------------------------------------------------------


def _leader_is_gone(state: State, rules: Rules) -> bool:
    value = state.value
    if state.registered[value.leader] != value.leader_incarnation:
        return True
    if rules.refusals_are_told and state.answers(value.leader, state.controller):
        leader = state.brokers[value.leader]
        if value.epoch < leader.known_epoch or (value.epoch <= leader.last_epoch and leader.leads is None):
            return True
    return is_dead(state, value.leader, rules)


def _drop_members(state: State, rules: Rules) -> Steps:
    """Dead members leave the ISR of a leader that lives."""
    value = state.value
    dead = [
        index
        for index in BROKERS
        if index != value.leader
        and value.isr[index]
        and (state.registered[index] != value.isr[index] or is_dead(state, index, rules))
    ]
    for some in parts(dead):
        isr = tuple(0 if index in some else ref for index, ref in enumerate(value.isr))
        eligible = eligible_after(value.isr, value.eligible, isr, state.controller_min, rules)
        step = Step("the controller drops the dead: ISR {0}, eligible {1}", (show(isr), show(eligible)))
        yield step, state._replace(value=value._replace(isr=isr, eligible=eligible))


def _elect(state: State, rules: Rules) -> Steps:
    sound = candidates(state, rules)
    if _still_registered(state) and not state.answers(state.value.leader, state.controller):
        sound.pop(state.value.leader, None)  # it is held for dead
    for some in parts([index for index, (_, heard) in sound.items() if heard]):
        for leader in some:
            members = [*some, *(index for index, (_, heard) in sound.items() if not heard and not rules.isr_only_heard)]
            isr = tuple(sound[index][0] if index in members else 0 for index in BROKERS)
            yield _elected(state, leader, isr, rules, "sound")
    if not sound:
        yield from _elect_unclean(state, rules)


def candidates(state: State, rules: Rules) -> dict[int, tuple[int, bool]]:
    """The members of ISR and eligible set which are sound, by broker: (incarnation, whether it may be elected)."""
    found: dict[int, tuple[int, bool]] = {}
    epoch = state.value.epoch
    for index, ref in enumerate(members(state.value)):
        registered = state.registered[index]
        if not ref or not registered:
            continue
        if registered == ref:
            heard = state.heard[index] or not rules.elects_only_heard
            if heard or not rules.isr_only_heard:
                found[index] = (ref, heard)
        elif state.answers(index, state.controller):
            if soundness(ref, epoch, state.brokers[index], rules) == "INTACT":
                found[index] = (registered, True)
    return found


def members(value: Value) -> Refs:
    """ISR and eligible set."""
    return tuple(member or eligible for member, eligible in zip(value.isr, value.eligible, strict=True))


def _still_registered(state: State) -> bool:
    """The old leader is registered as it was, so it is held for dead because it is silent."""
    return state.registered[state.value.leader] == state.value.leader_incarnation


def _elect_unclean(state: State, rules: Rules) -> Steps:
    """Nobody is sound: the greatest of the unclean logs, once everybody has answered."""
    refs, epoch = members(state.value), state.value.epoch
    asked = [index for index in BROKERS if refs[index]]
    answered = [
        index for index in asked if state.answers(index, state.controller) and state.registered[index] != refs[index]
    ]
    if answered != asked and rules.waits_for_all:
        return
    unclean = [index for index in answered if soundness(refs[index], epoch, state.brokers[index], rules) == "UNCLEAN"]
    if not unclean:
        return
    ends = {index: (state.brokers[index].last_epoch, len(state.brokers[index].log)) for index in unclean}
    best = [index for index in unclean if ends[index] == max(ends.values())]
    for winner in best if rules.longest_unclean_wins else unclean:
        isr = tuple(state.registered[index] if index == winner else 0 for index in BROKERS)
        yield _elected(state, winner, isr, rules, "unclean")


def _elected(state: State, leader: int, isr: Refs, rules: Rules, how: str) -> tuple[Step, State]:
    value = state.value
    epoch = max([value.epoch, *(_told_epochs(state) if rules.epoch_above_told else [])]) + 1
    eligible = eligible_after(value.isr, value.eligible, isr, state.controller_min, rules)
    about = (who(state.controller), name(leader, isr[leader]), how, epoch, show(isr), show(eligible))
    step = Step("controller {0} elects {1} ({2}), epoch {3}: ISR {4}, eligible {5}", about)
    changed = state._replace(value=Value(leader, isr[leader], epoch, isr, eligible), restored=NOBODY)
    after = rollbacks.forgotten(seals.forgotten(changed, rules))
    return step, after._replace(overthrown=state.overthrown or (_still_registered(state) and _leader_is_well(state)))


def _told_epochs(state: State) -> list[int]:
    """The newest epoch that each broker knows which answers, from etcd, a leader or its log."""
    answering = [state.brokers[index] for index in BROKERS if state.answers(index, state.controller)]
    return [max(broker.known_epoch, broker.last_epoch) for broker in answering]


def _leader_is_well(state: State) -> bool:
    """Whether the present leader leads, and reaches a majority of the brokers that are up."""
    index = state.value.leader
    leads = state.brokers[index].leads
    if leads is None or leads.epoch != state.value.epoch or not state.answers(index, index):
        return False
    reached = sum(state.answers(other, index) for other in BROKERS)
    return 2 * reached > sum(state.answers(other, other) for other in BROKERS)
