"""How a member comes from what it owns to its target: it lets go first, and gets only what is free.

Rule 1: a partition is free when no membership has it among `assigned` or `revoking`. Nothing else makes it free: so it is
        handed over only after its old owner has said that it let go, or after that membership has ended.
Rule 2: a partition that is in the target and owned stays assigned through every step: the member never stops reading it.
Rule 3: a member comes into the epoch of an assignment only when it has let go what that assignment takes from it. Until then
        it commits under its old epoch.
Rule 4: only a heartbeat that shows the member's own epoch moves it, or its new join. A late copy shows an older one: if it
        moved the member on, the epoch that the member knows would be neither the newest nor the one before, and be fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from oncelog.types import PartitionId
from oncelog_coordinator.core.groups.group_records import MemberRecord
from oncelog_coordinator.core.groups.states import MemberState

IsFree = Callable[[PartitionId], bool]


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of a heartbeat that moves a member: the newest epoch that it knows (of a new membership, the one that it
    begins with), and the assignment that it has carried out.
    """

    epoch: int = 0
    applied: int = 0


def reconciled(member: MemberRecord, assignment_epoch: int, shown: Shown, is_free: IsFree) -> MemberRecord:
    """Returns the member after its next step.

    `is_free(partition)` is asked about partitions that the member does not own.
    """
    if member.is_away:  # its process reads nothing, so there is nothing to let go
        return replace(member, assigned={p: epoch for p, epoch in member.assigned.items() if p in member.target})
    if shown.epoch != member.epoch:
        return member
    if member.state is MemberState.UNREVOKED:
        if shown.applied < member.number:
            return member
        member = replace(member, revoking={})
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition in member.target}
    if len(kept) < len(member.assigned):
        revoking = {partition: epoch for partition, epoch in member.assigned.items() if partition not in kept}
        return replace(member, state=MemberState.UNREVOKED, number=member.number + 1, assigned=kept, revoking=revoking)
    return _completed(member, assignment_epoch, shown, is_free)


def _completed(member: MemberRecord, assignment_epoch: int, shown: Shown, is_free: IsFree) -> MemberRecord:
    """Takes what is free of the target, and comes into the epoch of the assignment."""
    missing = [partition for partition in sorted(member.target) if partition not in member.assigned]
    new = {partition: assignment_epoch for partition in missing if is_free(partition)}
    return replace(
        member,
        state=MemberState.STABLE if len(new) == len(missing) else MemberState.UNRELEASED,
        epoch=assignment_epoch,
        previous_epoch=shown.epoch if member.epoch != assignment_epoch else member.previous_epoch,
        number=member.number + 1 if new or member.number == 0 else member.number,
        assigned={**member.assigned, **new} if new else member.assigned,
    )
