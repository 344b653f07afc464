"""What must hold: the kinds of violation.

The promise.  A record that was below a high watermark (so acknowledged with acks=all, or read) while the minimum was m
is in the log of whoever leads, as long as at no time m replicas have lost it by faults and not got it back.  A power cut
is such a fault in `replicated` mode, where it takes what is not synced, and none in `fsync` mode; the loss of a volume
always is.  Kills, freezes, cuts, lost leases, full disks, etcd's lost answers and a restore of etcd that is noticed never are.

- **lost**: the leader of the newest epoch leads without such a record.
- **given twice**: two records were promised for one offset, or stand in two logs at one offset and epoch.
- **leaderless**: at rest nobody leads without an operator, though there is such a record, or somebody is unused.
- **unused**: at rest nobody leads, though an intact member of ISR or eligible set is up (or one that has sealed its log), or
  all of them are up and one is not empty.
- **no writes**: at rest enough brokers are up, and not everything is committed.
- **overthrown**: a leader that reaches a majority was deposed because somebody else could not reach it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explorer import Broken
from tests.model.replication.elections import members, soundness
from tests.model.replication.rules import ALL_RULES
from tests.model.replication.state import BROKERS, NOBODY, Broker, State, count, name

LOST = "lost"
GIVEN_TWICE = "given twice"
LEADERLESS = "leaderless"
UNUSED = "unused"
NO_WRITES = "no writes"
OVERTHROWN = "overthrown"


def broken(state: State) -> Iterator[Broken]:
    """Every promise that is broken in this state."""
    yield from _lost(state)
    yield from _given_twice(state)
    if state.overthrown:
        yield Broken(OVERTHROWN, "a leader in good health, which reaches a majority, was deposed")


def broken_at_rest(state: State) -> Iterator[Broken]:
    """What must hold besides when nothing more will happen by itself."""
    leader = acting_leader(state)
    if leader is None:
        if state.acked:
            yield Broken(LEADERLESS, "nobody leads, though what is promised is not lost")
        if _could_lead(state):
            why = "nobody leads, though somebody could without losing anything"
            yield Broken(UNUSED, why)
            yield Broken(LEADERLESS, why)
        return
    up = sum(broker.process == "up" for broker in state.brokers)
    leads = leader.leads
    assert leads is not None
    if up < state.min_insync:
        return
    if leads.high_watermark < len(leader.log) or count(leads.isr) < up or leads.eligible != NOBODY:
        yield Broken(NO_WRITES, f"{up} brokers are up, and the high watermark stands at {leads.high_watermark}")


def acting_leader(state: State) -> Broker | None:
    """Who leads in the newest epoch, and knows it."""
    broker = state.brokers[state.value.leader]
    if broker.process in ("up", "frozen") and broker.leads is not None and broker.leads.epoch == state.value.epoch:
        return broker
    return None


def _lost(state: State) -> Iterator[Broken]:
    leader = acting_leader(state)
    if leader is None:
        return
    for acked in state.acked:
        if not state.holds(acked, state.value.leader):
            losers = state.losers(acked.offset, acked.entry)
            who = name(state.value.leader, leader.incarnation)
            yield Broken(
                LOST,
                f"{who} leads without record {acked.entry.value} at offset {acked.offset}, acknowledged with a minimum of "
                f"{acked.min_insync}; {losers} replicas have lost it",
            )


def _given_twice(state: State) -> Iterator[Broken]:
    if len({acked.offset for acked in state.acked}) < len(state.acked):
        yield Broken(GIVEN_TWICE, "two records were promised for one offset")
    logs = [broker.log for broker in state.brokers]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        for offset, (ours, theirs) in enumerate(zip(logs[one], logs[other], strict=False)):
            if ours.epoch == theirs.epoch and ours != theirs:
                yield Broken(GIVEN_TWICE, f"offset {offset} was given twice in epoch {ours.epoch}")


def _could_lead(state: State) -> bool:
    """Whether an intact member of ISR or eligible set is up; or all of them are, and one has something."""
    refs = members(state.value)
    asked = [index for index in BROKERS if refs[index]]
    answers = {
        index: soundness(refs[index], state.value.epoch, state.brokers[index], ALL_RULES)
        for index in asked
        if state.brokers[index].process == "up"
    }
    return "INTACT" in answers.values() or (len(answers) == len(asked) and "UNCLEAN" in answers.values())
