"""A leader and its followers: what each of them does next by itself.

Rules of this file: a leader acts on what it believes, which may be old; only a follower's refusal, or a failed
compare-and-swap, stops one that was deposed.  So it may go on for any time after it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explorer import Step
from tests.model.replication import rollbacks, seals
from tests.model.replication.elections import eligible_after
from tests.model.replication.rules import Rules
from tests.model.replication.state import (
    BROKERS,
    NOBODY,
    Acked,
    Broker,
    Entry,
    Leadership,
    Log,
    Refs,
    Session,
    State,
    count,
    parts,
    put,
    show,
    spent,
    who,
)

Steps = Iterator[tuple[Step, State]]


def steps(state: State, rules: Rules, fsync: bool) -> Steps:
    """Everything that leaders and followers may do now."""
    yield from _begin(state, rules)
    yield from _following(state, rules, fsync)


def unheard(state: State) -> Steps:
    """A deposed leader whom nobody obeys any more hears of it: before that it can do nothing that makes a difference.

    So when there is one, this is the only step that need be looked at.
    """
    for index, broker in enumerate(state.brokers):
        leads = broker.leads
        if leads is None or leads.epoch >= state.value.epoch or broker.process != "up":
            continue
        others = [other for other in BROKERS if other != index]
        fenced = all(state.brokers[other].known_epoch > leads.epoch for other in others)
        if fenced and any(_is_behind(leads, other) for other in others):
            step = Step("{0} hears that epoch {1} is over", (who(index), leads.epoch))
            yield step, state.with_broker(index, broker._replace(leads=None, known_epoch=state.value.epoch))
            return


def _is_behind(leads: Leadership, other: int) -> bool:
    """Whether the high watermark waits for this member."""
    ref = leads.isr[other] or (leads.proposed[other] if leads.proposed else 0)
    session = leads.sessions[other]
    return bool(ref) and (session is None or session.incarnation != ref or session.end <= leads.high_watermark)


def _following(state: State, rules: Rules, fsync: bool) -> Steps:
    for index in BROKERS:
        broker = state.brokers[index]
        leads = broker.leads
        if broker.process != "up" or leads is None:
            continue
        yield from _append(state, index, broker, leads)
        for follower in BROKERS:
            if follower != index and state.answers(follower, index):
                yield from _replicate(state, index, leads, follower, rules, fsync)
        yield from _advance(state, index, broker, leads, rules, fsync)
        yield from _hear(state, index, broker, leads, rules)
        yield from _change_isr(state, index, leads, rules)


# --- roles --------------------------------------------------------------------------------------------------------------


def _begin(state: State, rules: Rules) -> Steps:
    """Whom etcd names begins to lead, unless its log has seen that epoch."""
    value = state.value
    broker = state.brokers[value.leader]
    if broker.process != "up" or broker.incarnation != value.leader_incarnation or _is_not_believed(state, rules):
        return
    if broker.leads is not None and broker.leads.epoch >= value.epoch:
        return
    if value.epoch < broker.known_epoch or (rules.old_epoch_never_leads and value.epoch <= broker.last_epoch):
        return
    leads = Leadership(broker.incarnation, value.epoch, len(broker.log), value.isr, value.eligible, state.min_insync)
    leading = broker._replace(leads=leads, known_epoch=value.epoch)
    step = Step("{0} begins to lead in epoch {1}", (who(value.leader), value.epoch))
    noted = rollbacks.noted(state, leading, value.epoch, leads.start, rules)
    yield step, state.with_broker(value.leader, noted)
    if noted != leading and (budget := spent(state.budget, "fulls")):
        step = Step("{0} begins to lead in epoch {1}, but its disk is full: it cannot note that", step.about, True)
        yield step, state.with_broker(value.leader, leading)._replace(budget=budget)


def _is_not_believed(state: State, rules: Rules) -> bool:
    """Who looks at etcd sees that it went back, before it sees anything else."""
    return state.restored != NOBODY and rules.restored_value_is_not_believed


def _hear(state: State, index: int, broker: Broker, leads: Leadership, rules: Rules) -> Steps:
    """A leader hears what etcd holds, be it an answer or a watch; or of other options."""
    value = state.value
    if _is_not_believed(state, rules):
        return
    if value.epoch > leads.epoch:
        step = Step("{0} hears that epoch {1} is over", (who(index), leads.epoch))
        yield step, state.with_broker(index, broker._replace(leads=None, known_epoch=value.epoch))
        return
    if value.epoch == leads.epoch:
        sessions = tuple(
            None if _was_taken_out(leads, value.isr, other) else leads.sessions[other] for other in BROKERS
        )
        heard = leads._replace(isr=value.isr, eligible=value.eligible, proposed=None, sessions=sessions)
        if heard != leads:
            about = (who(index), show(value.isr), show(value.eligible))
            yield Step("{0} hears of ISR {1} and eligible {2}", about), _leading(state, index, heard)
    up_to_date = (leads.epoch, leads.isr, leads.eligible) == (value.epoch, value.isr, value.eligible)
    if leads.min_insync != state.min_insync and (up_to_date or not rules.minimum_is_heard_in_order):
        step = Step("{0} hears of a minimum of {1}", (who(index), state.min_insync))
        yield step, _leading(state, index, leads._replace(min_insync=state.min_insync))


def _was_taken_out(leads: Leadership, isr: Refs, other: int) -> bool:
    """Whether somebody else took a member out: it needs a new session to come back."""
    ours = leads.isr if leads.proposed is None else leads.proposed
    return bool(leads.isr[other] and ours[other]) and not isr[other]


def _leading(state: State, index: int, leads: Leadership) -> State:
    return state.with_broker(index, state.brokers[index]._replace(leads=leads))


# --- records ------------------------------------------------------------------------------------------------------------


def _append(state: State, index: int, broker: Broker, leads: Leadership) -> Steps:
    if not state.appends_left:
        return
    entry = Entry(leads.epoch, 10 - state.appends_left)
    step = Step("{0} appends {1} in epoch {2}", (who(index), entry.value, leads.epoch))
    after = state.with_broker(index, broker._replace(log=(*broker.log, entry)))
    yield step, after._replace(appends_left=state.appends_left - 1)


def _replicate(state: State, index: int, leads: Leadership, to: int, rules: Rules, fsync: bool) -> Steps:
    """A session begins (the follower's log is cut to where last epochs agree), or takes the next record."""
    follower = state.brokers[to]
    if follower.known_epoch > leads.epoch and rules.old_epochs_are_fenced:
        return
    if follower.known_epoch == leads.epoch and follower.leads is not None and follower.leads.epoch == leads.epoch:
        return
    log = state.brokers[index].log
    session = leads.sessions[to]
    if session is None or session.incarnation != follower.incarnation or follower.log != log[: session.end]:
        kept = agreed(log, follower.log)
        end = kept
        if session is not None and not rules.old_acks_do_not_count:
            end = max(end, session.end)
        text = "{0} takes {1} as its leader"
        after = follower._replace(log=follower.log[:kept], synced=min(follower.synced, kept), leads=None)
        after = rollbacks.cut(after, kept)
    elif session.end < len(log):
        end = session.end + 1
        text = "{0} gets the next record from {1}"
        after = follower._replace(log=log[:end])
    else:
        return
    if fsync and rules.only_synced_counts:
        after = after._replace(synced=len(after.log))
    after = after._replace(known_epoch=max(leads.epoch, follower.known_epoch))
    if rules.followers_note_epochs:
        after = rollbacks.noted(state, after, leads.epoch, leads.start, rules)
    sessions = put(leads.sessions, to, Session(follower.incarnation, end))
    changed = _leading(state.with_broker(to, after), index, leads._replace(sessions=sessions))
    yield Step(text, (who(to), who(index))), tidy(changed)


def agreed(leader: Log, follower: Log) -> int:
    """Where the logs begin to differ, as far as their epochs tell."""
    end = 0
    for ours, theirs in zip(leader, follower, strict=False):
        if ours.epoch != theirs.epoch:
            break
        end += 1
    return end


def tidy(state: State) -> State:
    """Forgets of lost records those that are back, and those that nobody can ever see again."""
    if not any(broker.lost for broker in state.brokers):
        return state
    somewhere = {found for broker in state.brokers for found in enumerate(broker.log)}
    somewhere |= {(acked.offset, acked.entry) for acked in state.acked}
    brokers = tuple(
        broker._replace(lost=(broker.lost & somewhere) - set(enumerate(broker.log))) if broker.lost else broker
        for broker in state.brokers
    )
    return state._replace(brokers=brokers)


# --- the high watermark -------------------------------------------------------------------------------------------------


def _advance(state: State, index: int, broker: Broker, leads: Leadership, rules: Rules, fsync: bool) -> Steps:
    """The high watermark moves: what is below is acknowledged, and read."""
    if rules.watermark_needs_min_isr and count(leads.isr) < leads.min_insync:
        return
    if rules.watermark_needs_no_eligible and leads.eligible != NOBODY:
        return
    if rules.seal_is_broken_first and seals.is_sealed(broker, leads):
        return
    if rules.small_proposal_stops_watermark and leads.proposed and count(leads.proposed) < leads.min_insync:
        return
    end = min(_end_of(index, broker, leads, other) for other in BROKERS if _counts(leads, other, rules))
    if end <= leads.high_watermark or (rules.old_epochs_commit_at_once and end < leads.start):
        return
    synced = max(broker.synced, end) if fsync and rules.only_synced_counts else broker.synced
    after = broker._replace(synced=synced, leads=leads._replace(high_watermark=end))
    promised = state.acked | {
        Acked(offset, entry, leads.min_insync)
        for offset, entry in enumerate(broker.log[:end])
        if state.losers(offset, entry) < leads.min_insync
        and not any(acked.offset == offset and acked.entry == entry for acked in state.acked)
    }
    step = Step("{0} moves its high watermark to {1}: what is below is acknowledged", (who(index), end))
    yield step, state.with_broker(index, after)._replace(acked=promised)


def _counts(leads: Leadership, other: int, rules: Rules) -> bool:
    if leads.proposed is None:
        return bool(leads.isr[other])
    if not rules.watermark_waits_for_maximal_isr:
        return bool(leads.proposed[other])
    return bool(leads.isr[other] or leads.proposed[other])


def _end_of(index: int, broker: Broker, leads: Leadership, other: int) -> int:
    """How far a member's log counts: its acknowledgement must be of the incarnation that the ISR names."""
    if other == index:
        return len(broker.log)
    session = leads.sessions[other]
    named = {leads.isr[other], leads.proposed[other] if leads.proposed else 0}
    return session.end if session is not None and session.incarnation in named else -1


# --- the ISR ------------------------------------------------------------------------------------------------------------


def _change_isr(state: State, index: int, leads: Leadership, rules: Rules) -> Steps:
    """A compare-and-swap of the ISR, whose answer comes later: `_hear`.  It fails, unseen, if the leader's belief is old."""
    value = state.value
    believed, now = (leads.epoch, leads.isr, leads.eligible), (value.epoch, value.isr, value.eligible)
    if leads.proposed is not None or believed != now or _is_not_believed(state, rules):
        return
    for wanted, text in _wanted(state, index, leads, rules):
        eligible = eligible_after(value.isr, value.eligible, wanted, leads.min_insync, rules)
        if (wanted, eligible) == (value.isr, value.eligible):
            continue
        step = Step(text + ": ISR {1}, eligible {2}", (who(index), show(wanted), show(eligible)))
        written = state._replace(value=value._replace(isr=wanted, eligible=eligible))
        yield step, _leading(written, index, leads._replace(proposed=wanted))
        losing = spent(state.budget, "losses")
        if losing is not None:
            step = Step(text + ", and etcd never gets to hear of it: ISR {1}", (who(index), show(wanted)), True)
            yield step, _leading(state._replace(budget=losing), index, leads._replace(proposed=wanted))


def _wanted(state: State, index: int, leads: Leadership, rules: Rules) -> Iterator[tuple[Refs, str]]:
    followers = [other for other in BROKERS if other != index]
    silent = [other for other in followers if leads.isr[other] and _is_silent(state, index, leads, other)]
    for some in parts(silent):
        yield tuple(0 if other in some else ref for other, ref in enumerate(leads.isr)), "{0} drops who is silent"
    needed = max(leads.high_watermark, leads.start) if rules.joins_at_epoch_start else leads.high_watermark
    for other in followers:
        session = leads.sessions[other]
        if session is None or leads.isr[other] or state.registered[other] != session.incarnation:
            continue
        if session.end >= needed:
            yield put(leads.isr, other, session.incarnation), "{0} takes in who has caught up"
    if rules.leader_clears_eligible and leads.eligible != NOBODY and count(leads.isr) >= leads.min_insync:
        yield leads.isr, "{0} needs nobody eligible any more"


def _is_silent(state: State, index: int, leads: Leadership, other: int) -> bool:
    return not state.answers(other, index) or state.registered[other] != leads.isr[other]
