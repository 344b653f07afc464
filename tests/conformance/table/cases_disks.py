"""What disks do, and the scripts that show what it may cost."""

from __future__ import annotations

from typing import Final

from tests.conformance.table.cases import Case


def _stall(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_stalled_disks.py::{name}" for name in names))


def _full(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_disk_thresholds.py::{name}" for name in names))


def _failed(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_failed_logs.py::{name}" for name in names))


DISKS: Final[dict[str, Case]] = {
    "disk 1": _stall(
        "who cannot acknowledge because its disk does not answer gives way, and comes back by itself",
        "test_a_leader_whose_syncs_do_not_end_gives_way_and_comes_back_as_a_follower",
        "test_a_follower_whose_syncs_do_not_end_leaves_the_isr",
        "test_partitions_that_wait_for_no_disk_only_change_their_leader",
        "test_transactions_go_on_when_the_disk_under_their_shard_hangs",
        "test_a_write_that_blocks_the_process_makes_its_peers_elect_another",
    ),
    "disk 2": _stall(
        "where nobody else can lead, what could not be acknowledged is refused by name",
        "test_where_nobody_else_can_lead_it_stays_and_refuses_by_name",
    ),
    "disk 3": _stall(
        "nothing is claimed of what was not synced", "test_what_was_never_synced_is_not_trusted_after_a_power_cut"
    ),
    "disk 4": _stall(
        "nothing piles up before a hung disk, and no check of a payload waits for it",
        "test_nobody_piles_up_before_a_hung_disk",
        "test_a_hung_disk_delays_no_check_of_a_payload",
    ),
    "disk 5": _full(
        "before a disk is full, who has room leads, and markers and the cluster's own logs have theirs",
        "test_a_leader_whose_disk_is_nearly_full_lets_another_one_lead",
        "test_with_every_disk_nearly_full_transactions_end_and_offsets_are_committed",
    ),
    "disk 6": Case(
        "an older image of a disk, put back, is not taken for whole",
        (
            "conformance/replication/test_elections_below_min_isr.py::test_an_older_image_of_a_disk_does_not_lead_over_whole_logs",
        ),
    ),
    "slow 1": Case(
        "a peer that takes nothing costs no memory",
        ("conformance/replication/test_slow_peers.py::test_a_follower_that_takes_nothing_costs_its_leader_no_memory",),
    ),
    "log 1": _failed(
        "a log that fails costs its own partition one replica for a while, and no other partition anything",
        "test_one_failed_log_leaves_its_own_partition_alone",
        "test_two_brokers_with_a_bad_sector_each_lose_no_availability",
    ),
    "log 2": _failed(
        "what a lost log had acknowledged counts no more, also after a crash",
        "test_a_follower_that_lost_records_joins_by_what_it_has_now",
        "test_a_process_that_dies_before_it_could_tell_vouches_for_less_afterwards",
    ),
    "log 3": _failed(
        "the last replica takes a new incarnation", "test_the_last_replica_takes_a_new_incarnation_and_leads_on"
    ),
}
