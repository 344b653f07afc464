"""`core/groups/reconcile.py` takes the same next step as this model, for every member and heartbeat in every state of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.types import PartitionId
from oncelog_coordinator.core.groups import reconcile
from oncelog_coordinator.core.groups.group_records import MemberRecord
from oncelog_coordinator.core.groups.states import MemberState
from tests.model.explorer import Broken, explore
from tests.model.handover.coordinator import Shown, free_for, is_fenced, reconciled
from tests.model.handover.protocol import HandOver
from tests.model.handover.rules import ALL_RULES
from tests.model.handover.scenarios import COPIES, MOVES, SCENARIOS, Scenario
from tests.model.handover.state import Epochs, Member, Parts, Request, State, parts

DIFFERS = "differs"
_TOPIC = "a" * 32


class Compared(HandOver):
    """The same model, which reports what production decides otherwise."""

    def broken(self, state: State) -> Iterator[Broken]:
        for number, member in enumerate(state.members):
            for shown in self._shown(state, number, member):
                free = free_for(state, number)
                expected = reconciled(member, state.assignment_epoch, shown, free, self.rules)
                found = decided(member, state.assignment_epoch, shown, free)
                if found != expected:
                    yield Broken(DIFFERS, f"{member} with {shown}: {found}, the model {expected}")

    def _shown(self, state: State, number: int, member: Member) -> Iterator[Shown]:
        client = state.clients[number]
        own = Request(number, client.epoch, client.received, client.applied)
        late = sorted(request for request in state.late if request.member == number)
        for request in (own, *late):
            if request.epoch and not is_fenced(member, request, self.rules):
                yield Shown(request.epoch, request.applied)
        if member.is_there:
            yield Shown(0, 0)

    def broken_at_rest(self, state: State) -> Iterator[Broken]:
        yield from ()


def decided(member: Member, assignment_epoch: int, shown: Shown, free: Parts) -> Member:
    """What production makes of it."""
    record = MemberRecord(
        "g",
        "m",
        1,
        state=_state_of(member),
        epoch=member.epoch,
        previous_epoch=member.previous,
        number=member.number,
        assigned=_by_partition(member.assigned),
        revoking=_by_partition(member.revoking),
        target=frozenset(PartitionId(_TOPIC, partition) for partition in member.target),
    )
    is_free = {PartitionId(_TOPIC, partition) for partition in free}.__contains__
    after = reconcile.reconciled(record, assignment_epoch, reconcile.Shown(shown.epoch, shown.applied), is_free)
    count = len(member.assigned)
    return member._replace(
        epoch=after.epoch,
        previous=after.previous_epoch,
        number=after.number,
        assigned=tuple(after.assigned.get(PartitionId(_TOPIC, n), 0) for n in range(count)),
        revoking=tuple(after.revoking.get(PartitionId(_TOPIC, n), 0) for n in range(count)),
    )


def _state_of(member: Member) -> MemberState:
    if any(member.revoking):
        return MemberState.UNREVOKED
    return MemberState.STABLE if parts(member.assigned) == member.target else MemberState.UNRELEASED


def _by_partition(epochs: Epochs) -> dict[PartitionId, int]:
    return {PartitionId(_TOPIC, number): epoch for number, epoch in enumerate(epochs) if epoch}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_production_takes_the_same_step(scenario: Scenario) -> None:
    found = explore(Compared(scenario))
    assert not found.violations, "\n\n".join(map(str, found.violations.values()))
    assert found.complete


@pytest.mark.parametrize(
    "rule", ["waits_for_release", "silence_releases_nothing", "keeps_what_stays", "only_own_epoch_moves"]
)
def test_another_rule_would_be_seen(rule: str) -> None:
    scenario = COPIES if rule == "only_own_epoch_moves" else MOVES
    found = explore(Compared(scenario, ALL_RULES.without(rule)), until=frozenset({DIFFERS}))
    assert DIFFERS in found.violations
