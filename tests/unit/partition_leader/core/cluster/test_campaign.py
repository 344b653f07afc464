"""A broker claims the controller's role only when nobody who lives has it, and looks at what a key makes due."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.campaign import (
    Campaign,
    CampaignFacts,
    Duty,
    DutyFacts,
    Look,
    campaign,
    is_due,
    look_after,
    must_not_lead,
)
from oncelog_runtime.metadata import cluster_keys

ME, OTHER, THIRD = BrokerRef(1, 7), BrokerRef(2, 8), BrokerRef(3, 9)
BOTH = (False, True)
ALL = [
    CampaignFacts(is_ready, ME, holder, registered, overthrows, must_not, minority)
    for is_ready, holder, registered, overthrows, must_not, minority in product(
        BOTH, (None, ME, BrokerRef(1, 6), OTHER), BOTH, (None, OTHER, THIRD), BOTH, BOTH
    )
]


def expected(facts: CampaignFacts) -> Campaign:
    """The rules, as sentences."""
    others_live = facts.holder not in (None, facts.overthrows) and facts.holder_is_registered
    if not facts.is_ready:
        return Campaign.NOT_READY
    if facts.holder == ME:
        return Campaign.HOLDS
    if facts.must_not_lead or others_live:
        return Campaign.STAY_OUT
    if facts.is_minority:
        return Campaign.CUT_OFF
    return Campaign.CLAIM


@pytest.mark.parametrize("facts", ALL, ids=str)
def test_every_combination_of_facts_has_its_step(facts: CampaignFacts) -> None:
    assert campaign(facts) is expected(facts)


def test_a_living_holder_is_never_overwritten_unless_it_was_found_dead() -> None:
    claims = [facts for facts in ALL if campaign(facts) is Campaign.CLAIM and facts.holder_is_registered]
    assert {facts.holder for facts in claims} <= {None, OTHER}
    assert all(facts.holder is None or facts.overthrows == facts.holder for facts in claims)


@pytest.mark.parametrize(
    ("draining", "registered", "must_not"),
    [
        (None, (1, 2), False),
        (OTHER, (1, 2), False),
        (ME, (1, 2), True),
        (ME, (1,), False),
        (BrokerRef(1, 6), (1, 2), False),
    ],
)
def test_a_broker_that_drains_leaves_the_role_to_others_that_exist(
    draining: BrokerRef | None, registered: tuple[int, ...], must_not: bool
) -> None:
    assert must_not_lead(ME, draining, registered) is must_not


@pytest.mark.parametrize(
    ("key", "look"),
    [
        (f"{cluster_keys.PARTITIONS}x/0", Look.PARTITION),
        (f"{cluster_keys.BROKERS}1", Look.ELECTIONS | Look.TOPICS),
        (f"{cluster_keys.TOPICS}t", Look.TOPICS),
        (f"{cluster_keys.DELETED_TOPICS}x", Look.TOPICS),
        (cluster_keys.BROKER_DRAIN_KEY, Look.ELECTIONS),
        (f"{cluster_keys.DECOMMISSIONS}1", Look.TOPICS),
        (cluster_keys.SESSION_KEY, Look.NOTHING),
        (cluster_keys.CONTROLLER_KEY, Look.ROLE),
        (cluster_keys.CLUSTER_KEY, None),
        (f"{cluster_keys.SHARDS}txn/1/owner", None),
        (f"{cluster_keys.COORDINATORS}a:1", None),
        (cluster_keys.COORDINATOR_DRAIN_KEY, None),
        (f"{cluster_keys.REASSIGNMENTS}x/0", None),
        (f"{cluster_keys.CONTROLLER_KEY}_of_a_later_version", None),
    ],
)
def test_each_key_has_its_work(key: str, look: Look | None) -> None:
    assert look_after(key) == look


@pytest.mark.parametrize("values", list(product(BOTH, repeat=4)), ids=str)
def test_each_duty_is_due_by_its_own_facts(values: tuple[bool, bool, bool, bool]) -> None:
    facts = DutyFacts(*values)
    assert {duty for duty in Duty if is_due(duty, facts)} == {
        duty
        for duty, due in (
            (Duty.FOUND_CLUSTER, not facts.has_cluster),
            (Duty.WRITE_SESSION_KEY, not facts.has_session_key),
            (Duty.RECONCILE_TOPICS, facts.topics_dirty and facts.has_cluster),
            (Duty.MOVE_REPLICAS, facts.moves_dirty),
        )
        if due
    }


def test_the_cluster_is_founded_before_its_topics_are_made() -> None:
    assert list(Duty) == sorted(Duty, key=lambda duty: duty.value)
    assert Duty.FOUND_CLUSTER.value < Duty.RECONCILE_TOPICS.value < Duty.MOVE_REPLICAS.value
