"""Rules of operations (draining, moving replicas), and the scripts that show each."""

from __future__ import annotations

from typing import Final

from tests.conformance.cases import Case


def _drain(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/test_draining.py::{name}" for name in names))


OPERATIONS: Final[dict[str, Case]] = {
    "drain 1": _drain(
        "leaderships and the controller's role go, replicas stay",
        "test_a_drained_broker_leads_nothing_and_stays_in_every_isr",
        "test_a_clean_stop_drains_first",
    ),
    "drain 2": _drain(
        "one at a time, and who is gone blocks nobody",
        "test_one_broker_drains_at_a_time_and_cancel_ends_it",
        "test_the_drain_of_a_dead_broker_blocks_nobody",
        "test_a_lost_answer_of_etcd_leaves_no_doubt_about_a_drain",
    ),
    "drain 3": _drain(
        "a drain belongs to one incarnation",
        "test_a_new_incarnation_does_not_drain_and_removes_what_the_old_one_left",
        "test_another_broker_than_the_one_that_is_meant_refuses",
    ),
    "drain 4": _drain(
        "who drains is not elected while another can lead", "test_nobody_who_drains_is_elected_while_another_can_lead"
    ),
    "drain 5": _drain("it is skipped where it is of no use", "test_a_cluster_of_two_skips_the_drain"),
    "drain 6": _drain(
        "a coordinator that drains owns nothing while another is there",
        "test_a_drained_coordinator_owns_nothing_until_it_is_started_again",
        "test_a_cancelled_coordinator_owns_shards_again",
        "test_the_only_coordinator_skips_the_drain",
        "test_a_draining_coordinator_that_is_left_alone_owns_shards_again",
    ),
}
