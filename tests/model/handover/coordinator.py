"""One heartbeat, decided: what `core/groups/membership.py` and `reconcile.py` do, with rules that can be taken out."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.handover.rules import Rules
from tests.model.handover.state import Answer, Given, Member, Parts, Request, State, only, parts

TWICE = "given twice in one epoch"
TAKEN = "a kept partition was taken away"


class Shown(NamedTuple):
    """The epoch that a heartbeat shows, and the assignment that it says was carried out."""

    epoch: int
    applied: int


def joined(state: State, request: Request, rules: Rules) -> State | None:
    """The state with the new membership, or as it was when this is a copy; None = refused."""
    member = state.members[request.member]
    if member.is_there:
        return state
    if member.has_ended and rules.id_is_used_once:
        return None
    none = (0,) * len(state.given)
    return put(state, request.member, Member(is_there=True, assigned=none, revoking=none))._replace(is_due=True)


def is_fenced(member: Member, request: Request, rules: Rules) -> bool:
    """True for an epoch that is not the member's, or of no member."""
    right = (member.epoch, member.previous) if rules.previous_epoch_counts else (member.epoch,)
    return not member.is_there or request.epoch not in right


def beat(state: State, request: Request, shown: Shown, rules: Rules) -> tuple[State, Answer]:
    """The member's next step, and the answer."""
    before = state.members[request.member]
    after = reconciled(before, state.assignment_epoch, shown, free_for(state, request.member), rules)
    state = put(state, request.member, after)
    has_newest = request.epoch > 0 and request.received == after.number
    return state, Answer(after.epoch, after.number, None if has_newest else parts(after.assigned))


def free_for(state: State, number: int) -> Parts:
    """Partitions that no other member has."""
    others = [member.owned() for other, member in enumerate(state.members) if other != number and member.is_there]
    return frozenset(range(len(state.given))).difference(*others)


def reconciled(member: Member, assignment_epoch: int, shown: Shown, free: Parts, rules: Rules) -> Member:
    """The member after its next step."""
    if shown.epoch != member.epoch and rules.only_own_epoch_moves:
        return member
    if any(member.revoking):
        if shown.applied < member.number and rules.silence_releases_nothing:
            return member
        member = member._replace(revoking=only(member.revoking, frozenset()))
    stays = parts(member.assigned) & member.target
    if stays != parts(member.assigned):
        return _revoking(member, stays if rules.keeps_what_stays else frozenset())
    return _completed(member, assignment_epoch, shown, free, rules)


def _revoking(member: Member, kept: Parts) -> Member:
    return member._replace(
        number=member.number + 1,
        assigned=only(member.assigned, kept),
        revoking=only(member.assigned, parts(member.assigned) - kept),
    )


def _completed(member: Member, assignment_epoch: int, shown: Shown, free: Parts, rules: Rules) -> Member:
    missing = member.target - parts(member.assigned)
    new = missing & free if rules.waits_for_release else missing
    assigned = tuple(assignment_epoch if number in new else epoch for number, epoch in enumerate(member.assigned))
    return member._replace(
        epoch=assignment_epoch,
        previous=shown.epoch if member.epoch != assignment_epoch else member.previous,
        number=member.number + 1 if new or member.number == 0 else member.number,
        assigned=assigned,
    )


def ended(state: State, number: int) -> State:
    """The membership ends: all that it had is free, and another assignment is due."""
    none = (0,) * len(state.given)
    return put(state, number, Member(has_ended=True, assigned=none, revoking=none))._replace(is_due=True)


def put(state: State, number: int, member: Member) -> State:
    """Writes the record of a membership, and notes what breaks a promise."""
    before = state.members[number]
    if member == before:
        return state
    fault, given = state.fault, list(state.given)
    if member.is_there and not parts(member.assigned) >= parts(before.assigned) & before.target & member.target:
        fault = TAKEN
    for partition in parts(member.assigned) - parts(before.assigned):
        epoch = member.assigned[partition]
        if epoch <= given[partition].epoch and given[partition].member != number:
            fault = TWICE
        given[partition] = Given(epoch, number)
    members = (*state.members[:number], member, *state.members[number + 1 :])
    return state._replace(members=members, given=tuple(given), fault=fault)
