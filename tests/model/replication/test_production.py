"""The controller's own functions decide as this model does, in every state of the model in which a controller decides.

Its knowledge is taken as the fullest that it can have: it has heard of every death that may be declared, and has the answer
of every broker that answers.  What it then wants must be one of the model's steps, and it must want something whenever the
model could have a leader that answers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.election import (
    Brokers,
    elect,
    elect_restarted,
    elect_restored,
    needs_answers,
)
from oncelog_partition_leader.core.replication.replica_state import LogState, ReplicaState, Seal
from oncelog_runtime.metadata.cluster_keys import Partition
from tests.model.explorer import Broken, explore
from tests.model.replication import elections, rollbacks
from tests.model.replication.alike import key
from tests.model.replication.protocol import Replication
from tests.model.replication.rules import ALL_RULES
from tests.model.replication.scenarios import CUT, DISK, LAST_ONE, LEFT_ALONE, OLD_SEAL, POWER, Scenario
from tests.model.replication.state import BROKERS, NOBODY, Broker, Refs, State, Value

DIFFERS = "differs"
_BEFORE = 0
"""In place of the incarnations before a restore, and of its revision: those of the model are counted by each broker."""


class Compared(Replication):
    """The same model, which reports what production decides otherwise."""

    def broken(self, state: State) -> Iterator[Broken]:
        controller = state.controller
        if controller < 0 or not state.answers(controller, controller) or state.controller_min != state.min_insync:
            return
        allowed = {after.value for _, after in elections.steps(state, self.rules)} - {state.value}
        wanted = decided(state)
        useful = [value for value in allowed if state.answers(value.leader, controller)]
        if wanted is None and useful:
            yield Broken(DIFFERS, f"production does nothing, the model one of {useful}")
        if wanted is not None and wanted not in allowed:
            yield Broken(DIFFERS, f"production wants {wanted}, the model one of {allowed}")

    def broken_at_rest(self, state: State) -> list[Broken]:
        return []


def decided(state: State) -> Value | None:
    """What production makes of a state: by the registrations alone, or by what the replicas say of their logs."""
    partition, brokers = _partition(state.value), _brokers(state)
    if state.restored != NOBODY:
        wanted = elect_restored(partition, _answers_of_all(state), _BEFORE)
        return None if wanted is None else _value(wanted)
    wanted = elect(partition, brokers, state.min_insync)
    if wanted is None and needs_answers(partition, brokers):
        wanted = elect_restarted(partition, _answers(state), state.min_insync)
    return None if wanted is None else _value(wanted)


def _partition(value: Value) -> Partition:
    leader = BrokerRef(value.leader, value.leader_incarnation)
    return Partition("t", BROKERS, leader, value.epoch, _named(value.isr), eligible=_named(value.eligible))


def _named(refs: Refs) -> tuple[BrokerRef, ...]:
    return tuple(BrokerRef(index, ref) for index, ref in enumerate(refs) if ref)


def _brokers(state: State) -> Brokers:
    registered = _named(state.registered)
    dead = [ref for ref in registered if elections.is_dead(state, ref.broker_id, ALL_RULES)]
    heard = [ref for ref in registered if state.heard[ref.broker_id]]
    return Brokers(dict(registered), dead, heard=heard.__contains__)


def _answers(state: State) -> dict[int, tuple[BrokerRef, ReplicaState]]:
    members = elections.members(state.value)
    return {
        index: (
            BrokerRef(index, broker.incarnation),
            _said(broker),
        )
        for index, broker in enumerate(state.brokers)
        if members[index] and state.answers(index, state.controller)
    }


def _answers_of_all(state: State) -> dict[int, tuple[BrokerRef, ReplicaState]]:
    """After a restore; whoever has not noticed it answers as an incarnation of before."""
    return {
        index: (BrokerRef(index, broker.incarnation if rollbacks.has_noticed(state, index) else _BEFORE), _said(broker))
        for index, broker in enumerate(state.brokers)
        if state.answers(index, state.controller)
    }


def _said(broker: Broker) -> ReplicaState:
    seal = None if broker.seal is None else Seal(*broker.seal)
    log = LogState(broker.reached_epoch, len(broker.log))
    return ReplicaState(log, broker.intact_since, broker.born, known_epoch=broker.known_epoch, seal=seal)


def _value(partition: Partition) -> Value:
    leader = partition.leader
    assert leader is not None
    isr, eligible = dict(partition.isr), dict(partition.eligible)
    return Value(
        leader.broker_id,
        leader.incarnation,
        partition.leader_epoch,
        tuple(isr.get(index, 0) for index in BROKERS),
        tuple(eligible.get(index, 0) for index in BROKERS),
    )


@pytest.mark.parametrize("scenario", [POWER, LAST_ONE, DISK, CUT, LEFT_ALONE], ids=lambda scenario: scenario.name)
def test_production_decides_as_the_model(scenario: Scenario) -> None:
    found = explore(Compared(scenario, ALL_RULES), key=key)
    assert not found.violations, "\n\n".join(map(str, found.violations.values()))
    assert found.complete


@pytest.mark.parametrize("rule", ["eligible_is_kept", "power_cut_is_noticed", "waits_for_all"])
def test_another_rule_would_be_seen(rule: str) -> None:
    found = explore(Compared(POWER, ALL_RULES.without(rule)), until=frozenset({DIFFERS}), key=key)
    assert DIFFERS in found.violations


@pytest.mark.parametrize("rule", ["seal_counts_as_intact", "seal_is_of_one_epoch"])
def test_another_rule_of_seals_would_be_seen(rule: str) -> None:
    scenario = LAST_ONE if rule == "seal_counts_as_intact" else OLD_SEAL
    found = explore(Compared(scenario, ALL_RULES.without(rule)), until=frozenset({DIFFERS}), key=key)
    assert DIFFERS in found.violations


@pytest.mark.parametrize(
    "rule", ["all_are_asked_after_restore", "restore_is_noticed_first", "restored_value_is_not_believed"]
)
def test_another_rule_of_restores_would_be_seen(rule: str) -> None:
    found = explore(Compared(LEFT_ALONE, ALL_RULES.without(rule)), until=frozenset({DIFFERS}), key=key)
    assert DIFFERS in found.violations
